"""Ends what a cell has started where it takes up all tasks of a sandbox, a turn at a time, until it is gone.

Else nothing could be started any more, not even by the worker itself. Its own threads can't be ended, and what is older
than the cell is left alone. Of processes that end where they are refused another one there are few at any one moment:
those that still multiply are ended too, the others are the cell's to keep. What has ended counts as a task until its
parent takes note of it: the worker is asked to.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time

from sentinel_kernel.supervisor.processes import process_seconds, processes_below, same_sandbox
from sentinel_kernel.supervisor.processor_time import (
    ENDED,
    RUNS,
    START,
    STATE,
    count_tasks,
    has_ended,
    stat_fields,
)
from sentinel_kernel.supervisor.thread_signals import catches
from sentinel_kernel.supervisor.worker_link import MEMORY_SIGNAL

TYPE_CHECKING = False
if TYPE_CHECKING:
    from sentinel_kernel.supervisor.current import Current

LOOK_SECONDS = 0.005
"""How long those that were ended are given between two looks."""

_SECONDS = 8.0
"""What a slow machine may take for hundreds of processes; the host waits longer for a cell's end."""

_TURN_SECONDS = 0.2
"""So long the supervisor serves nobody else: what forks without end must be stopped faster than it forks."""

_WATCHED_SECONDS = 4.0
"""So long is looked whether what was started multiplies, where it is not clear before."""

_CALM_SECONDS = 0.05
"""A process that runs, has used so much of a processor and forked nothing, does something else."""

_REAPED_SECONDS = 2.0
"""So long the worker may take to take note of its children that have ended."""

_PARENT = 1
"""As the fields of processor_time."""

_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


class Clearing:
    """What was started in one sandbox since a moment is stopped, then killed, then awaited."""

    def __init__(self, current: Current, began: float, *, crowded: bool = True) -> None:
        """End what has started since ``began``, in seconds on the clock of a process's start time (since the boot).

        Where that is not ``crowded``, only if it multiplies.
        """
        self.ended = 0
        """How many processes were killed."""
        self._current = current
        self._since = int(began * _TICKS_PER_SECOND) - 1
        self._stopped: set[int] = set()
        self._killed: set[int] = set()
        self._deadline = time.monotonic() + _SECONDS
        self._watched_until = 0.0 if crowded else time.monotonic() + _WATCHED_SECONDS
        self._seen: dict[int, float] | None = None
        """Process -> what it had used of a processor when it was seen first."""
        self._gone = False
        self._reaped_until = 0.0

    def step(self) -> bool:
        """Go on; True when it is over: all have gone, or it takes too long."""
        if self._watched_until:
            calm = self._is_calm()
            if calm is None:
                return False
            self._watched_until, self._gone = 0.0, calm
        if not self._gone and not self._end_all():
            return False
        self._gone = True
        return self._is_reaped()

    def _is_calm(self) -> bool | None:
        """Tell whether what was started does anything but fork; None: that is not known yet."""
        started = self._started()
        if self._seen is None:
            self._seen = {pid: process_seconds(pid) or 0.0 for pid in started}
        relatives = {self._current.sandbox.pid, self._current.worker_pid, *started, *self._seen}
        if any(pid not in self._seen and _parent(pid) in relatives for pid in started):
            return False
        undecided = any(not self._does_other_things(pid) for pid in self._seen)
        return None if undecided and time.monotonic() < self._watched_until else True

    def _does_other_things(self, pid: int) -> bool:
        fields, used = stat_fields(pid), process_seconds(pid)
        before = self._seen[pid] if self._seen is not None else 0.0
        return not fields or fields[STATE] not in RUNS or used is None or used - before >= _CALM_SECONDS

    def _end_all(self) -> bool:
        until = min(time.monotonic() + _TURN_SECONDS, self._deadline)
        while new := [pid for pid in self._started() if pid not in self._stopped]:
            # Stopped first: what is killed one by one is replaced by what the others fork meanwhile.
            for pid in new:
                self._signal(pid, signal.SIGSTOP)
            self._stopped.update(new)
            if time.monotonic() >= until:
                break
        over = time.monotonic() >= self._deadline
        if new and not over:
            return False
        killed = {pid for pid in self._stopped - self._killed if self._signal(pid, signal.SIGKILL)}
        self.ended += len(killed)
        self._killed |= self._stopped
        if over:
            return True
        if any(map(self._leaves, self._killed & set(processes_below(self._current.sandbox.pid)))):
            return False
        # While siblings end, a look at children can miss one (proc_pid_tid_children(5)); by now none does.
        return all(pid in self._stopped for pid in self._started())

    def _is_reaped(self) -> bool:
        """Have the worker take note of its children that have ended; True once it has, or does not."""
        worker = self._current.worker_pid
        if not any(
            (fields := stat_fields(pid)) and fields[STATE] in ENDED and int(fields[_PARENT]) == worker
            for pid in processes_below(self._current.sandbox.pid)
        ):
            return True
        if not self._reaped_until:
            self._reaped_until = time.monotonic() + _REAPED_SECONDS
            pipe = self._current.word_pipe
            if pipe < 0 or not catches(worker, MEMORY_SIGNAL):
                return True
            with contextlib.suppress(OSError):  # full, where a cell keeps it so
                os.write(pipe, b"reap\n")
                signal.pidfd_send_signal(self._current.worker_pidfd, MEMORY_SIGNAL)
        return time.monotonic() >= self._reaped_until

    def tasks_left(self) -> int:
        """Return how many tasks count still; those that have ended do, until their parent takes note of it."""
        return count_tasks(self._current)

    def _leaves(self, pid: int) -> bool:
        """Tell whether one that was killed has yet to go: to end, or to be reaped by init, which does that at once.

        Whether any other parent reaps its own is up to that.
        """
        fields = stat_fields(pid)
        if not fields:
            return False
        return not has_ended(fields) or int(fields[_PARENT]) in {
            self._current.sandbox.pid,
            *self._killed,
        }

    def _started(self) -> list[int]:
        return [
            pid
            for pid in processes_below(self._current.sandbox.pid)
            if pid not in (self._current.sandbox.pid, self._current.worker_pid) and self._is_younger(pid)
        ]

    def _is_younger(self, pid: int) -> bool:
        """Tell whether a process was started since the cell began; one that has ended was not."""
        fields = stat_fields(pid)
        return not has_ended(fields) and self._is_young(fields)

    def _is_young(self, fields: list[str]) -> bool:
        return int(fields[START]) >= self._since

    def _signal(self, pid: int, number: int) -> bool:
        """Send a signal to a process that the cell has started; its number may be another one's by now."""
        try:
            pidfd = os.pidfd_open(pid)
        except OSError:
            return False
        try:
            if self._is_younger(pid) and same_sandbox(pid, self._current.sandbox.pid):
                signal.pidfd_send_signal(pidfd, number)
                return True
        except ProcessLookupError:
            pass  # it has ended by itself
        finally:
            os.close(pidfd)
        return False


def _parent(pid: int) -> int:
    """Return the parent of a process; 0 where that is gone."""
    fields = stat_fields(pid)
    return int(fields[_PARENT]) if fields else 0
