"""What SPECIFICATION.md says: which tests hold a promise, and which carry the number of a pitfall."""

from __future__ import annotations

import functools
import re
from pathlib import Path

PATH = Path(__file__).resolve().parents[2] / "SPECIFICATION.md"
_ROW = re.compile(r"\| ([A-Z]?)(\d+) \| (.+?) \| (.+) \|")
_TEST = re.compile(r"`([\w/]+\.py)::(\w+)`")


@functools.cache
def rows() -> list[tuple[str, int, str, str]]:
    """Return every row: letter of its section (empty for pitfalls), number, what it says, and its last column."""
    found = map(_ROW.fullmatch, PATH.read_text(encoding="utf-8").splitlines())
    return [(row[1], int(row[2]), row[3], row[4]) for row in found if row is not None]


def named_in(column: str) -> list[tuple[str, str]]:
    """Return the tests that a row names: file below tests/, and function."""
    return _TEST.findall(column)


@functools.cache
def pitfalls() -> dict[tuple[str, str], list[int]]:
    """Return the numbers of the pitfalls that each test carries, by the end of its file's path and its function."""
    carried: dict[tuple[str, str], list[int]] = {}
    for letter, number, _, column in rows():
        for file, name in named_in(column) if not letter else ():
            carried.setdefault(("/".join(file.split("/")[-2:]), name), []).append(number)
    return carried
