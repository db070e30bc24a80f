"""Takes this program's own frames out of an error's traceback: between a cell and what it called they tell nothing."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import TracebackType

_OWN = os.path.dirname(__file__) + os.sep
_CHAIN, _FRAMES = 8, 10_000


def hide_own(error: BaseException | None) -> None:
    """Take our frames out of the traceback of ``error``, and of those that it was made from."""
    waiting, seen = [error], set[int]()
    while waiting and len(seen) < _CHAIN:
        one = waiting.pop()
        if one is None or id(one) in seen:
            continue
        seen.add(id(one))
        first = _without_own(one.__traceback__)
        if first is not one.__traceback__:
            one.__traceback__ = first
        waiting += [one.__cause__, one.__context__]


def _without_own(trace: TracebackType | None) -> TracebackType | None:
    """Return a traceback without our frames; its own links are changed, as they may be (types.TracebackType)."""
    first: TracebackType | None = None
    last: TracebackType | None = None
    for _ in range(_FRAMES):
        if trace is None:
            break
        if not trace.tb_frame.f_code.co_filename.startswith(_OWN):
            if last is None:
                first = trace
            elif last.tb_next is not trace:
                last.tb_next = trace
            last = trace
        trace = trace.tb_next
    if last is not None and last.tb_next is not trace:
        last.tb_next = trace
    return first if first is not None else trace
