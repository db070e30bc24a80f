"""What a sandbox has the Linux kernel watch for events (epoll(7)): held to a share of what the user may, by looking.

Linux counts it for the user, so what one sandbox takes all the user's programs lack: ENOSPC, of which some die. No
limit of a process bounds it, nor how many sets there are: a registration is of a number and an open file, and stays
while anything has that file open, whatever the number is used for later. Calls that register are too many to be held.
So memory of the Linux kernel's own tells when to look: what is watched takes some of it, and only where that has grown
the sets are gone through. What can't be seen in them counts as the most that it can be: all that this memory has grown
by since, and that is not explained by what is seen.
"""

from __future__ import annotations

import contextlib
import time

from sentinel_kernel.supervisor.processes import process_seconds
from sentinel_kernel.supervisor.reached import reached

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from sentinel_kernel.supervisor.current import Current
    from sentinel_kernel.supervisor.headroom import Headroom
    from sentinel_kernel.supervisor.processes import Process, Processes, Who
    from sentinel_kernel.supervisor.watched_sets import Look

_SHARE = 4
"""Of what the user may have watched a sandbox has this part,"""
_MOST_WATCHES = 1 << 18
"""and no more than this: 50 MiB of the Linux kernel's memory, and as many connections as four programs may have."""

_WATCH_BYTES = 200
"""What one takes: an epitem, and an entry in a file's queue (fs/eventpoll.c of Linux 6)."""

_SOON_SECONDS = 0.1
_GOES_ON_SECONDS = 0.05
"""Between two pieces of a look the supervisor answers whoever asks."""

_GROWS_BYTES = 4 << 20
_SHARE_OF_TIME = 3
"""Between two looks passes three times what one takes of this process's own time: some microseconds for each watch.

But where memory has grown meanwhile by what a sandbox may have watched: then that can be there once more.
"""

_RAN_DIGITS = 2
"""To hundredths of a second is told who has run."""

_FEW_FILES = 8
"""A closed process with no more descriptors is let be (an agent of keys, say): the memory that grows is another's."""

_SETTLES_SECONDS = 6.0
"""So long the memory of what a killed process watched may stay taken (kfree_rcu of Linux 6: 5 s)."""

_MEMINFO_BYTES = 2048


