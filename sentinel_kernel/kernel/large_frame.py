"""Memory for large frames from the worker, and the account of what of it is alive."""

from __future__ import annotations

import contextlib
import mmap
import weakref

from sentinel_kernel.errors import ProtocolError

_FIRST_BLOCK_BYTES = 256 * 1024
_GROWTH = 8
_HUGE_BYTES = 2 * 1024 * 1024
"""The Linux kernel's huge page on most machines. In small ones, the page faults of a frame of 50 MB take longer than
reading it."""


class Ledger:
    """Counts the bytes of large messages from the worker that are alive in the host, libzmq's queues too.

    libzmq gives no account of what it has queued for a slow client. Large frames are handed to it without a
    copy, so the life of their memory is that account.
    """

    def __init__(self) -> None:
        self._sizes: dict[weakref.ref[mmap.mmap], int] = {}

    def track(self, memory: mmap.mmap) -> None:
        """Count ``memory`` until it is freed."""
        # The callback runs in whatever thread drops the last reference (pyzmq's own, as a rule): a dict's pop
        # is atomic there.
        self._sizes[weakref.ref(memory, self._forget)] = len(memory)

    def _forget(self, reference: weakref.ref[mmap.mmap]) -> None:
        self._sizes.pop(reference, None)

    @property
    def live_bytes(self) -> int:
        """How many bytes are alive now."""
        return sum(list(self._sizes.values())) if self._sizes else 0


def fresh_memory(size: int) -> mmap.mmap:
    """Return ``size`` bytes of fresh memory. Raises ProtocolError where there are none."""
    try:
        # Private and anonymous: mremap(2) lets it grow without a copy, and its pages exist only once written.
        return mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    except OSError as error:
        raise ProtocolError(f"The host has no memory for {size} bytes from the worker.") from error


class Block:
    """The memory of one large frame, which grows as the frame's bytes arrive."""

    __slots__ = ("_memory", "filled", "room", "size")

    def __init__(self, size: int) -> None:
        self.size = size
        self.filled = 0
        self._memory = fresh_memory(min(size, _FIRST_BLOCK_BYTES))
        self.room = memoryview(self._memory)

    def received(self, count: int) -> bool:
        """Take note of ``count`` new bytes; tell whether the frame is whole. Raises ProtocolError."""
        self.filled += count
        if self.filled == self.size:
            return True
        if self.filled == len(self._memory):
            self._grow(min(self.size, _GROWTH * self.filled))
        return False

    def _grow(self, capacity: int) -> None:
        """Make room for ``capacity`` bytes, of which only those that arrive will take memory."""
        self.room.release()  # a mapping with a view of it can't be resized
        if capacity > _HUGE_BYTES:
            capacity += -capacity % _HUGE_BYTES  # what is not a multiple is not aligned to one either
        try:
            self._memory.resize(capacity)
        except (OSError, SystemError) as error:
            raise ProtocolError(f"The host has no memory for {capacity} bytes more.") from error
        with contextlib.suppress(OSError):  # a Linux kernel without huge pages
            self._memory.madvise(mmap.MADV_HUGEPAGE)
        self.room = memoryview(self._memory)[: self.size]
