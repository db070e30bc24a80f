"""English sentences that are told in another language by a list of patterns."""

from __future__ import annotations

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

_NEXT = re.compile(r"(?<=\.) (?=[A-Z/])")


def translated(text: str, sentences: Iterable[tuple[str, str]]) -> str:
    """Return ``text`` by the first pattern that fits the whole of it, else sentence by sentence.

    What no pattern fits (Linux's own words, a path) stays as it is.
    """
    pairs = tuple(sentences)
    whole = _by_one(text, pairs)
    if whole is not None:
        return whole
    parts = [(part, _by_one(part, pairs)) for part in _NEXT.split(text)]
    if all(known is None for _, known in parts):
        return text
    told = ""
    for part, known in parts:
        told += " " * (told.endswith(".") or (bool(told) and known is None)) + (known or part)
    return told


def _by_one(text: str, pairs: tuple[tuple[str, str], ...]) -> str | None:
    for english, other in pairs:
        found = re.fullmatch(english, text, re.DOTALL)
        if found is not None:
            return found.expand(other)
    return None
