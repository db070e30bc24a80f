"""What one cell took: its time, output and refusals as the host counts them, and on wish a line with all at its end."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from sentinel_kernel.record import MutableRecord

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sentinel_kernel.kernel.cells import Cell
    from sentinel_kernel.kernel.host import Host
    from sentinel_kernel.kernel.usage import Sample
    from sentinel_kernel.kernel.wire import Part

_WATCHER = "summary"
_REMEMBERED = 64


class _Began(MutableRecord):
    """How things stood when a cell began. ``at`` is monotonic."""

    at: float
    refusals: int
    sample: Sample | None
    """The newest one then, which tells of what was before."""


class CellSummary:
    """Counts for every cell, and tells at its end while it is ``on``."""

    def __init__(self, host: Host, *, on: bool) -> None:
        self._host = host
        self._began: dict[str, _Began] = {}
        self._output_bytes = self._output_bytes_before = 0
        self.on = on
        if on:
            host.usage.watch(_WATCHER, on=True)

    def turn(self, *, on: bool) -> None:
        """Show a line at the end of each cell from this one on, or none."""
        self.on = on
        self._host.usage.watch(_WATCHER, on=on)

    def begins(self, cell: Cell) -> None:
        """Take note that the worker has ``cell`` now."""
        self._output_bytes_before = self._output_bytes
        self._began[cell.request.msg_id] = _Began(
            time.monotonic(), self._host.displays.refusals, self._host.usage.newest
        )
        while len(self._began) > _REMEMBERED:
            del self._began[next(iter(self._began))]

    def put_out(self, parts: Sequence[Part]) -> None:
        """Count an output."""
        self._output_bytes += sum(map(len, parts))

    def output_bytes(self) -> int:
        """Return how many bytes of output have come since the newest cell began."""
        return self._output_bytes - self._output_bytes_before

    def seconds(self, cell: Cell) -> float | None:
        """Return for how long the worker has had ``cell``."""
        began = self._began.get(cell.request.msg_id)
        return None if began is None else time.monotonic() - began.at

    def ends(self, cell: Cell) -> None:
        """Show the line in ``cell``, which is not idle yet; all samples of it have come."""
        began = self._began.pop(cell.request.msg_id, None)
        if self.on and began is not None and not cell.silent:
            refused = self._host.displays.refusals - began.refusals
            newest = self._host.usage.newest
            sample = None if newest is began.sample else newest
            text = self._line(cell, time.monotonic() - began.at, refused, sample)
            self._host.outbox.display({"text/plain": text}, cell.request.header, self._host.displays.new_id())

    def _line(self, cell: Cell, seconds: float, refused: int, sample: Sample | None) -> str:
        from sentinel_kernel.kernel.gauge_page import bytes_text  # noqa: PLC0415 - not on the start path

        memory = None if sample is None else sample.memory_peak_bytes
        processor = None if sample is None else sample.cpu_seconds
        chinese = self._host.settings.language == "zh"
        unknown = "未知" if chinese else "not known"
        count = "" if cell.execution_count is None else f" [{cell.execution_count}]"
        took = seconds_text(seconds)
        peak = unknown if memory is None else bytes_text(memory)
        used = unknown if processor is None else seconds_text(processor)
        if chinese:
            return f"Sentinel：单元格{count} 用时 {took}；内存峰值 {peak}；处理器时间 {used}；拒绝系统调用 {refused} 次"
        return f"Sentinel: cell{count} took {took}; peak memory {peak}; CPU {used}; calls refused {refused}"


def seconds_text(seconds: float) -> str:
    """Return a time with as many digits as count."""
    if seconds < 0.1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 60:
        return f"{seconds:.2f} s" if seconds < 10 else f"{seconds:.1f} s"
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes} min {rest} s"
