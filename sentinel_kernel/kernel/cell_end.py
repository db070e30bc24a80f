"""A cell's end: its idle is held until its reply is here and its violations are shown with their final counts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sentinel_kernel.kernel.cell_record import end_fields

if TYPE_CHECKING:
    from sentinel_kernel.kernel.cells import Cell
    from sentinel_kernel.kernel.host import Host
    from sentinel_kernel.kernel.wire import Json, Part

REPLY_SECONDS = 5.0
"""How long after its idle a cell's reply may be on its way. The worker sends it first, on another channel."""

_STATUS_SECONDS = 1.0
"""So long an idle waits for the reply, which says how the cell ended."""


class CellEnd:
    """Holds one idle at a time: what comes behind it on its channel waits."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._held: tuple[Cell, list[Part], list[Part]] | None = None
        self._untold: Cell | None = None
        """The held idle's cell, as long as the supervisor was not told how it ended."""

    @property
    def held(self) -> bool:
        """Whether an idle is held."""
        return self._held is not None

    def hold(self, cell: Cell, topic: list[Part], parts: list[Part], *, waits: bool) -> None:
        """Hold the idle of ``cell``; ``waits`` whether for its reply too, where that is not here yet."""
        self._held, self._untold = (cell, topic, parts), cell
        if cell.replied or not waits:
            self.tell(cell)
        else:
            self._host.loop.call_later(_STATUS_SECONDS, lambda: self.tell(cell))

    def tell(self, cell: Cell) -> None:
        """Tell of the end of ``cell``, once, if its idle is held: its reply is here, or is not waited for any more."""
        if self._untold is not cell:
            return
        host, self._untold = self._host, None
        fields: Json = {**end_fields(cell), "suspects": list(cell.suspects.values())}
        if cell.dry_run is not None and host.dry_runs is not None:
            host.dry_runs.end(cell, fields, self._release)
            return
        # However short it was: what is told behind the idle, no frontend shows.
        host.cell_calls.end_cell(fields, self._release)

    def release(self) -> None:
        """Forward the idle that is held, if any: nothing more is waited for."""
        if self._untold is not None:
            self.tell(self._untold)
        self._release()

    def _release(self) -> None:
        if self._held is None:
            return
        cell, topic, parts = self._held
        self._held = None
        if cell.show_at_end and cell.violations:
            self._host.displays.show_again(cell)
        self._host.displays.bring_up_to_date(cell, ended=True)
        self._host.live_status.refresh(cell.request.header)
        self._host.summary.ends(cell)
        self._host.gauge.cell_ends(cell)
        cell.send_reply()
        self._host.outbox.forward_output(topic, parts)
        cell.idle = True
        if cell.replied:
            self._host.execution.finish(cell)
        else:
            self._host.loop.call_later(REPLY_SECONDS, lambda: self._reply_instead(cell))

    def _reply_instead(self, cell: Cell) -> None:
        """Answer a cell that ended without a reply, as where ipykernel fails itself: those behind it wait for it."""
        host, inner = self._host, self._host.lifecycle.inner
        if cell.replied or inner is None or host.execution.running.get(cell.request.msg_id) is not cell:
            return
        if not host.publisher.ready or inner["shell"].messages:
            host.loop.call_later(REPLY_SECONDS, lambda: self._reply_instead(cell))
            return
        reason = "The kernel ended this cell without a reply."
        content = {
            "status": "error",
            "ename": "NoReply",
            "evalue": reason,
            "traceback": [f"NoReply: {reason}"],
        }
        cell.replied = True
        host.outbox.reply(cell.request, {**content, "execution_count": cell.execution_count or 0})
        host.execution.finish(cell)