class WatchedFiles:
    """Looks at the sets of one sandbox."""

    def __init__(self, current: Current, processes: Processes, who: Who) -> None:
        """Count for ``current``, whose ``processes`` someone else refreshes, as ``who`` where they are closed to us."""
        self._current = current
        self._processes = processes
        self._who = who
        self._least = self._last = self._rest = self._began = _kernel_bytes()
        """The second and third: at the last sample; the least that was not explained while something was hidden."""
        self._allowed: int | None = None
        self._not_before = self._settled = 0.0
        self._again = False
        self._seen = self._used = 0
        """What the last look has found; with what was hidden."""
        self._look: Look | None = None
        """The one under way. ``_began``: the Linux kernel's memory when it began."""
        self._anew = 0
        """How often it was begun anew."""
        self._unread: dict[int, int] = {}
        """Whom the last look had no time for."""
        self._took = 0.0
        self._clocks: dict[int, float | None] = {}
        """How long each process had run at the last sample."""
        self.grows = False
        """The Linux kernel's memory has grown since the last sample, whoever took it: the next one is due soon."""

    def hold(
        self,
        headroom: Headroom,
        tell: Callable[[dict[str, Any]], None],
        end: Callable[[Current, dict[str, Any]], dict[str, Any] | None],
    ) -> dict[str, Any] | None:
        """Kill the process that has most watched, where the sandbox has more than it may; as :meth:`Meter.catch_up`.

        ``tell`` is of the limit, ``end`` ends the worker for it.
        """
        current = self._current
        found = self._too_many()
        if found is None or headroom.waits_for_death:
            return None
        worst, used = found
        told = reached(current, "watches", "kill", used, self._most(), "count")
        self._settled = time.monotonic() + _SETTLES_SECONDS
        if worst.pid in (current.worker_pid, current.sandbox.pid):
            return end(current, told)
        if headroom.kill(worst):
            tell(told)
        return None

    def _too_many(self) -> tuple[Process, int] | None:
        """Go on with the look that is under way, or due; return who has most, and the sum, where that is too much."""
        now = _kernel_bytes()
        clocks = {process.pid: process_seconds(process.pid) for process in self._processes}
        if clocks == self._clocks:  # nobody inside has run: what has come is another's
            others = max(0, now - self._last)
            self._least += others
            self._rest += others
            self._began += others
        before, self._clocks = self._clocks, clocks
        self._least = min(self._least, now)
        self.grows = now > self._last + _GROWS_BYTES
        self._last = now
        if self._look is not None and now - self._began > self._most() * _WATCH_BYTES << self._anew:
            # Whoever came since is not in it, nor those that have run now first.
            self._look = None
            self._anew += 1
        if self._look is None:
            if not self._due(now):
                return None
            from sentinel_kernel.supervisor.watched_sets import Look  # noqa: PLC0415 - few sandboxes are looked at

            def turn(pid: int) -> tuple[float, bool, int]:
                ran = (clocks[pid] or 0.0) - (before.get(pid) or 0.0)
                return -round(ran, _RAN_DIGITS), pid not in self._unread, pid

            # Registrations take time: who has run most since the last sample is seen first, before more come.
            pids = sorted(clocks, key=turn)
            self._look = Look(pids, self._processes.first, self._who, self._most())
            self._began, self._took = now, 0.0
        look, began = self._look, time.process_time()
        complete = look.piece()
        self._took += time.process_time() - began
        if not complete:
            return None
        hidden = self._unexplained(look, min(now, self._began)) - self._rest
        seen_enough = look.asked_sockets or look.total > self._most()
        if not seen_enough and hidden >= self._most() * _WATCH_BYTES // 4:
            look.ask_sockets()
            return None
        self._look, self._anew, self._unread = None, 0, look.unread
        found = self._judge(look, min(now, self._began))
        self._not_before = time.monotonic() + (_SHARE_OF_TIME * self._took if found is None else 0)
        self._least, self._again = self._began, found is not None
        return found

    def _due(self, now: int) -> bool:
        most = self._most()
        known = now > 0  # a container may show nothing of it: then the time alone tells
        grown = now - self._least > max(most - self._used, most // 4) * _WATCH_BYTES // 2
        much = now - self._least > most * _WATCH_BYTES
        return (not known or grown or self._again) and (much or time.monotonic() >= self._not_before)

    def _most(self) -> int:
        """Return how much a sandbox may have watched."""
        if self._allowed is None:
            self._allowed = _MOST_WATCHES
            with (
                contextlib.suppress(OSError, ValueError),
                open("/proc/sys/fs/epoll/max_user_watches", "rb") as file,
            ):
                self._allowed = min(_MOST_WATCHES, int(file.read()) // _SHARE)
        return self._allowed

    def soon(self, seconds: float) -> float:
        """Return when to look again, where that is in ``seconds`` otherwise."""
        if self._look is not None:
            return min(seconds, _GOES_ON_SECONDS)
        return min(seconds, _SOON_SECONDS) if self.grows or self._again else seconds

    @staticmethod
    def _unexplained(look: Look, now: int) -> int:
        """Return how much of the Linux kernel's memory is not what is seen to be watched; 0 where it is not told."""
        return now - look.total * _WATCH_BYTES if now else 0

    def _judge(self, look: Look, now: int) -> tuple[Process, int] | None:
        """Return who has most, and the sum, where a look that is complete has found too much; ``now`` is in use.

        What may be hidden are sets that lie in messages (SCM_RIGHTS), and those of processes that are closed to us, as
        they are not dumpable, or have more sets than a look reads. Where there is none of them, nothing was hidden.
        What is seen needs no more where it is too much by itself.
        """
        most, rest = self._most(), self._unexplained(look, now)
        closed = {pid: files for pid, files in look.closed.items() if files > _FEW_FILES}
        hides = closed.keys() | look.held.keys() | look.unread.keys()
        if hides or look.unsure or not look.asked_sockets:
            since = self._least - min(self._seen, look.total) * _WATCH_BYTES if now else 0
            self._rest = min(self._rest, rest, since)
        else:
            self._rest = rest
        self._seen = look.total
        hidden = 0
        if look.total <= most and (hides or look.unsure) and time.monotonic() >= self._settled:
            hidden = (rest - self._rest) // _WATCH_BYTES
            hidden = hidden if hides else min(hidden, look.unsure)
        self._used = look.total + hidden
        if self._used <= most:
            return None
        worker = self._current.worker_pid

        def has(process: Process) -> tuple[int, int, int, bool, int]:
            pid = process.pid
            seen = look.of.get(pid, 0) + (hidden if pid in hides else 0)
            files = closed.get(pid, 0) + look.unread.get(pid, 0)
            return seen, look.held.get(pid, 0), files, pid != worker, pid

        worst = max(self._processes, key=has, default=None)
        return None if worst is None else (worst, self._used)


def _kernel_bytes() -> int:
    """Return how much memory the Linux kernel has in use for itself; 0 where it is not told (proc_meminfo(5))."""
    with (
        contextlib.suppress(OSError, ValueError, IndexError),
        open("/proc/meminfo", "rb", buffering=0) as file,
    ):
        return int(file.read(_MEMINFO_BYTES).partition(b"SUnreclaim:")[2].split(None, 1)[0]) << 10
    return 0
