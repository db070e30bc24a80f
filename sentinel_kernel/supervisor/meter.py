"""Measuring what the sandbox uses, telling the host that asked, and holding memory: soft first, then hard."""

from __future__ import annotations

import contextlib
import os
import signal
import time

from sentinel_kernel.policy.memory_signs import may_be_memory, prints_memory, size_tells
from sentinel_kernel.supervisor import protocol
from sentinel_kernel.supervisor.headroom import SOFT_SHARE, Headroom
from sentinel_kernel.supervisor.keeper import Keeper
from sentinel_kernel.supervisor.memory_use import Machine, MemoryUse
from sentinel_kernel.supervisor.processes import Processes
from sentinel_kernel.supervisor.refused_memory import RefusedMemory
from sentinel_kernel.supervisor.seen_machine import SeenMachine
from sentinel_kernel.supervisor.shares import Shares
from sentinel_kernel.supervisor.soft_memory import SoftMemory, file_limit, memory_limit
from sentinel_kernel.supervisor.switching import hold_again

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from sentinel_kernel.policy.plan import Sizes
    from sentinel_kernel.supervisor.current import Current
    from sentinel_kernel.supervisor.watched_files import WatchedFiles

RUNNING_SECONDS = 0.1
IDLE_SECONDS = 2.0
_LEAST_SECONDS = 0.01
_SETTLED_SECONDS = 0.25
"""So long after a cell has ended its memory is measured exactly, if no other one runs by then."""

_FRESH_SECONDS = 0.2  # a sample so young is what a cell begins with
_SHORT_SECONDS = 0.03  # cells that end well within this time are measured once, behind the last one

_TOUCHED_A_SECOND = 2 << 30
"""Bytes that one processor can make resident in a second: the nearer the limit, the more often is looked."""

_SHARE_OF_TIME, _STEADY_SHARE, _MOST_OF_TIME = 100, 300, 5
"""Between two looks passes a hundred times what one takes, three hundred times where the last one found nothing new, so
that measuring takes a hundredth of a processor at most; where the limit could be reached by then less, but never less
than five times."""
_STEADY_BYTES = 1 << 20
_LONGEST_SECONDS = 2.0
_LOOKS = 4
"""At the pace of the last sample, so many more are taken before the soft mark."""
_EXACT_SHARE = 0.7
_EXACTLY_AT_MOST_BYTES = 2 << 30
_SUSPECT_SHARE = 0.7  # of all that may be used: from there on, lack of memory is suspected
_TOLD_SIZES = ("memory_bytes", "pids", "cpu_count", "disk_bytes")
_ABRUPT = (signal.SIGABRT, signal.SIGBUS, signal.SIGSEGV)
"""How programs die that do not check whether they got memory."""


