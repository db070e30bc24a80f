"""Notes of which line of a cell started a process or a thread, where the supervisor can read them: in shared memory.

A refusal names the line that started the process which made the call. By then that line may be long past, and a process
that was executed has no stack of Python. Nothing is called at a start but what writes some hundred bytes here.
"""

from __future__ import annotations

import mmap
import os
import signal
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

SLOTS, SLOT_BYTES = 512, 512
THREADS, THREAD_BYTES = 512, 128
REFUSED = SLOTS * SLOT_BYTES + THREADS * THREAD_BYTES
OVERFULL = REFUSED + SLOT_BYTES
"""As supervisor/started.py has it: a process has the slot of its number modulo SLOTS; behind them are the threads,
behind those the last start that failed for want of tasks, and the last child that SIGBUS has ended."""

_CELLS = "/ipykernel_"
_TIMED = ("<timed exec>", "<timed eval>", "<magic-timeit>")
_LARGE_STACK = 64 << 20
_FRAMES = 3
_DEPTH = 200


def note_starts(descriptor: int) -> None:
    """Note from here on what is started in this process and those that it forks, in the file ``descriptor``."""
    table = mmap.mmap(descriptor, OVERFULL + SLOT_BYTES)
    os.close(descriptor)  # what is written to it later would be in no bounds

    def note(number: int, text: bytes) -> None:
        at = number % SLOTS * SLOT_BYTES
        table[at : at + SLOT_BYTES] = (b"%d %b" % (number, text))[:SLOT_BYTES].ljust(SLOT_BYTES, b"\0")

    def name(number: int, text: bytes) -> None:
        at = SLOTS * SLOT_BYTES + number % THREADS * THREAD_BYTES
        table[at : at + THREAD_BYTES] = (b"%d %b" % (number, text))[:THREAD_BYTES].ljust(THREAD_BYTES, b"\0")

    def refused(what: bytes, frame: FrameType) -> None:
        text = b"%d %b %b" % (time.monotonic_ns(), what, _stack(frame))
        table[REFUSED : REFUSED + SLOT_BYTES] = text[:SLOT_BYTES].ljust(SLOT_BYTES, b"\0")

    def overfull(number: int) -> None:
        at = number % SLOTS * SLOT_BYTES
        whose, _, stack = table[at : at + SLOT_BYTES].rstrip(b"\0").partition(b" ")
        text = b"%d %b" % (time.monotonic_ns(), stack if whose == b"%d" % number else b"")
        table[OVERFULL : OVERFULL + SLOT_BYTES] = text[:SLOT_BYTES].ljust(SLOT_BYTES, b"\0")

    look = _note_bus_errors(overfull)
    os.register_at_fork(
        after_in_child=lambda: note(os.getpid(), _stack(sys._getframe(1))),  # noqa: SLF001 - where it was called from
        after_in_parent=look,
    )
    _note_executed(note, refused, look)
    _note_threads(name)
    _note_refused_threads(refused)


def _note_executed(
    note: Callable[[int, bytes], None], refused: Callable[[bytes, FrameType], None], look: Callable[[], None]
) -> None:
    """Note what subprocess and multiprocessing execute; they fork in C, where no hook is called."""
    module: Any = sys.modules.get("_posixsubprocess")
    start: Callable[..., int] | None = getattr(module, "fork_exec", None)
    if start is None:  # another Python may have it elsewhere: its children then have no line
        return

    def fork_exec(*arguments: object) -> int:
        text = _stack(sys._getframe(1))  # noqa: SLF001 - where it was called from
        note(os.getpid(), text)  # the child may be refused something before this process goes on
        try:
            number = start(*arguments)
            note(number, text)
        except BlockingIOError:
            refused(b"process", sys._getframe(1))  # noqa: SLF001 - as above
            raise
        finally:
            note(os.getpid(), b"")  # else what is forked later would have this line
        look()
        return number

    module.fork_exec = fork_exec
    if hasattr(subprocess, "_fork_exec"):
        subprocess._fork_exec = fork_exec  # noqa: SLF001 - its own name for the same


