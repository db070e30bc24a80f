"""`%sentinel_gauge`: what the sandbox uses against what it may, as widgets of the host's that move while a cell runs.

Between cells it stands still unless something has visibly changed: servers take every message for activity. Where
nobody can be asked (nbconvert, papermill) or widgets can't live, the same is a picture and text.
"""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

from sentinel_kernel.kernel import gauge_page
from sentinel_kernel.kernel.gauge_controls import GaugeControls
from sentinel_kernel.kernel.gauge_widgets import GaugeWidgets
from sentinel_kernel.kernel.lifecycle import State
from sentinel_kernel.kernel.widgets import view_bundle
from sentinel_kernel.policy.sizes_in_words import size_text

if TYPE_CHECKING:
    from sentinel_kernel.kernel.cells import Cell
    from sentinel_kernel.kernel.host import Host
    from sentinel_kernel.kernel.loop import Timer
    from sentinel_kernel.kernel.usage import Sample
    from sentinel_kernel.kernel.wire import Json, Part

UPDATE_SECONDS = 0.25
"""The least time between two versions: clients count messages, and redraw at each."""

FLOOD_BYTES, FLOOD_SECONDS = 500_000, 4.0
"""After so much output of a cell, the gauge is sent once more after this time: Jupyter's server drops what comes
within some seconds of a flood (iopub_data_rate_limit, rate_limit_window), the last version with it."""

_WATCHER = "gauge"
_MEMORY_STEP, _CPU_STEP, _DISK_STEP = 0.02, 20.0, 0.01
"""Between cells, a change below these (shares of the limit, percent of a processor) is not shown."""

_UNLIMITED_STEP_BYTES = 16 * 1024 * 1024
_MOST_DISPLAYS = 50
_MOUNTS = 4
"""So many folders that are shown are named."""


