"""The cells that have run: a thread of one may be refused something while another runs, and its line is the first's."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sentinel_kernel.record import Record

if TYPE_CHECKING:
    from sentinel_kernel.kernel.cells import Cell

MOST_CELLS = 256
MOST_CHARACTERS = 1 << 20
"""As many as the supervisor knows the lines of (policy/cell_lines.py)."""


class EarlierCell(Record):
    """What is told of a cell that has run."""

    execution_count: int | None
    code: str


class EarlierCells:
    """The last cells by their ``msg_id``, up to a bound."""

    def __init__(self) -> None:
        self._cells: dict[str, EarlierCell] = {}
        self._characters = 0

    def remember(self, cell: Cell) -> None:
        """Take note of a cell, as far as it has come."""
        self._forget(cell.request.msg_id)
        self._cells[cell.request.msg_id] = EarlierCell(cell.execution_count, cell.code)
        self._characters += len(cell.code)
        while len(self._cells) > MOST_CELLS or (self._characters > MOST_CHARACTERS and len(self._cells) > 1):
            self._forget(next(iter(self._cells)))

    def find(self, msg_id: object) -> EarlierCell | None:
        """Return the cell, None where it is not known, or no longer."""
        return self._cells.get(msg_id) if isinstance(msg_id, str) else None

    def _forget(self, msg_id: str) -> None:
        cell = self._cells.pop(msg_id, None)
        if cell is not None:
            self._characters -= len(cell.code)