def _note_bus_errors(ended: Callable[[int], None]) -> Callable[[], None]:
    """Note who has ended by SIGBUS, as Python takes note of that; return what looks for multiprocessing, once used.

    Where a Popen's ``returncode`` is set, nobody waits any more: no frame of ours is on the way of an interrupt.
    """
    bus_errors = (-signal.SIGBUS, 128 + signal.SIGBUS)  # as Popen tells it, and as a shell does

    class ReturnCode:
        """Without ``__get__``: what an object has itself is found there as ever."""

        def __set__(self, process: object, value: object) -> None:
            own = vars(process)
            own["returncode"] = value
            number = own.get("pid")
            if type(value) is int and value in bus_errors and type(number) is int:
                ended(number)

    def look() -> None:
        module: Any = sys.modules.get("multiprocessing.popen_fork")
        if module is not None and "returncode" not in vars(module.Popen):
            module.Popen.returncode = ReturnCode()

    kind: Any = subprocess.Popen
    kind.returncode = ReturnCode()
    return look


def _note_threads(name: Callable[[int, bytes], None]) -> None:
    """Note the names of threads, which the Linux kernel is not told of before Python 3.14, and cut at 15 bytes."""
    kind: Any = threading.Thread
    set_number: Callable[[threading.Thread], None] | None = getattr(kind, "_set_native_id", None)
    if set_number is None:  # as above: threads then have no name
        return

    fields = vars(kind)["__dict__"].__get__
    """The slot itself: a class below may have hidden it."""

    def _set_native_id(self: threading.Thread) -> None:
        set_number(self)
        # Start() waits for this thread: nothing of the program's may be called here, as a property ``name`` would be.
        own = fields(self)
        number, text = own.get("_native_id"), own.get("_name")
        if type(number) is int and type(text) is str:
            name(number, text.encode("utf-8", "replace"))

    kind._set_native_id = _set_native_id  # noqa: SLF001


def _note_refused_threads(refused: Callable[[bytes, FrameType], None]) -> None:
    """Note where a thread could not be started, also where the program makes nothing of it.

    Start() takes a thread out of those that are being started by itself where that has failed; else the thread does.
    Seen from there, no frame of ours is on the error's way.
    """
    module: Any = threading
    starting = getattr(module, "_limbo", None)
    if (
        type(starting) is not dict
    ):  # another Python may do without: then a start that was swallowed has no line
        return

    class Starting(dict[threading.Thread, threading.Thread]):
        def __delitem__(self, thread: threading.Thread) -> None:
            if sys.exc_info()[0] is RuntimeError and not has_large_stacks():
                refused(b"thread", sys._getframe(1))  # noqa: SLF001 - as above
            super().__delitem__(thread)

    module._limbo = Starting(starting)  # noqa: SLF001 - its own name for them


def has_large_stacks() -> bool:
    """Tell whether the program has set a size of threads' stacks that may be too large by itself."""
    size = threading.stack_size()  # which sets none
    threading.stack_size(size)
    return size > _LARGE_STACK


def _stack(frame: FrameType | None) -> bytes:
    """Return the innermost lines of cells, and the outermost, as faulthandler writes a stack."""
    lines = []
    for _ in range(_DEPTH):
        if frame is None:
            break
        code = frame.f_code
        if _CELLS in code.co_filename or code.co_filename in _TIMED:
            lines.append(f'  File "{code.co_filename}", line {frame.f_lineno} in {code.co_name}')
        frame = frame.f_back
    if not lines:
        return b"started (most recent call first):\n"
    kept = lines if len(lines) <= _FRAMES else [*lines[: _FRAMES - 1], lines[-1]]
    return ("started (most recent call first):\n" + "\n".join(kept) + "\n").encode("utf-8", "replace")
