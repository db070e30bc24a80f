"""Keeps a sandbox to a fraction of a processor where no control group does: what computes too much is paused.

A duty cycle: time that was used beyond the share is paid back by a pause (SIGSTOP, SIGCONT) of the processes that used
it, never of init. A pause delays an interrupt, so it ends when one is sent; and it can be ended from inside by a
process that sends SIGCONT to the others: the processors that the sandbox may run on stay the bound then.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time

from sentinel_kernel.supervisor.keeper import Keeper
from sentinel_kernel.supervisor.processes import processes_below
from sentinel_kernel.supervisor.processor_time import START, own_seconds, stat_fields

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from sentinel_kernel.supervisor.current import Current

_LOOK_SECONDS = 0.05
_IDLE_LOOK_SECONDS = 0.5
_LONGEST_PAUSE_SECONDS = 1.0
_LOOK_SHARE = 20
_CREDIT_SECONDS = 0.1
"""For how long an idle sandbox saves up its share, as the period of cpu.max."""


class ProcessorShare(Keeper):
    """Pauses what uses more than its share."""

    def __init__(self) -> None:
        self._current: Current | None = None
        self._seen: dict[tuple[int, str], float] = {}
        self._credit = 0.0
        self._looked = 0.0
        self._next = 0.0
        self._paused: list[int] = []
        """pidfds of the processes that are stopped."""

    def sandbox_ready(self, current: Current, generation: int) -> None:  # noqa: ARG002 - all its workers alike
        """Hold this sandbox to its share."""
        self.resume()
        self._current = current
        self._seen, self._looked, self._next = {}, 0.0, 0.0

    def sandbox_gone(self, cause: dict[str, Any]) -> None:  # noqa: ARG002 - whatever it died of
        """Hold nothing."""
        self.resume()
        self._current = None

    def close(self) -> None:
        """Leave nothing paused."""
        self.resume()

    def _quota(self) -> float | None:
        """Return the share to keep here, if there is one."""
        if self._current is None or self._current.backend.throttles:
            return None
        return self._current.preparation.plan.sizes.cpu_quota

    def due_seconds(self) -> float | None:
        """Return in how many seconds to look again, or to end a pause."""
        if self._quota() is None and not self._paused:
            return None
        return max(0.0, self._next - time.monotonic())

    def catch_up(self) -> dict[str, Any] | None:
        """End the pause that is over, or look at what was used, and pause what used too much."""
        quota, now = self._quota(), time.monotonic()
        if now < self._next and quota is not None:
            return None
        if self._paused:
            self.resume()
            self._next = now + _LOOK_SECONDS
        elif quota is not None:
            self._look(quota, now)
        return None

    def resume(self) -> None:
        """Let everything go on: the pause is over, or an interrupt is about to be sent."""
        for pidfd in self._paused:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(pidfd, signal.SIGCONT)
            os.close(pidfd)
        self._paused.clear()

    def _look(self, quota: float, now: float) -> None:
        current = self._current
        if current is None:
            return
        seen: dict[tuple[int, str], float] = {}
        used = 0.0
        busy = []
        for pid in processes_below(current.sandbox.pid):
            fields = stat_fields(pid) if pid != current.sandbox.pid else []
            if not fields:
                continue
            key = (pid, fields[START])
            seen[key] = own_seconds(fields)
            since = seen[key] - self._seen.get(key, 0.0)
            if since > 0 and (key in self._seen or self._seen):
                used += since
                busy.append(key)
        first, self._seen = not self._seen, seen
        elapsed, self._looked = now - self._looked, now
        took = time.monotonic() - now
        self._next = now + max(_LOOK_SECONDS if busy else _IDLE_LOOK_SECONDS, took * _LOOK_SHARE)
        if first:
            self._credit, self._next = 0.0, now + _LOOK_SECONDS
            return
        self._credit = min(self._credit + elapsed * quota - used, quota * _CREDIT_SECONDS)
        if self._credit < 0:
            self._pause(busy)
            if self._paused:
                self._next = now + min(-self._credit / quota, _LONGEST_PAUSE_SECONDS)

    def _pause(self, busy: list[tuple[int, str]]) -> None:
        for pid, start in busy:
            try:
                pidfd = os.pidfd_open(pid)
            except OSError:
                continue
            # The number may be another process's by now: what is stopped is what was looked at.
            fields = stat_fields(pid)
            if not fields or fields[START] != start:
                os.close(pidfd)
                continue
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(pidfd, signal.SIGSTOP)
            self._paused.append(pidfd)
