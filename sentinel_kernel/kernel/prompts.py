"""Prompts of cells: what looks like the host's own question is marked as the cell's.

False alarms cost a few words in front of a prompt, so that the test is wide: letters that look like Latin ones,
letters of writings that it does not know, and anything between the letters.
"""

from __future__ import annotations

import re

from sentinel_kernel.errors import ProtocolError
from sentinel_kernel.kernel.well_formed import read
from sentinel_kernel.kernel.wire import encode
from sentinel_kernel.policy.unseen import is_seen

TYPE_CHECKING = False
if TYPE_CHECKING:
    from sentinel_kernel.kernel.wire import Part

MARK = "Sentinel"
"""What every prompt of the host begins with; a prompt of a cell that looks the same is told apart."""

_FROM = "(from the code of the cell) "
_NEAR = 60
"""Characters between the words above and what they are about: as many as stand on one line with them."""

_PROMPT_BYTES = 64 * 1024
_ANY = "\ufffc"
"""Stands for a letter that may look like any other."""

_LOOKS_LIKE = {
    "s": "s$5\u0455\ua731\u01bd\u0405\u054f\u0282",
    "e": "e3\u0435\u0415\u0451\u0395\u03b5\u212e\u1d07\u0259\u0454\u04bd\u2c78",
    "n": "n\u039d\u03b7\u0274\u0578\u057c\u043f\u0438\u03c0\u014b\u0273\u1d28",
    "t": "t7+\u0442\u0422\u03c4\u03a4\u1d1b\u01ad\u0163",
    "i": "i1!|l\u4e28\u1175\u3127\u0456\u0406\u0457\u0399\u03b9\u0131\u0269\u026a\u04cf\u04c0\u1d09",
    "l": "l1!|i\u4e28\u1175\u3127\u04cf\u04c0\u029f\u0399\u0456\u0406\u0196\u01c0\u05d5\u05df\u0627\u0131",
}
# What may look like any letter may be a mere dot between two as well. Eight of them in a row are found at once.
_LATIN = re.compile(f"{_ANY}*".join(f"[{re.escape(_LOOKS_LIKE[letter])}{_ANY}]" for letter in "sentinel"))
_COLOUR = re.compile(r"\x1b\[[0-9;:]*m")

_KNOWN = (
    "LATIN ",
    "CYRILLIC ",
    "GREEK ",
    "CJK ",
    "HIRAGANA ",
    "KATAKANA ",
    "HANGUL ",
    "BOPOMOFO ",
    "ARABIC ",
    "HEBREW ",
    "DEVANAGARI ",
    "BENGALI ",
    "TAMIL ",
    "THAI ",
)
"""Writings whose letters that look like one of ours are listed above."""


def told_apart(content: Part) -> bytes:
    """Return the content of a cell's own prompt as it goes to the client, marked where it may pass for the host's.

    Raises ProtocolError where it is none.
    """
    value = read(content, _PROMPT_BYTES)
    prompt, password = value.get("prompt", ""), value.get("password", False)
    if not isinstance(prompt, str) or not isinstance(password, bool):
        raise ProtocolError("A prompt is no text.")
    if not (prompt.isascii() and prompt.isprintable()):
        from sentinel_kernel.kernel.filtering import terminal  # noqa: PLC0415 - most prompts are plain

        prompt = terminal.line(prompt)
    if places := _places(prompt):
        prompt = _marked(prompt, places)
    return encode({**value, "prompt": prompt, "password": password})


def looks_like_ours(prompt: str) -> bool:
    """Tell whether a person may read the host's mark in ``prompt``."""
    return bool(_places(prompt))


def _marked(prompt: str, places: list[int]) -> str:
    """Return ``prompt`` with whose it is in front, and again before a place that is far from there, or on another line.

    What stands above may have left the window when the person answers.
    """
    parts, last = [_FROM], 0
    for place in places:
        between = prompt[last:place]
        if len(between) > _NEAR or "\n" in between:
            parts += [between, _FROM]
            last = place
    return "".join([*parts, prompt[last:]])


def _places(prompt: str) -> list[int]:
    """Return where a person may read the host's mark."""
    import unicodedata  # noqa: PLC0415 - not on the start path

    letters, indices = [], []
    # Colours show nothing themselves: the letters before and behind one stand side by side.
    plain = prompt if prompt.isprintable() else _COLOUR.sub(lambda found: " " * len(found[0]), prompt)
    for index, written in enumerate(plain):
        spelled = written if written.isascii() else unicodedata.normalize("NFKD", written)
        for character in spelled.casefold():
            letter = character if character.isascii() or character in _LISTED else _read_as(character)
            if letter and (letter.isalnum() or letter in _MARKS):
                letters.append(letter)
                indices.append(index)
    return [indices[found.start()] for found in _LATIN.finditer("".join(letters))]


def _read_as(character: str) -> str:
    """Return what a letter that is not listed may be read as; nothing where nobody sees it, or sees a line."""
    import unicodedata  # noqa: PLC0415 - as above

    exact = unicodedata.category(character)
    if exact in _SEEN or exact == "Lm":  # modifiers are dots and strokes
        return _ANY
    if exact[0] not in "LNSP" or not is_seen(character):
        return ""
    name = unicodedata.name(character, "")
    if exact[0] in "SP":  # marks of any writing may look like strokes; lines of a box look like hyphens
        return "" if name.startswith("BOX DRAWINGS ") and "VERTICAL" not in name else _ANY
    if name.startswith("LATIN ") and len(base := name.partition(" WITH ")[0].split()[-1]) == 1:
        return base.casefold()  # l with a stroke is read as l
    return "\ufffd" if name.startswith(_KNOWN) and "SMALL CAPITAL" not in name else _ANY


_SEEN = frozenset({"Mc", "Co", "Cn"})
"""Marks that take a place of their own, and what fonts may draw as they like."""

_LISTED = frozenset("".join(_LOOKS_LIKE.values()))
_MARKS = _LISTED | {_ANY, "\ufffd"}
