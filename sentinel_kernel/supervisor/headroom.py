"""Keeping processes within what is left of the memory where no cgroup does: RLIMIT_DATA, then the last resort."""

from __future__ import annotations

import contextlib
import os
import resource
import select
import signal

from sentinel_kernel.supervisor.processes import same_sandbox

TYPE_CHECKING = False
if TYPE_CHECKING:
    from sentinel_kernel.supervisor.memory_use import MemoryUse
    from sentinel_kernel.supervisor.processes import Process, Processes

_STEP_BYTES = 1 << 20
_WORTH_KILLING = 16
"""A process below a sixteenth of the limit is not what used it up."""

_LEAST_BYTES = 16 << 20
_SLACK = 16
"""What is mapped and not touched may be a sixteenth of the limit more than in an idle worker."""


class Headroom:
    """What each process may still take, written anew at each sample, and who goes where that was not enough."""

    def __init__(self, processes: Processes, use: MemoryUse) -> None:
        """Hold ``processes``, of which ``use`` knows the sum."""
        self._processes = processes
        self._use = use
        self._written: dict[int, int] = {}
        self._idle_bytes = -1
        """What a worker that has run nothing has mapped and not touched: of libraries, stacks, the heap's parts."""

        self._dying = -1

    def write(self, allowed_bytes: int, spared: int, worker: int) -> None:
        """Leave each process what the others and the files in memory leave of ``allowed_bytes``, but for ``spared``.

        A single huge allocation then fails in the call. RLIMIT_DATA counts what is mapped, touched or not; the hard
        limit, made for the ceiling, stays.
        """
        total = self._use.total_bytes
        written = {}
        for process in self._processes:
            if process.pid == spared:
                continue
            others = max(0, total - process.anonymous_bytes)
            bound = allowed_bytes - others
            untouched = max(0, process.data_bytes - process.anonymous_bytes)
            if self._idle_bytes < 0:
                self._idle_bytes = untouched
            slack = min(untouched, self._idle_bytes + allowed_bytes // _SLACK)
            if process.data_bytes > bound // 2 and untouched > slack:
                # A heap that was full once keeps its size; what is free in it must not count against new mappings.
                slack += max(0, process.heap_bytes() - process.anonymous_bytes)
            bound += slack
            if process.pid == worker and process.anonymous_bytes * 2 < total:
                # Others have it all: they go. Without any memory libzmq would abort, and the variables with it.
                bound = max(bound, process.data_bytes + _LEAST_BYTES)
            bound = max(_LEAST_BYTES, bound) // _STEP_BYTES * _STEP_BYTES
            if self._written.get(process.pid) != bound and same_sandbox(process.pid, self._processes.first):
                with contextlib.suppress(OSError):
                    hard = resource.prlimit(process.pid, resource.RLIMIT_DATA)[1]
                    soft = bound if hard == resource.RLIM_INFINITY else min(bound, hard)
                    resource.prlimit(process.pid, resource.RLIMIT_DATA, (soft, hard))
            written[process.pid] = bound
        self._written = written

    def bound(self, process: int, worker: int) -> int | None:
        """Return the limit that was written for a process, for a new one that of ``worker``; None: none was."""
        return self._written.get(process, self._written.get(worker))

    def forget(self) -> None:
        """Write every limit again at the next :meth:`write`: somebody else has."""
        self._written = {}

    def worst(self, allowed_bytes: int, worker: int) -> Process | None:
        """Return the process to kill: the largest but ``worker`` and pid 1, if it is worth it; None: the worker."""
        candidates = [
            (process, size)
            for process, size in self._use.largest(len(self._processes))
            if process.pid not in (worker, self._processes.first)
            and size >= max(allowed_bytes // _WORTH_KILLING, _STEP_BYTES)
        ]
        return candidates[0][0] if candidates else None

    def kill(self, process: Process) -> bool:
        """Kill one process and watch it go; False where it is gone already, or another one under its number."""
        try:
            descriptor = os.pidfd_open(process.pid)
        except OSError:
            return False
        # The number was opened after it was listed, and may be that of a process outside by now.
        if not process.measure() or not same_sandbox(process.pid, self._processes.first):
            os.close(descriptor)
            return False
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(descriptor, signal.SIGKILL)
        self._let_go()
        self._dying = descriptor
        return True

    @property
    def waits_for_death(self) -> bool:
        """Whether a process that was killed had not given its memory back when the sample was taken.

        One that goes between the sample and this question was counted in it: the next sample tells what is left.
        """
        if self._dying < 0:
            return False
        poll = select.poll()
        poll.register(self._dying, select.POLLIN)
        if poll.poll(0):
            self._let_go()
        return True

    def _let_go(self) -> None:
        if self._dying >= 0:
            os.close(self._dying)
            self._dying = -1

    def close(self) -> None:
        """Close what is open."""
        self._let_go()
