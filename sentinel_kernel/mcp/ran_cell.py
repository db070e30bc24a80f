"""One cell that was run, and how it came to its end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sentinel_kernel.record import MutableRecord

if TYPE_CHECKING:
    from sentinel_kernel.mcp.cell_outputs import CellOutputs

FINISHED, TIMEOUT, CANCELLED, DIED, INPUT = "finished", "timeout", "cancelled", "died", "input"
"""How a cell came to its end: by itself, too long, given up by the client, with its kernel, waiting for input()."""


class Ran(MutableRecord):
    """One cell that was run. ``ended`` is how it came to its end; ``kernel_lost``: its kernel had to be ended."""

    outputs: CellOutputs
    ended: str
    status: str
    execution_count: int | None
    seconds: float
    kernel_lost: bool = False
