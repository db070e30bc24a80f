"""MemoryError in the running cell at the supervisor's signal, before the Linux kernel or the supervisor would kill."""

from __future__ import annotations

import contextlib
import mmap
import os
import resource
import signal
import sys
import traceback
from typing import TYPE_CHECKING

from IPython.core.interactiveshell import InteractiveShell

from sentinel_kernel.worker.heap import trim_heap

if TYPE_CHECKING:
    from types import FrameType, TracebackType

_TEXT_BYTES = 4096
_RESERVE = 9
_BALLAST_BYTES = 8 << 20
_SHOWN_FRAMES = 100
LONG_FRAMES, _LOOKED_AT = 5000, 10_000
_THREAD_POOLS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS")
_pools = {name: os.environ[name] for name in _THREAD_POOLS if name in os.environ}

_RUN_CODE = InteractiveShell.run_code.__code__


def raise_at(number: int, words: int) -> None:
    """Raise MemoryError at signal ``number``, with the text that the pipe ``words`` holds (``error``).

    Only while a cell's own code runs in the main thread: elsewhere it would end the kernel instead of the cell. Other
    words are asked for between cells (``processors``, ``reap``); without any the signal asks for the heap's free pages.
    """

    def stop(_number: int, frame: FrameType | None) -> None:
        try:
            lines = os.read(words, _TEXT_BYTES).decode("utf-8", "replace").splitlines()
        except OSError:  # the cell's code has read or closed it
            lines = []
        told = dict(line.partition(" ")[::2] for line in lines)
        if "reap" in told:
            from sentinel_kernel.worker.reaping import reap_children  # noqa: PLC0415 - behind a bomb of processes alone

            reap_children()
        if "processors" in told:
            _size_thread_pools(told["processors"])
        if "error" in told and _in_cell(frame):
            raise MemoryError(told["error"])
        trim_heap()
        _tight.append(True)

    signal.signal(number, stop)
    # They were loaded ahead, as they are needed where nothing can be loaded; a cell finds them as under ipykernel.
    for name in ("resource", "mmap"):
        sys.modules.pop(name, None)


def _size_thread_pools(count: str) -> None:
    """Set the variables that libraries and child processes take their number of threads from, unless the cell did."""
    global _pools  # noqa: PLW0603 - the environment is the process's, and so is what was last put there
    for name in _THREAD_POOLS:
        if os.environ.get(name) in (None, _pools.get(name)):
            os.environ[name] = count
    _pools = dict.fromkeys(_THREAD_POOLS, count)


def _in_cell(frame: FrameType | None) -> bool:
    """Tell whether a frame belongs to a cell: whether a frame of its module was called by IPython's run_code."""
    for _ in range(_LOOKED_AT):
        if frame is None:
            return False
        caller = frame.f_back
        if caller is not None and caller.f_code is _RUN_CODE:
            shell = caller.f_locals.get("self")
            return shell is not None and frame.f_globals is shell.user_global_ns
        frame = caller
    return True  # so deep is a recursion of a cell's alone; to look at each frame makes an object of it


_ballast: list[mmap.mmap] = []
_tight: list[bool] = []
"""Not empty where the supervisor has said that memory is short."""


def keep_room() -> None:
    """Keep some memory, never touched, that can be given up where none is left."""
    if not _ballast:
        # A bytearray would be touched, by filling it with zeros.
        with contextlib.suppress(OSError):
            _ballast.append(mmap.mmap(-1, _BALLAST_BYTES, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS))


def make_room() -> None:
    """Raise the limit of this process by what is kept back for an error's traceback; the supervisor takes it back."""
    while _ballast:
        _ballast.pop().close()
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    if soft != resource.RLIM_INFINITY:
        more = soft + soft // _RESERVE
        # Not of a process that has closed itself to the supervisor (PR_SET_DUMPABLE): it says MemoryError all the same.
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(
                resource.RLIMIT_DATA, (more if hard == resource.RLIM_INFINITY else min(more, hard), hard)
            )


def shorten(traceback_: TracebackType | None, beyond: int = 2 * _SHOWN_FRAMES) -> None:
    """Take the middle out of a traceback that is too long to be shown in good time: of a recursion without end.

    One of up to ``beyond`` frames stays as it is.
    """
    length, last = 0, traceback_
    while last is not None:
        length, last = length + 1, last.tb_next
    if traceback_ is None or length <= beyond:
        return
    cut = traceback_
    for _ in range(_SHOWN_FRAMES - 1):
        cut = cut.tb_next or cut
    rest: TracebackType | None = cut
    for _ in range(length - 2 * _SHOWN_FRAMES + 1):
        rest = rest.tb_next if rest is not None else None
    cut.tb_next = rest


def after_cell(ename: str) -> None:
    """Give memory back that a cell had, where it is short."""
    if ename.endswith("MemoryError"):
        let_go(getattr(sys, "last_value", None))
    elif _tight:
        trim_heap()
    _tight.clear()


def wants_memory(error: BaseException | None) -> bool:
    """Tell whether an error came up for want of memory, or while one that did was handled."""
    for _ in range(_SHOWN_FRAMES):
        if error is None or isinstance(error, MemoryError):
            break
        error = error.__cause__ or error.__context__
    return isinstance(error, MemoryError)


def let_go(error: BaseException | None) -> None:
    """Give up what an error holds, and the free pages of the heap."""
    empty_frames(error)
    trim_heap()


def empty_frames(error: BaseException | None) -> None:
    """Empty the frames of an error and of those before it: after a MemoryError that is what there is too much of.

    Variables of the notebook are no part of a frame; %debug finds the frames, without their variables.
    """
    seen: set[int] = set()
    while error is not None and id(error) not in seen:  # without memory, Python chains an error to itself
        seen.add(id(error))
        traceback.clear_frames(error.__traceback__)
        position = error.__traceback__
        while position is not None:
            # Until Python 3.12 a frame keeps the copy of its variables that was asked for; asked again, it is empty.
            len(position.tb_frame.f_locals)
            position = position.tb_next
        error = error.__cause__ or error.__context__
