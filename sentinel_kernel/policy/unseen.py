"""Which characters nobody sees though Python counts them as printable, and how they are shown; pure.

str.isprintable() refuses controls, format characters and what is not assigned. Of what Unicode has renderers ignore
(Default_Ignorable_Code_Point, DerivedCoreProperties.txt) some are marks or letters all the same, as are the fillers of
Hangul and the empty Braille cell, which are blank: a message of such characters reaches a language model, or makes two
names of one, and a person sees nothing of it.
"""

from __future__ import annotations

import re

_UNSEEN = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180d\u180f\u2800\u3164\ufe00-\ufe0d\uffa0\U000e0100-\U000e01ef]"
    # Behind a symbol or in a keycap these two choose between a sign and a picture.
    "|(?<![\xa9\xae\u203c\u2049\u2100-\u27bf\u2900-\u297f\u2b00-\u2bff\u3030\u303d\u3297\u3299\U0001f000-\U0001faff])"
    "(?:(?<![#*0-9])[\ufe0e\ufe0f]|[\ufe0e\ufe0f](?!\u20e3))"
)


def is_seen(text: str) -> bool:
    """Tell whether a reader sees every character of ``text`` that is no blank."""
    return text.isprintable() and (text.isascii() or _UNSEEN.search(text) is None)


def with_escapes(text: str, kept: str = "") -> str:
    r"""Return ``text`` with what can't be seen as Python's escapes (``\u200b``), but for the characters in ``kept``."""
    if is_seen(text):
        return text
    plain = "".join(
        character if character.isprintable() or character in kept else escape_of(character)
        for character in text
    )
    return _UNSEEN.sub(lambda found: escape_of(found[0]), plain)


def escape_of(character: str) -> str:
    """Return Python's escape for one character; surrogates have one too."""
    return character.encode("unicode_escape", "surrogatepass").decode("ascii")
