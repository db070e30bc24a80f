"""Hears from a sandbox's control group that the Linux kernel killed for memory, and says who it was.

With memory.oom.group at 0 that is the process that holds most. Where it is the worker, its death gets the limit as its
cause; where it is another one, the host is told of the limit while the notebook goes on.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import time

from sentinel_kernel.supervisor import protocol
from sentinel_kernel.supervisor.keeper import Keeper
from sentinel_kernel.supervisor.processes import processes_below
from sentinel_kernel.supervisor.processor_time import ENDED, STATE, stat_fields
from sentinel_kernel.supervisor.reached import reached

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    from sentinel_kernel.supervisor.current import Current

_READ_BYTES = 4096
_EXIT_CODE = 49
"""As the fields of processor_time: behind the name, counted from 0."""

_NAMED_CHARACTERS = 40
_AGAIN_SECONDS = 0.05


class GroupWatch(Keeper):
    """Watches the events of the group of the sandbox in use; ``tell`` sends an event to the host."""

    def __init__(self, tell: Callable[[str, dict[str, Any]], None]) -> None:
        self._tell = tell
        self._current: Current | None = None
        self._generation = 0
        self._events: list[int] = []
        self._epoll: select.epoll | None = None
        self._kills = 0
        """Those that were told of."""
        self._again: float | None = None

    def sandbox_ready(self, current: Current, generation: int) -> None:
        """Watch this sandbox's group, if it has one; what its last worker met is told already."""
        self._leave()
        events = current.backend.events()
        if events is None:
            return
        self._current, self._generation, self._kills = current, generation, events.oom_kills
        self._events = current.backend.open_events()
        # One descriptor for all, and for good: these files are always readable, and report what is new as POLLPRI.
        self._epoll = self._epoll or select.epoll()
        for descriptor in self._events:
            self._epoll.register(descriptor, select.EPOLLPRI)

    def descriptors(self) -> Iterable[int]:
        """Return what is readable when a limit was met."""
        return () if self._epoll is None else (self._epoll.fileno(),)

    def serve(self, ready: dict[int, int]) -> None:
        """Look at what was met."""
        if self._epoll is None or self._epoll.fileno() not in ready:
            return
        for descriptor in self._events:
            with contextlib.suppress(OSError):
                os.pread(descriptor, _READ_BYTES, 0)  # until it is read it goes on reporting
        self._look()

    def begin_cell(self, message: dict[str, Any]) -> None:  # noqa: ARG002 - each cell alike
        """Tell what was met before, so that it is not taken for this cell's."""
        self._look()

    def end_cell(self, message: dict[str, Any]) -> None:  # noqa: ARG002 - as above
        """Tell what was met while it is still this cell's."""
        self._look(last=True)

    def sandbox_gone(self, cause: dict[str, Any]) -> None:
        """Give a death that the Linux kernel caused for memory that ``cause``."""
        current = self._current
        if current is not None and cause.get("kind") == "signal" and cause.get("signal") == signal.SIGKILL:
            events = current.backend.events()
            if events is not None and events.oom_kills > self._kills:
                cause.update(kind="limit", limit=_limit(current, "worker"))
        self._leave()

    def _look(self, *, last: bool = False) -> None:
        """Tell of kills that were not told; ``last``: whoever it was, there is no later."""
        current = self._current
        events = current.backend.events() if current is not None else None
        if current is None or events is None or events.oom_kills <= self._kills:
            return
        if _was_killed(current.worker_pid) or _was_killed(current.sandbox.pid):
            return  # told as the cause of a death, which is on its way
        again, self._again = self._again, None
        victims = [
            _name(pid)
            for pid in processes_below(current.sandbox.pid)
            if pid not in (current.worker_pid, current.sandbox.pid) and _was_killed(pid)
        ]
        if not victims and again is None and not last:
            # A kill is counted just before its signal is sent: the next look finds whose it was.
            self._again = time.monotonic() + _AGAIN_SECONDS
            return
        self._kills = events.oom_kills
        limit = _limit(current, ", ".join(victims[:3]))
        self._tell(protocol.EVENT_LIMIT, {"generation": self._generation, "limit": limit})

    def due_seconds(self) -> float | None:
        """Return in how many seconds to look once more for who was killed."""
        return None if self._again is None else max(0.0, self._again - time.monotonic())

    def catch_up(self) -> dict[str, Any] | None:
        """Look once more."""
        if self._again is not None and time.monotonic() >= self._again:
            self._look()
        return None

    def _leave(self) -> None:
        self._current = self._again = None
        for descriptor in self._events:
            os.close(descriptor)  # which takes it out of the epoll object too (epoll(7))
        self._events = []

    def close(self) -> None:
        """Close the descriptors."""
        self._leave()
        if self._epoll is not None:
            self._epoll.close()
            self._epoll = None


def _limit(current: Current, who: str) -> dict[str, Any]:
    # What was used is what was allowed: the group was full, and no more than that can have been in it.
    allowed = current.preparation.plan.sizes.memory_bytes or 0
    return reached(current, "memory", "kill", allowed, allowed, "bytes", detail=who)


def _was_killed(pid: int) -> bool:
    """Tell whether a process died of SIGKILL, or is about to (proc_pid_status(5))."""
    fields = stat_fields(pid)
    if not fields:
        return False
    if fields[STATE] in ENDED:
        return int(fields[_EXIT_CODE]) & 0x7F == signal.SIGKILL
    try:
        with open(f"/proc/{pid}/status", encoding="utf-8", errors="replace") as file:
            pending = [int(line.split()[1], 16) for line in file if line.startswith(("SigPnd:", "ShdPnd:"))]
    except OSError:
        return False
    return any(mask >> (signal.SIGKILL - 1) & 1 for mask in pending)


def _name(pid: int) -> str:
    """Return what a process calls itself; to be shown and no more."""
    try:
        with open(f"/proc/{pid}/comm", encoding="utf-8", errors="replace") as file:
            name = file.read().strip()
    except OSError:
        return "?"
    return "".join(character if character.isprintable() else "?" for character in name)[:_NAMED_CHARACTERS]
