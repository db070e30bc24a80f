"""What a sandbox has the Linux kernel watch for events (epoll(7)): held to a share of what the user may, by looking.

Linux counts it for the user, so what one sandbox takes all the user's programs lack: ENOSPC, of which some die. No
limit of a process bounds it, nor how many sets there are: a registration is of a number and an open file, and stays
while anything has that file open, whatever the number is used for later. Calls that register are too many to be held.
So memory of the Linux kernel's own tells when to look: what is watched takes some of it, and only where that has grown
the sets are gone through.
"""

from __future__ import annotations

import contextlib
import functools
import os
import time

from sentinel_kernel.linux.same_file import compare_files, shares_table
from sentinel_kernel.supervisor.reached import reached

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from sentinel_kernel.supervisor.current import Current
    from sentinel_kernel.supervisor.headroom import Headroom
    from sentinel_kernel.supervisor.processes import Process, Processes

_SHARE = 4
"""Of what the user may have watched a sandbox has this part,"""
_MOST_WATCHES = 1 << 18
"""and no more than this: 50 MiB of the Linux kernel's memory, and as many connections as four programs may have."""

_WATCH_BYTES = 200
"""What one takes: an epitem, and an entry in a file's queue (fs/eventpoll.c of Linux 6)."""

_SOON_SECONDS = 0.1
_GROWS_BYTES = 4 << 20
_SHARE_OF_TIME = 3
"""Between two looks passes three times what one takes of this process's own time: some microseconds for each watch."""

_MEMINFO_BYTES = 2048
_READ_BYTES = 1 << 20
_SET = "anon_inode:[eventpoll]"


class WatchedFiles:
    """Looks at the sets of one sandbox."""

    def __init__(self, current: Current, processes: Processes) -> None:
        """Count for ``current``, whose ``processes`` someone else refreshes."""
        self._current = current
        self._processes = processes
        self._least = self._last = _kernel_bytes()
        self._allowed: int | None = None
        self._not_before = 0.0
        self._again = False
        self._seen = self._unseen = 0
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
        if worst.pid in (current.worker_pid, current.sandbox.pid):
            return end(current, told)
        if headroom.kill(worst):
            tell(told)
        return None

    def _too_many(self) -> tuple[Process, int] | None:
        now = _kernel_bytes()
        self._least = min(self._least, now)
        self.grows = now > self._last + _GROWS_BYTES
        self._last = now
        most = self._most()
        known = now > 0  # a container may show nothing of it: then the time alone tells
        left = max(most - self._seen, most // 4)
        grown = now - self._least > left * _WATCH_BYTES // 2
        if (known and not grown and not self._again) or time.monotonic() < self._not_before:
            return None
        began = time.process_time()
        found, total = self._count(most, now - self._least)
        took = time.process_time() - began
        self._not_before = time.monotonic() + (_SHARE_OF_TIME * took if found is None else 0)
        self._least, self._again = now, found is not None
        return None if found is None else (found, total)

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
        return min(seconds, _SOON_SECONDS) if self.grows or self._again else seconds

    def _count(self, most: int, grown: int) -> tuple[Process | None, int]:
        """Return who has most, and the sum, where that is more than ``most``; what processes share counts once.

        ``grown``: by so many bytes has the Linux kernel's memory grown since the last look.
        """
        sizes: dict[tuple[int, int], int] = {}
        by_process: list[tuple[int, Process]] = []
        for process in self._processes:
            own = 0
            for thread in _tables(process.pid):
                for number in _sets(thread):
                    size = sizes[thread, number] = _size(thread, number)
                    own += size
            by_process.append((own, process))
        total = sum(sizes.values())
        if total > most:
            total = sum(sizes[one] for one in _distinct([one for one, size in sizes.items() if size]))
        unexplained = grown - max(0, total - self._seen) * _WATCH_BYTES
        self._seen = total
        if total <= most:
            return self._in_flight(most, unexplained)
        worker = self._current.worker_pid
        _, worst = max(by_process, key=lambda one: (one[0], one[1].pid != worker, one[1].pid))
        return worst, total

    def _in_flight(self, most: int, unexplained: int) -> tuple[Process | None, int]:
        """Return as :meth:`_count` does what is not to be seen, as messages under way hold it (SCM_RIGHTS).

        Where none holds any, nothing was hidden. Else what the memory has grown by is taken for what they hide.
        """
        if unexplained < most * _WATCH_BYTES // 4 and not self._unseen:
            return None, self._seen
        holders = [(held, process) for process in self._processes if (held := _held_in_messages(process.pid))]
        self._unseen = self._unseen + max(0, unexplained) if holders else 0
        used = self._seen + self._unseen // _WATCH_BYTES
        if not holders or used <= most:
            return None, used
        return max(holders, key=lambda one: (one[0], one[1].pid))[1], used


def _held_in_messages(pid: int) -> int:
    """Return how many open files wait in a process's sockets to be received (proc_pid_fdinfo(5), scm_fds)."""
    count = 0
    for thread in _tables(pid):
        with contextlib.suppress(OSError), os.scandir(f"/proc/{thread}/fd") as files:
            for file in files:
                with contextlib.suppress(OSError, ValueError, IndexError):
                    if os.readlink(file.path).startswith("socket:"):
                        with open(f"/proc/{thread}/fdinfo/{file.name}", "rb", buffering=0) as told:
                            count += int(
                                told.read(_MEMINFO_BYTES).partition(b"scm_fds:")[2].split(None, 1)[0]
                            )
    return count


def _tables(pid: int) -> Iterator[int]:
    """Yield the threads of a process that have a table of open files of their own, the first one for the others."""
    first: int | None = None
    with contextlib.suppress(OSError):
        for thread in map(int, os.listdir(f"/proc/{pid}/task")):
            if first is None or not shares_table(first, thread):
                yield thread
            first = thread if first is None else first


def _sets(thread: int) -> Iterator[int]:
    with contextlib.suppress(OSError), os.scandir(f"/proc/{thread}/fd") as files:
        for file in files:
            with contextlib.suppress(OSError):
                if os.readlink(file.path) == _SET:
                    yield int(file.name)


def _size(thread: int, number: int) -> int:
    """Return how much a set watches (proc_pid_fdinfo(5): a line for each)."""
    count = 0
    with contextlib.suppress(OSError), open(f"/proc/{thread}/fdinfo/{number}", "rb", buffering=0) as file:
        while text := file.read(_READ_BYTES):
            count += text.count(b"tfd:")
    return count


def _distinct(sets: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return one of each set, of those that several descriptors stand for."""
    found: list[tuple[int, int]] = []
    for one in sorted(sets, key=functools.cmp_to_key(compare_files)):
        if not found or compare_files(found[-1], one):
            found.append(one)
    return found


def _kernel_bytes() -> int:
    """Return how much memory the Linux kernel has in use for itself; 0 where it is not told (proc_meminfo(5))."""
    with (
        contextlib.suppress(OSError, ValueError, IndexError),
        open("/proc/meminfo", "rb", buffering=0) as file,
    ):
        return int(file.read(_MEMINFO_BYTES).partition(b"SUnreclaim:")[2].split(None, 1)[0]) << 10
    return 0
