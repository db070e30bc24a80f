"""Ends what a cell has started where it takes up all tasks of a sandbox, a turn at a time, until it is gone.

Else nothing could be started any more, not even by the worker itself. Its own threads can't be ended, and what is older
than the cell is left alone.
"""

from __future__ import annotations

import os
import signal
import time

from sentinel_kernel.supervisor.processes import processes_below, same_sandbox
from sentinel_kernel.supervisor.processor_time import ENDED, START, STATE, THREADS, stat_fields

TYPE_CHECKING = False
if TYPE_CHECKING:
    from sentinel_kernel.supervisor.current import Current

LOOK_SECONDS = 0.005
"""How long those that were ended are given between two looks."""

_SECONDS = 8.0
"""What a slow machine may take for hundreds of processes; the host waits longer for a cell's end."""

_TURN_SECONDS = 0.2
"""So long the supervisor serves nobody else: what forks without end must be stopped faster than it forks."""

_PARENT = 1
"""As the fields of processor_time."""

_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


class Clearing:
    """What was started in one sandbox since a moment is stopped, then killed, then awaited."""

    def __init__(self, current: Current, began: float) -> None:
        """End what has started since ``began``, in seconds on the clock of a process's start time (since the boot)."""
        self.ended = 0
        """How many processes were killed."""
        self._current = current
        self._since = int(began * _TICKS_PER_SECOND) - 1
        self._stopped: set[int] = set()
        self._killed: set[int] = set()
        self._deadline = time.monotonic() + _SECONDS

    def step(self) -> bool:
        """Go on; True when it is over: all have gone, or it takes too long."""
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
        return over or not any(
            map(self._leaves, self._killed & set(processes_below(self._current.sandbox.pid)))
        )

    def tasks_left(self) -> int:
        """Return how many tasks count still; those that have ended, and that the worker reaps, do not."""
        worker, count = self._current.worker_pid, 0
        for pid in processes_below(self._current.sandbox.pid):
            fields = stat_fields(pid)
            if fields and not (fields[STATE] in ENDED and int(fields[_PARENT]) == worker):
                count += int(fields[THREADS])
        return count

    def _leaves(self, pid: int) -> bool:
        """Tell whether one that was killed has yet to go: to end, or to be reaped by init, which does that at once.

        Whether any other parent reaps its own is up to that.
        """
        fields = stat_fields(pid)
        if not fields:
            return False
        return fields[STATE] not in ENDED or int(fields[_PARENT]) in {
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
        return bool(fields) and fields[STATE] not in ENDED and int(fields[START]) >= self._since

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
