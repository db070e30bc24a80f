"""What a sandbox may compute before others go first: credit that grows with time and is spent by processor time."""

from __future__ import annotations

_RATE = 0.1
"""Of a processor: who works cell by cell uses less. On a busy machine one that never rests may get little more."""

_MOST_SECONDS = 1.0
_LEAST_SECONDS = -0.3
_BACK_SECONDS = 0.2
"""Who rests has its full weight back after at most (_BACK_SECONDS - _LEAST_SECONDS) / _RATE = 5 seconds."""


class ProcessorCredit:
    """A token bucket, in seconds of processor time."""

    def __init__(self, now: float) -> None:
        """Begin at ``now`` (monotonic seconds) with nothing: who starts gives way to those that are in use."""
        self.seconds = 0.0
        self.is_spent = True
        """Whether others go first."""
        self._at = now

    def spend(self, used: float, now: float) -> None:
        """Take off what was ``used`` since the last call."""
        saved = min(_MOST_SECONDS, self.seconds + (now - self._at) * _RATE)
        self.seconds, self._at = max(_LEAST_SECONDS, saved - used), now
        self.is_spent = self.seconds < (_BACK_SECONDS if self.is_spent else 0.0)
