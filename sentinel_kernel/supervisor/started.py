"""Reading which line of a cell started a process, and what a thread is called, as the worker has noted it.

The notes are in a file in memory that the worker has mapped (worker/started.py). Hostile: they are copied, bounded,
parsed strictly, and only ever displayed.
"""

from __future__ import annotations

import os

from sentinel_kernel.linux.sealed_memory import sealed_memory
from sentinel_kernel.policy.stack_dump import parse_stack, place_of
from sentinel_kernel.policy.text import shown
from sentinel_kernel.record import Record, replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from sentinel_kernel.policy.cell_lines import CellNames
    from sentinel_kernel.policy.stack_dump import Place

SLOTS, SLOT_BYTES = 512, 512
THREADS, THREAD_BYTES = 512, 128
_REFUSED = SLOTS * SLOT_BYTES + THREADS * THREAD_BYTES
_OVERFULL = _REFUSED + SLOT_BYTES
_ANCESTORS = 16
_STATUS_BYTES = 8192
_NAME_CHARACTERS = 100
_STARTED_FIELD = 19  # of those behind the name, from 0: starttime
_TICKS = os.sysconf("SC_CLK_TCK")


class _Status(Record):
    """Numbers of a process: its parent's as seen from here; its own, and its session's, as seen inside."""

    parent: int
    inside: int
    session: int


class Started:
    """The notes of one worker; owns the file."""

    def __init__(self) -> None:
        """Make the file.

        Raises:
            OSError: it can't be made.

        """
        self.descriptor = sealed_memory("started", _OVERFULL + SLOT_BYTES)

    def started_at(self, process: int, worker: int, names: CellNames) -> Place | None:
        """Return where ``process``, or the nearest of its ancestors that was noted, was started.

        Not sure: where only the session tells, or the note was made before it was known for which process.
        """
        seen = _status(process)
        first = seen
        for _ in range(_ANCESTORS):
            if seen is None:
                return None
            place = self._place(seen.inside, names)
            if place is not None:
                return place
            if seen.parent == worker:
                break
            seen = _status(seen.parent)
            if seen is None or seen.inside == 1:  # an orphan: pid 1 inside has taken it
                place = self._place(first.session, names) if first is not None else None
                return None if place is None else replace(place, sure=False)
        parent = _status(worker)
        place = self._place(parent.inside, names) if parent is not None else None
        return None if place is None else replace(place, sure=False)

    def thread_name(self, thread: int) -> str | None:
        """Return the name of a thread, None where it is not known."""
        status = _status(thread)
        if status is None:
            return None
        note = self._read(
            status.inside, SLOTS * SLOT_BYTES + status.inside % THREADS * THREAD_BYTES, THREAD_BYTES
        )
        return shown(note.decode("utf-8", "replace"), _NAME_CHARACTERS) or None

    def refused(self, since_ns: int) -> tuple[bool, bytes] | None:
        """Return whether a thread, not a process, could not be started last, and the stack; None: not since then.

        ``since_ns`` is on the clock of time.monotonic_ns.
        """
        rest = self._read_since(since_ns, _REFUSED)
        if rest is None:
            return None
        what, _, stack = rest.partition(b" ")
        return what == b"thread", stack

    def overfull(self, since_ns: int) -> bytes | None:
        """Return the stack that has started who was ended by SIGBUS last; None: nobody was since then, as above."""
        return self._read_since(since_ns, _OVERFULL)

    def _place(self, number: int, names: CellNames) -> Place | None:
        note = self._read(number, number % SLOTS * SLOT_BYTES, SLOT_BYTES)
        place = place_of(parse_stack(note), names)
        return None if place is None or place.line is None else place

    def _read_since(self, since_ns: int, where: int) -> bytes | None:
        """Return what was noted there at ``since_ns`` or later."""
        try:
            slot = os.pread(self.descriptor, SLOT_BYTES, where)
        except OSError:
            return None
        at, _, note = slot.rstrip(b"\0").partition(b" ")
        return note if at.isdigit() and int(at) >= since_ns else None

    def _read(self, number: int, at: int, size: int) -> bytes:
        """Return what was noted of a process or thread, by its number inside."""
        try:
            slot = os.pread(self.descriptor, size, at)
        except OSError:
            return b""
        whose, _, note = slot.rstrip(b"\0").partition(b" ")
        return note if whose == b"%d" % number else b""

    def close(self) -> None:
        """Close the file."""
        os.close(self.descriptor)


def is_younger(thread: int, moment: float) -> bool:
    """Tell whether a thread was started after ``moment``, in seconds since the machine's start (proc_pid_stat(5))."""
    try:
        with open(f"/proc/{thread}/stat", "rb") as file:
            began = int(file.read(_STATUS_BYTES).rpartition(b")")[2].split()[_STARTED_FIELD])
    except (OSError, ValueError, IndexError):
        return False
    return began + 1 >= moment * _TICKS


def _status(process: int) -> _Status | None:
    try:
        with open(f"/proc/{process}/status", "rb") as file:
            text = file.read(_STATUS_BYTES)
        parent, inside, session = (
            int(text.partition(b"\n" + name + b":")[2].partition(b"\n")[0].split()[-1])
            for name in (b"PPid", b"NSpid", b"NSsid")
        )
    except (OSError, ValueError, IndexError):
        return None
    return _Status(parent, inside, session)
