"""Prompts of cells: what looks like the host's own question is marked as the cell's.

False alarms cost a few words in front of a prompt, so that the test is wide: letters that look like Latin ones,
letters of writings that it does not know, and anything between the letters.
"""

from __future__ import annotations

import re

from sentinel_kernel.errors import ProtocolError
from sentinel_kernel.kernel.well_formed import read
from sentinel_kernel.kernel.wire import encode

TYPE_CHECKING = False
if TYPE_CHECKING:
    from sentinel_kernel.kernel.wire import Part

MARK = "Sentinel"
"""What every prompt of the host begins with; a prompt of a cell that looks the same is told apart."""

_PROMPT_BYTES = 64 * 1024
_ANY = "\ufffc"
"""Stands for a letter that may look like any other."""

_LOOKS_LIKE = {
    "s": "s$5\u0455\ua731\u01bd\u0405\u054f\u0282",
    "e": "e3\u0435\u0415\u0451\u0395\u03b5\u212e\u1d07\u0259\u0454\u04bd\u2c78",
    "n": "n\u039d\u03b7\u0274\u0578\u057c\u043f\u0438\u03c0\u014b\u0273\u1d28",
    "t": "t7+\u0442\u0422\u03c4\u03a4\u1d1b\u01ad\u0163",
    "i": "i1!|l\u0456\u0406\u0457\u0399\u03b9\u0131\u0269\u026a\u04cf\u04c0\u1d09",
    "l": "l1!|i\u04cf\u04c0\u029f\u0399\u0456\u0406\u0196\u01c0\u05d5\u05df\u0627\u0131",
}
_LATIN = re.compile("".join(f"[{re.escape(_LOOKS_LIKE[letter])}{_ANY}]" for letter in "sentinel"))

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
    "BOX DRAWINGS ",
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
    if looks_like_ours(prompt):
        prompt = f"(from the code of the cell) {prompt}"
    return encode({**value, "prompt": prompt, "password": password})


def looks_like_ours(prompt: str) -> bool:
    """Tell whether a person may read the host's mark in ``prompt``."""
    import unicodedata  # noqa: PLC0415 - not on the start path

    letters = []
    for character in unicodedata.normalize("NFKD", prompt).casefold():
        if character.isascii() or character in _LISTED:
            letters.append(character)
        elif (exact := unicodedata.category(character)) in _SEEN or exact[0] in "LNSP":
            kind, name = exact[0], unicodedata.name(character, "")
            known = name.startswith(_KNOWN) and "SMALL CAPITAL" not in name and exact not in _SEEN
            if kind in "SP":  # marks of any writing may look like strokes; lines of a box do not
                known = name.startswith("BOX DRAWINGS ") and "VERTICAL" not in name
            letters.append("\ufffd" if known else _ANY)
    shown = "".join(letter for letter in letters if letter.isalnum() or letter in _MARKS)
    return _LATIN.search(shown) is not None


_SEEN = frozenset({"Mc", "Co", "Cn"})
"""Marks that take a place of their own, and what fonts may draw as they like."""

_LISTED = frozenset("".join(_LOOKS_LIKE.values()))
_MARKS = _LISTED | {_ANY, "\ufffd"}
