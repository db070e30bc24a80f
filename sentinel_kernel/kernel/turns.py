"""How long the worker's messages are dealt with at a time, and how long they wait then where no cell runs.

Each may take a second of the host's one thread. A thread that goes on after its cell could keep it busy for ever, with
a small part of the time that the host takes, outside of all limits of the sandbox.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from sentinel_kernel.kernel.loop import Loop

SECONDS_A_TURN = 0.05
"""After so long the other channels, clients and signals have their turn, however many messages are left."""

_REST, _LONGEST_REST_SECONDS = 4, 4.0
"""How many times as long as an output took the next one waits, where no cell runs."""


class Turns:
    """The time that the worker's messages take. ``clock`` counts seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._began = self._rests_until = 0.0

    def begin(self) -> None:
        """Begin a turn."""
        self._began = self._clock()

    @property
    def over(self) -> bool:
        """Whether the turn has lasted long enough."""
        return self._clock() - self._began > SECONDS_A_TURN

    def end(self, loop: Loop) -> None:
        """End a turn in which no cell ran: after a long one the worker rests, until a timer of ``loop``."""
        now = self._clock()
        took = now - self._began
        if took > SECONDS_A_TURN:
            rest = min(_REST * took, _LONGEST_REST_SECONDS)
            self._rests_until = now + rest
            loop.call_later(rest, _go_on)

    @property
    def rests(self) -> bool:
        """Whether outputs that no cell waits for wait."""
        return self._rests_until > 0 and self._clock() < self._rests_until


def _go_on() -> None:
    """Do nothing: the loop asks for messages again after each timer."""
