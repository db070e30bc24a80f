"""The time that a thread has had: the clock's, less what it waited for a processor.

A thread that is asked for something and stays silent has nothing to say only if it could have said it. On a busy
machine, and where others go first, the clock alone tells nothing of that.
"""

from __future__ import annotations

import time

from sentinel_kernel.supervisor.processor_time import STATE, stat_fields

_NANOSECONDS = 1e-9


class ThreadTime:
    """Counts it for one thread, from when it is made or begins anew."""

    def __init__(self, thread: int) -> None:
        self._thread = thread
        self._counted = 0.0
        self._at = time.monotonic()
        self._ran, self._waited = _ran_and_waited(thread) or (0.0, 0.0)

    def begin_anew(self) -> None:
        """Count from now on."""
        self._look()
        self._counted = 0.0

    def seconds(self) -> float:
        """Return the seconds that the thread has slept or run; those of the clock where the kernel does not tell."""
        self._look()
        return self._counted

    def due(self, seconds: float) -> float:
        """Return the monotonic time before which it can't have had so many."""
        return self._at + seconds - self._counted

    def _look(self) -> None:
        now, told = time.monotonic(), _ran_and_waited(self._thread)
        passed, self._at = now - self._at, now
        if told is None:
            self._counted += passed
            return
        ran, waited = told[0] - self._ran, told[1] - self._waited
        self._ran, self._waited = told
        # The wait that goes on is counted when it ends; one that has begun and ended since is in it.
        can_run = stat_fields(self._thread)[STATE : STATE + 1] == ["R"]
        self._counted += max(0.0, min(passed, ran if can_run else passed - waited))


def _ran_and_waited(thread: int) -> tuple[float, float] | None:
    """Return the seconds that a thread has run and has waited for a processor (sched-stats.rst); None: not told."""
    try:
        with open(f"/proc/{thread}/schedstat", "rb") as file:
            ran, waited, _ = map(int, file.read().split())
    except (OSError, ValueError):
        return None
    return ran * _NANOSECONDS, waited * _NANOSECONDS
