"""The worker's messages have turns, and rest where no cell waits for them."""

from __future__ import annotations

from sentinel_kernel.kernel.loop import Loop
from sentinel_kernel.kernel.turns import SECONDS_A_TURN, Turns


class Clock:
    """A clock that the test turns."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_a_turn_is_over_after_its_time_and_a_long_one_is_rested_from() -> None:
    clock, loop = Clock(), Loop()
    try:
        turns = Turns(clock)
        turns.begin()
        assert not turns.over
        turns.end(loop)
        assert not turns.rests  # a short one costs nothing
        clock.now += 2 * SECONDS_A_TURN
        assert turns.over
        turns.end(loop)
        assert turns.rests
        clock.now += 6 * SECONDS_A_TURN
        assert turns.rests
        clock.now += 3 * SECONDS_A_TURN
        assert not turns.rests
    finally:
        loop.close()