class Gauge:
    """One gauge, shown in as many places as it was asked for."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._controls = GaugeControls(host, self.refresh_soon)
        self._widgets = GaugeWidgets(host.widgets, self._clicked, chinese=host.settings.language == "zh")
        self._displays: dict[str, Part] = {}
        """Where it is shown: display id, and the header of the request of that cell."""
        self._pictures: dict[str, Part] = {}
        """The same for those that are pictures alone, brought up to date at each cell's end."""
        self._timer: Timer | None = None
        self._sent_at = 0.0
        self._sent: tuple[object, ...] = ()
        self._sent_sample: Sample | None = None
        self._wanted: set[str] = set()
        """msg_ids of the cells whose magic asked for it."""
        self._interrupted = False
        """It was open when the worker died: it goes on in the next cell."""

    # --- shown and closed

    def want(self, cell: Cell) -> None:
        """Show it in ``cell`` as soon as that has begun."""
        if self._host.lifecycle.state is State.UNAVAILABLE:
            cell.displays.append(self._picture())
        else:
            self._wanted.add(cell.request.msg_id)

    def cell_begins(self, cell: Cell) -> None:
        """Show it in a cell that asked for it, or after a death in the first one that a person runs."""
        self._controls.cell_begins()
        wanted = cell.request.msg_id in self._wanted
        self._wanted.discard(cell.request.msg_id)
        if wanted or (self._interrupted and cell.allow_stdin):
            self._show(cell)
        self.refresh_soon()

    def _show(self, cell: Cell) -> None:
        host = self._host
        header = cell.request.header
        host.usage.watch(_WATCHER, on=True)
        bundle = self._picture()
        display_id = host.displays.new_id()
        if cell.allow_stdin:
            self._interrupted = False
            if not self._widgets.there:
                self._widgets.open(self._state(bundle["text/html"]), header)
                self._remember()
            bundle = view_bundle(self._widgets.root, bundle)
            self._displays[display_id] = header
        else:  # nobody is there who could look at a widget, or ask for one
            self._pictures[display_id] = header
        for shown in (self._displays, self._pictures):
            while len(shown) > _MOST_DISPLAYS:
                del shown[next(iter(shown))]
        host.outbox.display(bundle, header, display_id)

    def close(self, note: str = "") -> None:
        """Leave a picture where it was, and want no more samples."""
        if not self._widgets.there:
            return
        self._cancel()
        picture = self._picture(note)
        for display_id, header in self._displays.items():
            self._host.outbox.display(picture, header, display_id, update=True)
        self._displays.clear()
        self._widgets.close(self._parent())
        self._host.usage.watch(_WATCHER, on=bool(self._pictures))

    def worker_gone(self) -> None:
        """Leave a picture: clients forget every widget when they hear of the death. It goes on in the next cell."""
        if self._widgets.there:
            self._interrupted = True
            self.close(
                self._say(
                    "This worker has ended. The gauge goes on in the next cell that you run.",
                    "此进程已结束。仪表会在您运行的下一个单元格中继续显示。",
                )
            )

    # --- kept up to date

    def refresh_soon(self) -> None:
        """Bring it up to date, now or when the last version is old enough."""
        if self._timer is None and self._widgets.there:
            # Never at once: what is being told now, a cell's end for one, is not done yet.
            rest = UPDATE_SECONDS - (time.monotonic() - self._sent_at)
            self._timer = self._host.loop.call_later(max(0.0, rest), self._refresh)

    def cell_ends(self, cell: Cell) -> None:
        """Bring pictures up to date as a part of ``cell``, which is not idle yet, and the widgets right behind it."""
        self.refresh_soon()
        if self._widgets.there and self._host.summary.output_bytes() > FLOOD_BYTES:
            self._host.loop.call_later(FLOOD_SECONDS, self._repeat)
        if self._pictures and not cell.allow_stdin:
            picture = self._picture()
            for display_id in self._pictures:
                self._host.outbox.display(picture, cell.request.header, display_id, update=True)

    def _refresh(self) -> None:
        self._timer = None
        host = self._host
        if not self._widgets.there:
            return
        if not host.publisher.ready:  # the clients have not taken what waits
            self._timer = host.loop.call_later(UPDATE_SECONDS, self._refresh)
            return
        self._controls.cell_ended()
        if self._controls.running is None and self._facts() == self._sent and not self._moved():
            return
        self._send()

    def _repeat(self) -> None:
        if self._widgets.there:
            self._widgets.repeat(self._parent())

    def _send(self) -> None:
        if self._widgets.update(self._state(gauge_page.html(self._view())), self._parent()):
            self._sent_at = time.monotonic()
        self._remember()

    def _remember(self) -> None:
        self._sent = self._facts()
        self._sent_sample = self._host.usage.newest

    def _cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _facts(self) -> tuple[object, ...]:
        """Return what is always shown at once, between cells too."""
        controls = self._controls
        running = controls.running is not None
        return (*self._shown_facts(), running, controls.note, controls.kill_offered, controls.switching)

    def _moved(self) -> bool:
        """Tell whether a person would see the difference to what was sent last."""
        now, then = self._host.usage.newest, self._sent_sample
        if now is None or then is None:
            return now is not then
        return (
            self._differs(now.memory_bytes, then.memory_bytes, "memory_bytes", _MEMORY_STEP)
            or self._differs(now.disk_bytes, then.disk_bytes, "disk_bytes", _DISK_STEP)
            or abs((now.cpu_percent or 0) - (then.cpu_percent or 0)) > _CPU_STEP
            or now.pids != then.pids
        )

    def _differs(self, now: int | None, then: int | None, limit: str, step: float) -> bool:
        if now is None or then is None:
            return now is not then
        allowed = self._limit(limit)
        return abs(now - then) > (step * allowed if allowed else _UNLIMITED_STEP_BYTES)

    # --- what clients do

    def _clicked(self, name: str, value: object) -> None:
        controls = self._controls
        if name == "close":
            self.close()
        elif name == "stop":
            controls.stop()
        elif name == "kill":
            controls.kill()
        elif name == "profile" and isinstance(value, str):
            controls.choose(value)
            self.refresh_soon()

    # --- what it shows

    def _state(self, html: str) -> Json:
        """Return what the widgets are to be like."""
        controls, lifecycle = self._controls, self._host.lifecycle
        if lifecycle.profile not in dict(self._widgets.profiles):
            self._widgets.profiles = controls.choices()
        return {
            "html": html,
            "profile": lifecycle.profile,
            "switching": controls.switching,
            "running": controls.running is not None,
            "kill_offered": controls.kill_offered,
        }

    def _view(self, note: str = "") -> gauge_page.View:
        host = self._host
        chinese = host.settings.language == "zh"
        meters = gauge_page.meters(host.usage, self._limit, host.summary.output_bytes(), chinese=chinese)
        facts = self._shown_facts()
        cell = self._controls.running
        seconds = None if cell is None else host.summary.seconds(cell)
        if seconds is not None:
            seconds = int(seconds)
            facts = (
                *facts,
                (self._say("cell runs for", "单元格已运行"), self._say(f"{seconds} s", f"{seconds} 秒")),
            )
        return gauge_page.View(
            self._say("Sentinel: gauge", "Sentinel：仪表"), facts, meters, note or self._controls.note
        )

    def _shown_facts(self) -> tuple[tuple[str, str], ...]:
        host = self._host
        ready = host.lifecycle.ready
        return (
            (self._say("profile", "配置"), host.lifecycle.profile),
            (self._say("isolation", "隔离级别"), str(ready.get("rung", "-"))),
            (self._say("limits by", "限制方式"), str(ready.get("backend", "-"))),
            (self._say("calls refused so far", "已拒绝的系统调用"), str(host.displays.refusals)),
            *self._held(),
            *self._mounts(),
        )

    def _held(self) -> tuple[tuple[str, str], ...]:
        count, size = self._host.files.held
        return ((self._say("files held", "待提交文件"), f"{count} ({size_text(size)})"),) if count else ()

    def _mounts(self) -> tuple[tuple[str, str], ...]:
        mounts = self._host.lifecycle.ready.get("mounts") or ()
        named = [
            f"{mount.get('target')}{' (rw)' if mount.get('mode') == 'rw' else ''}"
            for mount in mounts[:_MOUNTS]
        ]
        if len(mounts) > _MOUNTS:
            named.append("…")
        return ((self._say("folders shown", "已显示文件夹"), ", ".join(named)),) if named else ()

    def _picture(self, note: str = "") -> Json:
        view = self._view(note)
        return {"text/html": gauge_page.html(view), "text/plain": gauge_page.plain(view)}

    def _limit(self, name: str) -> float | None:
        """Return a limit in force: as the samples tell, else as the sandbox was made."""
        if name == "cpu_percent":
            quota = (self._host.lifecycle.ready.get("sizes") or {}).get("cpu_quota")
            most = len(os.sched_getaffinity(0))
            return 100 * min(quota or self._limit("cpu_count") or most, most)
        told = self._host.usage.limit(name)
        if told is not None:
            return told
        size = (self._host.lifecycle.ready.get("sizes") or {}).get(name)
        return size if isinstance(size, int) else None

    def _parent(self) -> Part:
        cell = self._controls.running or self._host.execution.last_cell
        return b"{}" if cell is None else cell.request.header

    def _say(self, english: str, chinese: str) -> str:
        return chinese if self._host.settings.language == "zh" else english
