"""`%sentinel_status --live`: the status page as a widget of the host's that follows what cells do.

It changes while a cell runs and at its end, never between cells: servers would take that for activity.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sentinel_kernel.kernel.widgets import view_bundle

if TYPE_CHECKING:
    from sentinel_kernel.kernel.host import Host
    from sentinel_kernel.kernel.loop import Timer
    from sentinel_kernel.kernel.wire import Json, Part

UPDATE_SECONDS = 0.25
"""The least time between two versions: clients count messages, and redraw at each."""


class LiveStatus:
    """One model, shown in as many places as it was asked for."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._model = ""
        self._shown: tuple[object, ...] = ()
        """What the page told of when it was made last; making it takes a look at the profile's file."""
        self._timer: Timer | None = None

    def show(self, parent: Part) -> Json:
        """Return the bundle that shows the page, in the cell whose request has the header ``parent``."""
        page = self._host.magics.page("status")
        self._shown = self._facts()
        if self._host.widgets.is_open(self._model):
            self._host.widgets.update(self._model, {"value": page["text/html"]}, parent)
        else:
            self._model = self._host.widgets.open_html(page["text/html"], parent)
        return view_bundle(self._model, page)

    def refresh(self, parent: Part) -> None:
        """Bring it up to date, as a part of the cell whose request has the header ``parent``; not yet idle."""
        if self._host.widgets.is_open(self._model) and self._shown != self._facts():
            self._shown = self._facts()
            html = self._host.magics.page("status")["text/html"]
            self._host.widgets.update(self._model, {"value": html}, parent)

    def refresh_soon(self) -> None:
        """Bring it up to date while the running cell goes on."""
        if self._timer is None and self._host.widgets.is_open(self._model):
            self._timer = self._host.loop.call_later(UPDATE_SECONDS, self._refresh_in_cell)

    def _refresh_in_cell(self) -> None:
        self._timer = None
        for cell in self._host.execution.running.values():
            if not cell.idle:
                self.refresh(cell.request.header)
                return

    def _facts(self) -> tuple[object, ...]:
        lifecycle = self._host.lifecycle
        displays = self._host.displays
        return lifecycle.generation, lifecycle.profile, lifecycle.state, displays.refusals, displays.others
