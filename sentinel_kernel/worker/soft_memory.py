"""MemoryError in the running cell at the supervisor's signal, before the Linux kernel or the supervisor would kill."""

from __future__ import annotations

import os
import resource
import signal
import sys
import traceback
from typing import TYPE_CHECKING

from IPython.core.interactiveshell import InteractiveShell

from sentinel_kernel.worker.heap import trim_heap

if TYPE_CHECKING:
    from types import FrameType

# Loaded now, as there may be no memory to load it when it is needed; a cell finds it not imported, as under ipykernel.
sys.modules.pop("resource")

_TEXT_BYTES = 4096
_RESERVE = 15
_RUN_CODE = InteractiveShell.run_code.__code__


def raise_at(number: int, words: int) -> None:
    """Raise MemoryError at signal ``number``, with the last line that the pipe ``words`` holds as its text.

    Only while a cell's own code runs in the main thread: elsewhere it would end the kernel instead of the cell. Between
    cells the signal asks for the heap's free pages.
    """

    def stop(_number: int, frame: FrameType | None) -> None:
        try:
            text = os.read(words, _TEXT_BYTES).decode("utf-8", "replace")
        except OSError:  # the cell's code has read or closed it
            text = ""
        if _in_cell(frame):
            raise MemoryError(*text.strip().splitlines()[-1:])
        trim_heap()

    signal.signal(number, stop)


def _in_cell(frame: FrameType | None) -> bool:
    """Tell whether a frame belongs to a cell: whether a frame of its module was called by IPython's run_code."""
    while frame is not None:
        caller = frame.f_back
        if caller is not None and caller.f_code is _RUN_CODE:
            shell = caller.f_locals.get("self")
            return shell is not None and frame.f_globals is shell.user_global_ns
        frame = caller
    return False


def make_room() -> None:
    """Raise the limit of this process by what is kept back for an error's traceback; the supervisor takes it back."""
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    if soft != resource.RLIM_INFINITY:
        more = soft + soft // _RESERVE
        resource.setrlimit(
            resource.RLIMIT_DATA, (more if hard == resource.RLIM_INFINITY else min(more, hard), hard)
        )


def let_go() -> None:
    """Give up what the frames of the last error hold: after a MemoryError that is what there is too much of.

    Variables of the notebook are no part of a frame; %debug finds the frames, without their variables.
    """
    error = getattr(sys, "last_value", None)
    while error is not None:
        traceback.clear_frames(error.__traceback__)
        error = error.__cause__ or error.__context__
    trim_heap()
