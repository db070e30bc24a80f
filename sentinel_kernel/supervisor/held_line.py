"""Finding the line of a refused call: the held thread is signalled, and dumps its stack when the call returns.

The worker registers faulthandler for one real-time signal. While a call is held, that signal stays pending; when the
refusal is answered the handler writes the thread's Python stack to a pipe before Python goes on, so the dump is there
before the cell can end, also where the code swallows the exception.
"""

from __future__ import annotations

import contextlib
import os
import time

from sentinel_kernel.linux.process import signal_thread
from sentinel_kernel.policy.stack_dump import (
    MAXIMUM_BYTES,
    cell_line,
    only_cell_line,
    parse_stack,
    parse_stacks,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection

_SETTLE_SECONDS = 0.003
"""A dump is many small writes; after this long without one it is taken as whole."""

_PATIENCE_SECONDS = 0.5
_LONG_PATIENCE_SECONDS = 1.0
"""The same where nothing but a person's answer waits."""

_STATUS_BYTES = 8192
_STATUS_READS = 128
"""65,536 supplementary groups of ten digits fit; the signals come after them."""


class HeldLine:
    """Asks for one stack at a time and reads it from the worker's pipe; owns the reading end."""

    def __init__(self, descriptor: int, signal_number: int) -> None:
        """Read dumps from ``descriptor``; ``signal_number`` is what the worker registered."""
        self.descriptor = descriptor
        self._signal = signal_number
        self._asked: str | None = None
        self._since = 0.0
        self._all = False
        """The stacks of all threads are under way, not one."""
        self._dump = bytearray()
        self._settled: float | None = None

    @property
    def expected(self) -> bool:
        """Whether a stack is under way."""
        patience = _LONG_PATIENCE_SECONDS if self._all else _PATIENCE_SECONDS
        return self._asked is not None and time.monotonic() - self._since < patience

    def ask(self, violation_id: str, process: int, thread: int) -> None:
        """Signal the held ``thread`` of the worker, where that is safe and no other dump is under way."""
        now = time.monotonic()
        if self.expected:
            return
        if not catches(thread, self._signal):
            return  # a signal that nobody catches would end the worker
        self._discard()
        with contextlib.suppress(ProcessLookupError, PermissionError):
            signal_thread(process, thread, self._signal)
            self._asked, self._since, self._all = violation_id, now, False

    def ask_beside(self, identifier: str, process: int, held: Collection[int]) -> bool:
        """Have one of the worker's other threads dump the stacks of all, while those in ``held`` wait; False: none can.

        faulthandler looks at the other threads as they stand, without their help.
        """
        if self.expected:
            return False
        number = self._signal - 1  # STACKS_SIGNAL of worker_link.py
        with contextlib.suppress(OSError, ValueError):
            for thread in map(int, os.listdir(f"/proc/{process}/task")):
                if thread not in held and catches(thread, number):
                    self._discard()
                    signal_thread(process, thread, number)
                    self._asked, self._since, self._all = identifier, time.monotonic(), True
                    return True
        return False

    def readable(self) -> None:
        """Take what the worker wrote."""
        try:
            chunk = os.read(self.descriptor, MAXIMUM_BYTES)
        except BlockingIOError:
            return
        if self._asked is None or not chunk:
            return
        self._dump += chunk
        del self._dump[:-MAXIMUM_BYTES]
        self._settled = time.monotonic() + _SETTLE_SECONDS

    def due_seconds(self) -> float | None:
        """Return in how many seconds :meth:`take` has an answer, or None."""
        return None if self._settled is None else max(0.0, self._settled - time.monotonic())

    def take(self, *, now: bool = False) -> tuple[str, int] | None:
        """Return (violation id, line of the cell) once a dump is whole; ``now`` takes what there is."""
        if now and self._asked is not None:
            self.readable()
        if self._asked is None or self._settled is None or (not now and self._settled > time.monotonic()):
            return None
        dump = bytes(self._dump)
        identifier = self._asked
        line = only_cell_line(parse_stacks(dump)) if self._all else cell_line(parse_stack(dump))
        self._asked, self._settled = None, None
        return None if line is None else (identifier, line)

    def _discard(self) -> None:
        """Forget what came without being asked for."""
        self._dump.clear()
        self._settled = None
        with contextlib.suppress(BlockingIOError):
            while os.read(self.descriptor, MAXIMUM_BYTES):
                pass

    def close(self) -> None:
        """Close the reading end."""
        os.close(self.descriptor)


def catches(thread: int, number: int) -> bool:
    """Tell whether a thread has a handler for a signal and does not block it (proc_pid_status(5))."""
    try:
        status = os.open(f"/proc/{thread}/status", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    text = b""
    try:
        for _ in range(_STATUS_READS):
            chunk = os.read(status, _STATUS_BYTES)
            text += chunk
            if not chunk or b"\n" in text.partition(b"\nSigCgt:")[2]:
                break
    except OSError:
        return False
    finally:
        os.close(status)
    caught, blocked = (text.partition(name)[2].split(None, 1)[:1] for name in (b"\nSigCgt:", b"\nSigBlk:"))
    bit = 1 << (number - 1)
    return bool(caught and blocked) and bool(int(caught[0], 16) & bit) and not int(blocked[0], 16) & bit
