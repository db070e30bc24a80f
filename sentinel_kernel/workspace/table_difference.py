"""How two tables of text (CSV, TSV) differ for a person: columns and rows that came, went or changed, with examples."""

from __future__ import annotations

import csv
import io

from sentinel_kernel.record import Record
from sentinel_kernel.workspace.line_changes import line_changes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from sentinel_kernel.workspace.shown_text import Budget

_MOST_FIELDS = 400_000
"""Rows and fields of one table that are looked at; one of nothing but separators holds a field a byte."""

_DELIMITERS = ",;\t|"
_MOST_EXAMPLES = 12
_MOST_NAMES = 30
_HEAD_ROWS = 5
_VALUE_CHARACTERS = 60


class _Table(Record):
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def table_difference(old: str | None, new: str | None, budget: Budget) -> dict[str, Any] | None:
    """Return ``columns``, ``rows`` and ``examples``; None where one of the two is no table within the bounds.

    ``columns`` has the names ``added`` and ``removed`` and how many there were (``before``) and are (``after``);
    ``rows`` counts ``added``, ``removed``, ``changed``, ``before`` and ``after``. An example is a changed field:
    ``row``, ``column``, ``before``, ``after``. Of a new table ``head`` has the first rows; of a changed one ``came``
    and ``went`` have the header and the first rows that were added and removed, each behind its number.
    """
    before = _Table((), ()) if old is None else _read(old)
    after = _Table((), ()) if new is None else _read(new)
    if before is None or after is None:
        return None
    examples: list[dict[str, str]] = []
    whole: dict[str, list[list[str]]] = {}
    if old is None or new is None:
        counts = {"added": len(after.rows), "removed": len(before.rows), "changed": 0}
    else:
        counts, gone, come = _compare(before, after, budget, examples)
        whole = {"went": _whole(before, gone, budget), "came": _whole(after, come, budget)}
    told: dict[str, Any] = {
        "columns": {
            "added": _names(after.header, before.header, budget),
            "removed": _names(before.header, after.header, budget),
            "before": len(before.header),
            "after": len(after.header),
        },
        "rows": {**counts, "before": len(before.rows), "after": len(after.rows)},
        "examples": examples,
        "head": [],
        **whole,
    }
    if old is None:
        told["head"] = [_shown(row, budget) for row in (after.header, *after.rows[:_HEAD_ROWS])]
    return told


def _shown(row: Sequence[str], budget: Budget) -> list[str]:
    shown = (budget.take(value, _VALUE_CHARACTERS) for value in row[:_MOST_NAMES])
    return [value for value in shown if value is not None]


def _whole(table: _Table, places: list[int], budget: Budget) -> list[list[str]]:
    """Return the header and the first rows of those at ``places``, each behind the number that it has in the file."""
    if not places:
        return []
    rows = [[str(place + 2), *_shown(table.rows[place], budget)] for place in sorted(places)[:_HEAD_ROWS]]
    return [["", *_shown(table.header, budget)], *rows]


def _read(text: str) -> _Table | None:
    first = text.partition("\n")[0]
    delimiter = max(_DELIMITERS, key=first.count)
    rows: list[tuple[str, ...]] = []
    fields = 0
    try:
        for row in csv.reader(io.StringIO(text, newline=""), delimiter=delimiter):
            fields += 1 + len(row)
            if fields > _MOST_FIELDS:
                return None
            rows.append(tuple(row))
    except csv.Error:
        return None
    return _Table(rows[0], tuple(rows[1:])) if rows and len(rows[0]) > 1 else None


def _names(here: Sequence[str], there: Sequence[str], budget: Budget) -> list[str]:
    known = set(there)
    names = [name for name in here if name not in known]
    if len(names) > _MOST_NAMES:
        budget.cut = True
    shown = (budget.take(name, _VALUE_CHARACTERS) for name in names[:_MOST_NAMES])
    return [name for name in shown if name is not None]


def _compare(
    before: _Table, after: _Table, budget: Budget, examples: list[dict[str, str]]
) -> tuple[dict[str, int], list[int], list[int]]:
    """Count rows that came, went or changed in the columns that both have, and keep examples of the latter.

    Returns the counts, which rows went, and which came.
    """
    known = set(after.header)
    common = [name for name in dict.fromkeys(before.header) if name in known]
    left = _columns(before, common)
    right = _columns(after, common)
    pairs, gone, come = _by_key(left, right) or _by_place(left, right)
    changed = 0
    for old, new in pairs:
        if left[old] == right[new]:
            continue
        changed += 1
        for name, was, now in zip(common, left[old], right[new], strict=True):
            if was != now and len(examples) < _MOST_EXAMPLES:
                texts = [budget.take(text, _VALUE_CHARACTERS) for text in (name, was, now)]
                if None not in texts:
                    column, was_shown, now_shown = map(str, texts)
                    example = {"row": str(new + 2), "column": column, "before": was_shown, "after": now_shown}
                    examples.append(example)
    return {"added": len(come), "removed": len(gone), "changed": changed}, gone, come


def _columns(table: _Table, names: Sequence[str]) -> list[tuple[str, ...]]:
    first = {name: place for place, name in reversed(list(enumerate(table.header)))}
    places = [first[name] for name in names]
    return [tuple(row[place] if place < len(row) else "" for place in places) for row in table.rows]


def _by_key(
    left: list[tuple[str, ...]], right: list[tuple[str, ...]]
) -> tuple[list[tuple[int, int]], list[int], list[int]] | None:
    """Match rows by their first column where that tells them apart on both sides; None where it does not."""
    if not left or not right or not left[0]:
        return None
    old = {row[0]: place for place, row in enumerate(left)}
    new = {row[0]: place for place, row in enumerate(right)}
    if len(old) != len(left) or len(new) != len(right) or not old.keys() & new.keys():
        return None
    pairs = [(place, new[key]) for key, place in old.items() if key in new]
    gone = [place for key, place in old.items() if key not in new]
    return pairs, gone, [place for key, place in new.items() if key not in old]


def _by_place(
    left: list[tuple[str, ...]], right: list[tuple[str, ...]]
) -> tuple[list[tuple[int, int]], list[int], list[int]]:
    """Match rows that are the same; of those that went, and came in the same place, the n-th are one that changed."""
    pairs: list[tuple[int, int]] = []
    gone: list[int] = []
    come: list[int] = []
    run_gone: list[int] = []
    run_come: list[int] = []
    for kind, old, new in [*line_changes(left, right), (" ", -1, -1)]:
        if kind == "-":
            run_gone.append(old)
        elif kind == "+":
            run_come.append(new)
        else:
            both = min(len(run_gone), len(run_come))
            pairs += zip(run_gone[:both], run_come[:both], strict=True)
            gone += run_gone[both:]
            come += run_come[both:]
            run_gone, run_come = [], []
            if old >= 0:
                pairs.append((old, new))
    return pairs, gone, come
