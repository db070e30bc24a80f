"""Says in a cell that it has not ended on an interrupt, and what to do: its worker may be past answering anything.

It is ended by nobody but the person: a computation in an extension module, or code that catches KeyboardInterrupt,
is ordinary, and goes on for as long as it likes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sentinel_kernel.kernel import words
from sentinel_kernel.kernel.cells import Stage

if TYPE_CHECKING:
    from sentinel_kernel.kernel.cells import Cell
    from sentinel_kernel.kernel.host import Host

UNHEEDED_SECONDS = 10.0
"""How long a cell may go on after an interrupt before it is told: libraries tidy up, and children end."""


class Unheeded:
    """Looks after the interrupts of one host; each cell is told of once."""

    def __init__(self, host: Host) -> None:
        self._host = host

    def interrupted(self) -> None:
        """Take note that the running cells are being interrupted."""
        cells = [cell for cell in self._host.execution.running.values() if _goes_on(cell)]
        if cells:
            attempts = [cell.attempt for cell in cells]
            self._host.loop.call_later(UNHEEDED_SECONDS, lambda: self._look(cells, attempts))

    def _look(self, cells: list[Cell], attempts: list[int]) -> None:
        for cell, attempt in zip(cells, attempts, strict=True):
            running = self._host.execution.running.get(cell.request.msg_id) is cell
            if running and _goes_on(cell) and cell.attempt == attempt:
                told = words.unheeded(round(UNHEEDED_SECONDS))
                self._host.displays.notice(told, "notice", cell.request.header, cell, "unheeded")


def _goes_on(cell: Cell) -> bool:
    return cell.stage is Stage.RUNNING and not (cell.idle or cell.replied or cell.silent)
