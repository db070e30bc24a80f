"""How the work on a text grows with its length: quadratic and exponential searches are told from linear ones."""

from __future__ import annotations

import time
from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

_SHORT = range(4, 49, 4)
_LONG = (200, 800)

_TRIES = 200
"""The least of so many is what it takes: what a busy machine adds is never less than nothing. What is taken from a
virtual machine as a whole counts as a thread's own time, tens of milliseconds at once.
"""

_TOO_SHORT_SECONDS = 0.002
"""Less is no measure of anything."""

_MOST_GROWTH = 8.0
"""Four more parts double an exponential search four times. Four times the parts make linear work four times as long, a
quadratic search sixteen times.
"""


def grows_evenly(work: Callable[[str], object], made: Callable[[int], str]) -> bool:
    """Tell whether ``work`` on ``made(n)``, a text of n parts, takes no longer than n times what one part takes.

    Steps are small at first: an exponential search is seen long before it would never end. All is measured in the same
    run, and what seems to grow faster is measured again: the machine may have been busy.
    """
    return all(
        _is_even(work, made(fewer), made(more))
        for parts in (_SHORT, _LONG)
        for fewer, more in pairwise(parts)
    )


def _is_even(work: Callable[[str], object], shorter: str, longer: str) -> bool:
    before = after = float("inf")
    for _ in range(_TRIES):
        before, after = min(before, _seconds(work, shorter)), min(after, _seconds(work, longer))
        if after <= _MOST_GROWTH * max(before, _TOO_SHORT_SECONDS / _MOST_GROWTH):
            return True
    return False


def _seconds(work: Callable[[str], object], text: str) -> float:
    began = time.thread_time()
    work(text)
    return time.thread_time() - began
