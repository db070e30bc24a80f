"""The gauge's place in the host: nothing of it is loaded before it is first asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sentinel_kernel.kernel.cells import Cell
    from sentinel_kernel.kernel.gauge import Gauge
    from sentinel_kernel.kernel.host import Host


class GaugeEntry:
    """Passes on what happens to the gauge, once there is one (gauge.py)."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._gauge: Gauge | None = None

    def want(self, cell: Cell) -> None:
        """Show it in ``cell`` as soon as that has begun."""
        if self._gauge is None:
            from sentinel_kernel.kernel.gauge import Gauge  # noqa: PLC0415 - not on the start path

            self._gauge = Gauge(self._host)
        self._gauge.want(cell)

    def refresh_soon(self) -> None:
        """Bring it up to date: something that it shows has changed."""
        if self._gauge is not None:
            self._gauge.refresh_soon()

    def cell_begins(self, cell: Cell) -> None:
        """Tell that ``cell`` has begun: its execute_input has gone out."""
        if self._gauge is not None:
            self._gauge.cell_begins(cell)

    def cell_ends(self, cell: Cell) -> None:
        """Tell that ``cell`` ends: its idle is about to go out."""
        if self._gauge is not None:
            self._gauge.cell_ends(cell)

    def worker_gone(self) -> None:
        """Tell that the worker died, before clients hear of it."""
        if self._gauge is not None:
            self._gauge.worker_gone()
