"""Ends a recursion before it has taken all memory: its error would come after minutes, if at all."""

from __future__ import annotations

import functools
import sys

DEEPEST = 1_000_000
"""So many calls deep a recursion ends in seconds, and within the memory of a small sandbox."""

_asked = [0]


def bound_recursion() -> None:
    """Hold recursions to ``DEEPEST`` calls, whatever sys.setrecursionlimit is asked for; it is told what was asked."""
    theirs, told = sys.setrecursionlimit, sys.getrecursionlimit

    @functools.wraps(theirs)
    def set_limit(limit: int, /) -> None:
        theirs(min(limit, DEEPEST) if type(limit) is int else limit)
        _asked[0] = limit if type(limit) is int and limit > DEEPEST else 0

    @functools.wraps(told)
    def get_limit() -> int:
        return _asked[0] or told()

    sys.setrecursionlimit, sys.getrecursionlimit = set_limit, get_limit


def say_bound(error: BaseException) -> None:
    """Add to the error of a recursion that it was ended here, where more was asked for."""
    if _asked[0] and isinstance(error, RecursionError) and len(error.args) == 1:
        why = "whatever sys.setrecursionlimit is set to: deeper ones take all memory"
        instead = "use a loop with a list of what is left to do"
        error.args = (f"{error.args[0]} (recursions end at {DEEPEST:,} calls here, {why}; {instead})",)
