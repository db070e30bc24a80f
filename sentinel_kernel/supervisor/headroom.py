"""Keeping processes within what is left of the memory where no cgroup does: RLIMIT_DATA, then the last resort."""

from __future__ import annotations

import contextlib
import os
import resource
import select
import signal

from sentinel_kernel.supervisor.by_number import set_soft_limit
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

SOFT_SHARE = 0.9
_LENT_SHARE, _LEAST_LENT_BYTES = 10, 32 << 20
"""What the worker gets beside, once a cell, to show an error in: it also loads what shows errors."""

_CLOSE = 8
"""A process with less room than an eighth of the limit may have used it up before it is seen again."""

_NOTICED_BYTES = 2 << 20
_LEAST_ROOM_BYTES, _EDGE_BYTES = 4 << 20, 8 << 20
"""However much is taken: so much a cell gets, more only as far from the limit as that the worker need not be killed."""


class Headroom:
    """What each process may still take, written anew at each sample, and who goes where that was not enough."""

    def __init__(self, processes: Processes, use: MemoryUse) -> None:
        """Hold ``processes``, of which ``use`` knows the sum."""
        self._processes = processes
        self._use = use
        self._written: dict[int, int] = {}
        self._idle_bytes = 0
        """What a worker that has run nothing has mapped and not touched: of libraries, stacks, the heap's parts."""

        self._ran = False
        """Whether it has begun a cell."""

        self._dying = -1
        self._floor = 0
        """The worker's limit is never less than this: what it had mapped as its cell began, and some room."""

        self._lent = False
        self._allowed = 0
        self.pressed = False
        """Whether a process, a child perhaps that has ended by now, was seen close to its limit since a cell began."""

    def begin_cell(self, worker: int, allowed_bytes: int) -> None:
        """Leave the next cell of ``worker`` some room beyond what is mapped now, by whomever, touched or not.

        What others have taken meanwhile, and what is mapped and not touched, may be more than all that is allowed.
        Without room not even an error could be shown, and nothing be deleted.
        """
        self._lent, self._allowed = False, allowed_bytes
        self.pressed = False
        if worker not in self._processes:  # no sample was taken of it yet
            self._processes.refresh()
        self._note_idle(self._processes.get(worker))
        self._leave_room(worker, allowed_bytes)

    def _note_idle(self, worker: Process | None) -> None:
        """Take note of what a worker before its first cell has mapped; that cell may come before any sample."""
        if worker is not None and not self._ran:
            self._idle_bytes = max(self._idle_bytes, worker.data_bytes - worker.anonymous_bytes)

    def _leave_room(self, worker: int, allowed_bytes: int) -> None:
        process = self._processes.get(worker)
        left = allowed_bytes - self._use.total_bytes - _EDGE_BYTES
        room = max(_LEAST_ROOM_BYTES, min(max(_LEAST_BYTES, allowed_bytes // _SLACK), left))
        self._floor = process.data_bytes + room if process is not None else 0

    def has_grown(self, worker: int) -> bool:
        """Tell whether the worker has become another size since it was measured: short cells are not followed."""
        process = self._processes.get(worker)
        if process is None:
            return False
        data, held = process.data_bytes, process.anonymous_bytes
        process.measure()
        return max(abs(process.data_bytes - data), abs(process.anonymous_bytes - held)) >= _NOTICED_BYTES

    def lend(self, worker: int) -> None:
        """Give the worker, which asks for it, what its error is shown in; it keeps that until the cell's end."""
        process = self._processes.get(worker)
        if self._lent or process is None or not process.measure():
            return
        self._lent = True
        self._floor = process.data_bytes + max(_LEAST_LENT_BYTES, self._allowed // _LENT_SHARE)
        self._set(worker, max(self._floor, self._written.get(worker, 0)))

    def write(self, allowed_bytes: int, spared: int, worker: int, begun_at: int | None) -> None:
        """Leave each process what the others and the files in memory leave of ``allowed_bytes``, but for ``spared``.

        A single huge allocation then fails in the call. RLIMIT_DATA counts what is mapped, touched or not; the hard
        limit, made for the ceiling, stays. A running cell, which began with ``begun_at`` in use, gets no more than up
        to the soft mark, so that an error can be shown; one that began above it half of what is left.
        """
        if begun_at is None:
            self._leave_room(worker, allowed_bytes)
        else:
            self._ran = True
            begun = min(begun_at, allowed_bytes)
            allowed_bytes = max(int(allowed_bytes * SOFT_SHARE), begun + (allowed_bytes - begun) // 2)
        total = self._use.total_bytes
        close = allowed_bytes // _CLOSE
        written = {}
        for process in self._processes:
            if process.pid == spared:
                continue
            others = max(0, total - process.anonymous_bytes)
            bound = allowed_bytes - others
            untouched = max(0, process.data_bytes - process.anonymous_bytes)
            if process.pid == worker:
                self._note_idle(process)
            slack = min(untouched, self._idle_bytes + allowed_bytes // _SLACK)
            if process.data_bytes > bound // 2 and untouched > slack:
                # A heap that was full once keeps its size; what is free in it must not count against new mappings.
                slack += max(0, process.heap_bytes() - process.anonymous_bytes)
            bound += slack
            if process.pid == worker and process.anonymous_bytes * 2 < total:
                # Others have it all: they go. Without any memory libzmq would abort, and the variables with it.
                bound = max(bound, process.data_bytes + _LEAST_BYTES)
            if process.pid == worker:
                bound = max(bound, self._floor)
            bound = max(_LEAST_BYTES, bound) // _STEP_BYTES * _STEP_BYTES
            if self._written.get(process.pid) != bound:
                self._set(process.pid, bound)
            written[process.pid] = bound
            self.pressed |= begun_at is not None and process.data_bytes + close > bound
        self._written = written

    def _set(self, pid: int, bound: int) -> None:
        self._written[pid] = bound
        with contextlib.suppress(OSError):
            set_soft_limit(pid, self._processes.first, resource.RLIMIT_DATA, bound)

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
