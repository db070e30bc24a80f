"""What is typed behind `%sentinel_explain` and `%sentinel_violations`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sentinel_kernel.kernel.session_violations import MOST
from sentinel_kernel.record import Record

if TYPE_CHECKING:
    from collections.abc import Sequence

EXPLAIN, VIOLATIONS = "sentinel_explain", "sentinel_violations"
SHOWN = 20
"""How many violations the table shows where no number was typed."""


class PageWanted(Record):
    """A page about violations: the ``number``-th last one at length, or a table of the ``number`` last ones."""

    name: str
    number: int
    as_data: bool = False


def read_page(name: str, words: Sequence[str]) -> PageWanted | None:
    """Return the page that a line asks for; None where it can't be understood."""
    if name == EXPLAIN:
        number = _number(words[0]) if words else 1
        return PageWanted(name, number) if number and len(words) <= 1 else None
    rest = list(words)
    number = SHOWN
    as_data = False
    while rest:
        word = rest.pop(0)
        if word == "--json" and not as_data:
            as_data = True
        elif word == "--last" and rest and (found := _number(rest.pop(0))):
            number = found
        else:
            return None
    return PageWanted(name, number, as_data)


def _number(word: str) -> int:
    """Return a number from 1 to how many are kept, else 0."""
    if not (word.isascii() and word.isdecimal() and len(word) <= len(str(MOST))):
        return 0
    return int(word) if int(word) <= MOST else 0