class Meter(Keeper):
    """Samples the sandbox in use."""

    def __init__(self, send: Callable[[str, dict[str, Any]], None]) -> None:
        """Tell the host through ``send``, which takes an event's name and its fields."""
        self._send = send
        self._machine = Machine()
        self._watched = False
        self._told_limits: Sizes | None = None
        self._current: Current | None = None
        self._generation = 0
        self._due = 0.0
        self._settle: float | None = None
        self.running = False
        self.sample: dict[str, Any] = {}
        """The last sample, as EVENT_USAGE sends it."""

    def watch(self, *, on: bool) -> None:
        """Send samples from here on, or no more."""
        self._watched = on
        self._told_limits = None
        if on and self._current is not None:
            self._due = 0.0

    def sandbox_ready(self, current: Current, generation: int) -> None:
        """Begin to measure a sandbox."""
        self._leave()
        self._current, self._generation = current, generation
        self._processes = Processes(current.sandbox.pid)
        self._use = MemoryUse(current, self._processes, self._machine)
        self._shares = current.handler.shares = Shares(current, self._use, self._processes)
        self._headroom = Headroom(self._processes, self._use)
        self._watches: WatchedFiles | None = None
        self._soft = SoftMemory(current)
        self._shares.refusals = RefusedMemory(current, self, self._headroom, self._soft, self._machine)
        self._seen = SeenMachine(current.sandbox.shown)
        self._sizes = current.preparation.plan.sizes
        self._told_limits = None
        self.running = False
        self._cpu_seconds = self._cpu_before = self._cpu_total = 0.0
        self._cpu_at = time.monotonic()
        self._cpu_percent = 0.0
        self._peak, self._growth, self._steady = 0, 0.0, False
        self._least_allowed = self.allowed_bytes()
        """The least that was allowed since the cell began."""
        self._begun_at = 0.0
        self._measured_at = time.monotonic()
        self._data_peak = self._data_begun = self._data_now = 0
        self._over_since: float | None = None
        self._settle = self._due = time.monotonic() + _SETTLED_SECONDS
        self._show(current)

    def sandbox_gone(self, cause: dict[str, Any]) -> None:
        """Stop measuring; a signal that came for lack of memory becomes a limit's ``cause``."""
        current = self._current
        if current is not None and cause.get("kind") == "signal" and cause.get("signal") in _ABRUPT:
            full = self._use.fullest(self._sizes)
            told: dict[str, Any] = {}
            if cause["signal"] == signal.SIGBUS and full is not None:
                told = file_limit(current, *full)
            elif max(self._peak, self._data_peak) >= self._bound() * _SUSPECT_SHARE:
                told = self._limit(current, "kill", self._peak, self._least_allowed)
            if told:
                cause.update(kind="limit", limit=told)
        self._leave()

    def _leave(self) -> None:
        if self._current is not None:
            self._current.handler.shares = None
            self._current = self._watches = None
            self._processes.close()
            self._use.close()
            self._shares.close()
            self._headroom.close()

    def begin_cell(self, message: dict[str, Any]) -> None:  # noqa: ARG002 - whatever the cell is
        """Count a cell's use from here on."""
        if self._current is None:
            return
        self.running = True
        self._begun_at = time.monotonic()
        self._settle = None
        self._take_sizes(self._current)
        late = self._watched and time.monotonic() - self._measured_at > _LEAST_SECONDS
        if late or self._headroom.has_grown(self._current.worker_pid):
            self._measure()  # what short cells before it have left was not looked at
        seconds = self._processes.cpu_seconds()
        if time.monotonic() - self._measured_at > _FRESH_SECONDS:
            self._read_cpu(seconds)
        self._cpu_before = max(seconds, self._cpu_total)
        self._peak = self._use.shown_bytes
        self._data_peak, self._data_begun = 0, self._data_now
        self._shares.refused = False
        self._soft.begin_cell(self._use.total_bytes)
        allowed = self.allowed_bytes()
        self._least_allowed = allowed
        self._due = time.monotonic() + self._interval()
        if self._use.total_bytes > allowed * _EXACT_SHARE:
            self._soft.wait_trimmed(self._measure, self._use, int(allowed * _EXACT_SHARE))
            self._due = time.monotonic() + _LEAST_SECONDS
        self._headroom.begin_cell(self._current.worker_pid, allowed)
        self._leave_headroom(allowed)

    def end_cell(self, message: dict[str, Any]) -> None:
        """Take the cell's last sample, and say so where memory is what it ended for."""
        if self._current is None or not self.running:
            return
        short = not self._watched and time.monotonic() - self._begun_at < _SHORT_SECONDS
        if short and message.get("status") == "ok":
            self.running = False
            self._settle = time.monotonic() + _SETTLED_SECONDS
            self._due = min(self._due, self._measured_at + RUNNING_SECONDS)
            return
        self._measure()
        self.running = False
        self._headroom.forget()
        self._leave_headroom(self.allowed_bytes())
        failed = message.get("status") == "error"
        grown = max(self._peak - self._soft.begun_at, self._data_peak - self._data_begun) if failed else 0
        suspect = failed and (self._shares.refused or may_be_memory(message, grown, self._bound()))
        asks = suspect or prints_memory(message)
        if asks and not self._soft.told and (told := self.refused(None)) is not None:
            self.send_limit(told if suspect else {**told, "place_of": {"confidence": "likely"}})
        self._tell()
        self._settle = self._due = time.monotonic() + _SETTLED_SECONDS

    def refused(self, size: int | None, *, held: int = 0, sure: bool = False) -> dict[str, Any] | None:
        """Return the limit where it is ``sure``, or borne out, that ``size`` bytes more than ``held`` were refused."""
        if self._current is None:
            return None
        self._measure()
        used = max(self._peak, min(max(self._data_peak, held), self._bound()))
        pressed = self._shares.refused or self._headroom.pressed
        seen = sure or pressed or used >= self._least_allowed * _SUSPECT_SHARE
        left = int(self.allowed_bytes() * SOFT_SHARE) - max(self._use.total_bytes, held)
        refused = seen or size_tells(size, left, self._machine.total_bytes)
        self._soft.told |= refused
        return self._limit(self._current, "refused", used, self._least_allowed) if refused else None

    def _bound(self) -> int:
        return self._sizes.memory_bytes or self._machine.total_bytes

    def due_seconds(self) -> float | None:
        """Return when the next sample is due."""
        return None if self._current is None else max(0.0, self._due - time.monotonic())

    def catch_up(self) -> dict[str, Any] | None:
        """Take the sample that is due; return a cause where the worker has to go."""
        current = self._current
        if current is None or time.monotonic() < self._due:
            return None
        began, busy = time.monotonic(), time.process_time()
        self._measure()
        if self._settle is not None and not self.running and began >= self._settle:
            self._settle = None
            self._settled()
            if self._use.private_bytes <= _EXACTLY_AT_MOST_BYTES:
                self._use.measure_exactly()
        if self._watches is None:
            from sentinel_kernel.supervisor.watched_files import WatchedFiles  # noqa: PLC0415 - not at the start

            self._watches = WatchedFiles(current, self._processes, self._use.who)
        cause = self._hold(current) or self._watches.hold(self._headroom, self.send_limit, self._end)
        if current.unsettled > 0:
            hold_again(current)
        self._tell()
        wait = IDLE_SECONDS
        if self.running or self._over_since is not None or current.unsettled > 0:
            wait = self._interval(time.process_time() - busy)
        self._due = time.monotonic() + self._watches.soon(wait)
        if self._settle is not None:
            self._due = min(self._due, self._settle)
        return cause

    def _settled(self) -> None:
        """Have what is free given back where much is used; no cell runs."""
        if self._use.total_bytes > self.allowed_bytes() * _EXACT_SHARE:
            self._soft.trim()
        self._headroom.forget()

    def _interval(self, took: float = 0.0) -> float:
        """Return in how many seconds to look again, where a look ``took`` so many: before the soft mark is reached."""
        left = self.allowed_bytes() * SOFT_SHARE - self._use.total_bytes
        processors = self._sizes.cpu_count or 2
        reached = left / (_TOUCHED_A_SECOND * processors)
        if self._growth > 0:
            reached = min(reached, left / self._growth / _LOOKS)
        share = _STEADY_SHARE if self._steady else _SHARE_OF_TIME
        wanted = min(_LONGEST_SECONDS, max(RUNNING_SECONDS, took * share))
        return min(wanted, max(_LEAST_SECONDS, took * _MOST_OF_TIME, reached))

    def _limit(self, current: Current, stage: str, used: int, allowed: int) -> dict[str, Any]:
        return memory_limit(current, stage, used, allowed, self._use, self._processes)

    def allowed_bytes(self) -> int:
        """Return what the sandbox may use now: the profile's memory, or less where the machine runs short."""
        spare = self._use.total_bytes + max(0, self._machine.spare_bytes())
        return min(self._sizes.memory_bytes or spare, spare)

    def used_bytes(self, than: int) -> int:
        """Return what is in use now; where that is more ``than`` so much exactly, and without what could be freed."""
        self._measure()
        if self._current is not None and self._use.total_bytes > than:
            if not self.running:
                self._soft.wait_trimmed(self._measure, self._use, than)
            self._use.measure_exactly()
        return self._use.total_bytes

    def _take_sizes(self, current: Current) -> None:
        """Take note where the profile's sizes, or the person's own, have become other ones."""
        sizes = current.preparation.plan.sizes
        if sizes is not self._sizes:
            self._sizes = sizes
            self._least_allowed = self.allowed_bytes()
            self._headroom.forget()
            self._soft.tell_processors(sizes.cpu_count)
            self._show(current)

    def _measure(self) -> None:
        current = self._current
        if current is None:
            return
        self._take_sizes(current)
        self._processes.refresh()
        limit = self._sizes.memory_bytes
        forked = len(self._processes) > 2
        exactly_above = int(limit * _EXACT_SHARE) if limit is not None and forked else None
        before, at = self._use.total_bytes, self._measured_at
        cpu_seconds = self._processes.cpu_seconds()
        used = self._use.measure(exactly_above=exactly_above)
        self._measured_at = time.monotonic()
        self._steady = abs(used - before) < _STEADY_BYTES
        self._growth = (used - before) / max(self._measured_at - at, _LEAST_SECONDS)
        self._shares.seen()
        self._show(current)
        self._peak = max(self._peak, self._use.shown_bytes)
        worker = max(current.worker_pid, current.sandbox.pid)
        for process in self._processes:
            if process.pid == worker:
                self._data_now = process.data_bytes
                self._data_peak = max(self._data_peak, self._data_now)
        self._read_cpu(cpu_seconds)

    def _show(self, current: Current) -> None:
        """Have programs inside see the profile's memory and processors."""
        total, available = self._use.as_seen(self._sizes.memory_bytes)
        self._seen.show_memory(total, available, self._use.shared_bytes + self._use.disk_bytes)
        self._seen.show_processors(current.preparation.plan.cpus or os.sched_getaffinity(0))

    def _read_cpu(self, seconds: float) -> None:
        now = time.monotonic()
        self._cpu_total = seconds = max(seconds, self._cpu_total)
        if now - self._cpu_at >= _LEAST_SECONDS:
            self._cpu_percent = 100 * (seconds - self._cpu_seconds) / (now - self._cpu_at)
            self._cpu_seconds, self._cpu_at = seconds, now

    def _hold(self, current: Current) -> dict[str, Any] | None:
        """Do what the last sample asks for: headroom, the soft mark, the hard one."""
        used = self._use.total_bytes
        allowed = self.allowed_bytes()
        worker = current.worker_pid
        self._leave_headroom(allowed)
        if self.running and worker > 0 and self._soft.due(used, int(allowed * SOFT_SHARE)):
            told = self._limit(current, "soft", used, allowed)
            if self._soft.raise_it(told):
                self.send_limit(told)
        if used <= allowed or (
            used < self._soft.begun_at + (used >> 4) and allowed != self._sizes.memory_bytes
        ):
            self._over_since = None
            return None
        return self._kill(current, used, allowed)

    def _leave_headroom(self, allowed: int) -> None:
        """Have what is more than the running cell may use refused; between cells all may be used."""
        current = self._current
        if current is not None:
            self._least_allowed = min(self._least_allowed, allowed)
            worker, begun_at = current.worker_pid, self._soft.begun_at if self.running else None
            self._headroom.write(allowed, current.sandbox.pid if worker > 0 else -1, worker, begun_at)

    def _kill(self, current: Current, used: int, allowed: int) -> dict[str, Any] | None:
        """Kill the worst process, children first; return the cause where that is the worker."""
        if not self._use.exact and len(self._processes) > 2:
            used = self._use.measure_exactly()
        if used <= allowed:
            self._over_since = None
            return None
        self._over_since = self._over_since or time.monotonic()
        if self._headroom.waits_for_death:
            return None
        told = self._limit(current, "kill", used, allowed)
        worst = self._headroom.worst(allowed, current.worker_pid)
        if worst is not None and current.worker_pid > 0:
            told["detail"] = f"{worst.name()} ({worst.anonymous_bytes >> 20} MiB)"
            if self._headroom.kill(worst):
                self.send_limit(told)
            return None
        told["detail"] = "worker"
        return self._end(current, told)

    def _end(self, current: Current, told: dict[str, Any]) -> dict[str, Any] | None:
        """Have the worker ended for a limit, before there is one the sandbox."""
        if current.worker_pid > 0:
            return {"kind": "limit", "limit": told}  # told here too, the next cell would say that it was
        self.send_limit(told)
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(current.sandbox.pidfd, signal.SIGKILL)
        return None

    def send_limit(self, limit: dict[str, Any]) -> None:
        """Tell the host of a limit."""
        self._send(protocol.EVENT_LIMIT, {"generation": self._generation, "limit": limit})

    def _tell(self) -> None:
        sizes = self._sizes
        if self._current is not None:
            self._current.peak_tasks = max(self._current.peak_tasks, self._processes.tasks)
        self.sample = {
            "ms": int(time.time() * 1000),
            "memory_bytes": self._use.shown_bytes,
            "memory_peak_bytes": self._peak,
            "cpu_percent": round(self._cpu_percent, 1),
            "cpu_seconds": round(max(0.0, self._cpu_total - self._cpu_before), 3),
            "pids": self._processes.tasks,
            "disk_bytes": self._use.disk_bytes,
            "files": dict(self._use.held_bytes),
            "running": self.running,
        }
        if not self._watched:
            return
        fields: dict[str, Any] = {"generation": self._generation, "sample": self.sample}
        if sizes is not self._told_limits:
            self._told_limits = sizes
            fields["limits"] = {name: getattr(sizes, name) for name in _TOLD_SIZES}
        self._send(protocol.EVENT_USAGE, fields)

    def close(self) -> None:
        """Release all."""
        self._leave()
        self._machine.close()
