"""How two notebooks differ for a person: cells that came, went or changed; outputs are counted, not shown."""

from __future__ import annotations

import json

from sentinel_kernel.record import Record
from sentinel_kernel.workspace.line_changes import line_changes
from sentinel_kernel.workspace.shown_text import unified

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from sentinel_kernel.workspace.shown_text import Budget

_MOST_CELLS_SHOWN = 60


class _Cell(Record):
    identifier: str
    kind: str
    source: str
    outputs: int
    """A hash of all outputs: whether they are others is all that is told of them."""


class _Notebook(Record):
    cells: tuple[_Cell, ...]
    metadata: int


def notebook_difference(old: bytes | None, new: bytes | None, budget: Budget) -> dict[str, Any] | None:
    """Return ``cells``, ``outputs`` and ``metadata``; None where one of the two can't be read as a notebook.

    A cell has ``what`` (added, removed, changed, moved), its ``place`` from 1, its ``kind`` and ``lines``.
    ``outputs`` counts the cells whose outputs changed, ``metadata`` tells whether the notebook's own did.
    """
    before = _Notebook((), 0) if old is None else _read(old)
    after = _Notebook((), 0) if new is None else _read(new)
    if before is None or after is None:
        return None
    pairs, gone, come = _matched(before.cells, after.cells)
    found: list[dict[str, Any]] = []
    moved = {after.cells[place].identifier: place for place in come if after.cells[place].identifier}
    for place in gone:
        cell = before.cells[place]
        target = moved.get(cell.identifier) if cell.identifier else None
        if target is None:
            found.append(_entry("removed", place, cell, cell.source, "", budget))
        else:
            come.remove(target)
            found.append(_entry("moved", target, cell, cell.source, after.cells[target].source, budget))
    for place in come:
        cell = after.cells[place]
        found.append(_entry("added", place, cell, "", cell.source, budget))
    outputs = 0
    for left, right in pairs:
        was, cell = before.cells[left], after.cells[right]
        outputs += was.outputs != cell.outputs
        if (was.kind, was.source) != (cell.kind, cell.source):
            found.append(_entry("changed", right, cell, was.source, cell.source, budget))
    found.sort(key=lambda entry: int(entry["place"]))
    if len(found) > _MOST_CELLS_SHOWN:
        budget.cut = True
    counts = {what: sum(entry["what"] == what for entry in found) for what in _WHAT}
    return {
        "cells": found[:_MOST_CELLS_SHOWN],
        "counts": counts,
        "outputs": outputs,
        "metadata": old is not None and new is not None and before.metadata != after.metadata,
    }


_WHAT = ("added", "removed", "changed", "moved")


def _read(data: bytes) -> _Notebook | None:
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):
        return None
    cells = document.get("cells") if isinstance(document, dict) else None
    if not isinstance(cells, list) or not all(isinstance(cell, dict) for cell in cells):
        return None
    try:
        return _Notebook(tuple(map(_cell, cells)), _digest(document.get("metadata")))
    except RecursionError:
        return None


def _cell(cell: dict[str, Any]) -> _Cell:
    source = cell.get("source")
    if isinstance(source, list):
        source = "".join(part for part in source if isinstance(part, str))
    identifier = cell.get("id")
    return _Cell(
        identifier if isinstance(identifier, str) else "",
        str(cell.get("cell_type"))[:20],
        source if isinstance(source, str) else "",
        _digest(cell.get("outputs")),
    )


def _digest(value: object) -> int:
    return hash(json.dumps(value, sort_keys=True))


def _matched(
    old: tuple[_Cell, ...], new: tuple[_Cell, ...]
) -> tuple[list[tuple[int, int]], list[int], list[int]]:
    """Return the places of cells that are the same ones, and of those that are on one side alone.

    By their ids where all have one of their own (nbformat 4.5), else by their text; then the n-th of neighbours
    that went and the n-th of those that came in their place are one that changed.
    """
    named = all(
        all(cell.identifier for cell in cells) and len({cell.identifier for cell in cells}) == len(cells)
        for cells in (old, new)
    )
    steps = line_changes(
        [cell.identifier if named else (cell.kind, cell.source) for cell in old],
        [cell.identifier if named else (cell.kind, cell.source) for cell in new],
    )
    pairs: list[tuple[int, int]] = []
    gone: list[int] = []
    come: list[int] = []
    run_gone: list[int] = []
    run_come: list[int] = []
    for kind, left, right in [*steps, (" ", -1, -1)]:
        if kind == "-":
            run_gone.append(left)
        elif kind == "+":
            run_come.append(right)
        else:
            both = 0 if named else min(len(run_gone), len(run_come))
            pairs += zip(run_gone[:both], run_come[:both], strict=True)
            gone += run_gone[both:]
            come += run_come[both:]
            run_gone, run_come = [], []
            if left >= 0:
                pairs.append((left, right))
    return pairs, gone, come


def _entry(what: str, place: int, cell: _Cell, old: str, new: str, budget: Budget) -> dict[str, Any]:
    lines, _, _ = unified(old, new, budget) if not budget.cut else ([], 0, 0)
    shown = [line for line in lines if not line.startswith("@@ ")] if what in ("added", "removed") else lines
    return {"what": what, "place": place + 1, "kind": cell.kind, "lines": shown}
