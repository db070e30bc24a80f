"""Finding the line of a refused call: the held thread is signalled, and dumps its stack when the call returns.

The worker registers faulthandler for one real-time signal. While a call is held, that signal stays pending; when the
refusal is answered the handler writes the thread's Python stack to a pipe before Python goes on, so the dump is there
before the cell can end, also where the code swallows the exception. Forked children have the handler and the pipe too.

One dump is under way at a time, or two would be mixed in the pipe. A call of another thread stays held meanwhile.
"""

from __future__ import annotations

import contextlib
import os
import time

from sentinel_kernel.linux.process import signal_thread
from sentinel_kernel.policy.cell_lines import CellNames
from sentinel_kernel.policy.stack_dump import (
    MAXIMUM_BYTES,
    Place,
    is_recursion,
    is_whole,
    is_whole_of_all,
    only_place,
    parse_crash,
    parse_stack,
    parse_stacks,
    place_of,
)
from sentinel_kernel.record import MutableRecord, Record, fresh, replace
from sentinel_kernel.supervisor.thread_signals import catches, is_pending
from sentinel_kernel.supervisor.thread_time import ThreadTime

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping
    from typing import Any

    from sentinel_kernel.policy.request import Request

    Done = Callable[[Place | None], object]

_SETTLE_SECONDS = 0.1
"""A dump is many small writes; one that does not end as stacks do is taken as whole so long after the last.

Here and below it is the thread's time that counts: while it waits for a processor it can't write."""

PATIENCE_SECONDS = 2.0
"""So long, on a machine that has no processor for it, a thread may take to begin: one that can't write is silent."""

_SILENT_SECONDS = 0.05
"""A thread that no longer has the signal pending, and has written nothing so long after, runs no Python."""

_MOST_WAITING = 32
_WAITING_SECONDS = 1.0
"""So many calls stay held until it is their turn, and so long; after that they are answered, and have no line."""

_DISCARDED_READS = 16
_TAIL_BYTES = 8192
"""A whole line is in it, and a bit more."""


class _Asked(MutableRecord):
    """The dump that is under way."""

    done: Done
    thread: int
    number: int
    until: float
    time: ThreadTime
    """What the thread has had since the last sign that it goes on to write."""
    has_begun: bool = False
    """Its signal is no longer pending."""
    afterwards: list[Callable[[], object]] = fresh(default_factory=list)


class _Waiting(Record):
    """A held call whose turn has not come; ``thread`` None: it is not its own stack that is looked for."""

    process: int
    thread: int | None
    done: Done
    answer: Callable[[], object]
    until: float


class HeldLine:
    """Asks for one stack at a time and reads it from the worker's pipe; owns the reading end."""

    def __init__(self, descriptor: int, signal_number: int) -> None:
        """Read dumps from ``descriptor``; ``signal_number`` is what the worker registered."""
        self.descriptor = descriptor
        self.names = CellNames()
        """The cells that this worker was given."""

        self.last: Place | None = None
        """The last line of a running cell that was seen, since the newest cell began."""
        self.went_round = False
        """The crash was a recursion without end."""

        self._signal = signal_number
        self._pipe = ""
        """The worker's end of the pipe, as /proc names it."""
        self._number = -1
        """Its number in the worker and what it forks."""
        self._asked: _Asked | None = None
        self._all = False
        """The stacks of all threads are under way, not one."""
        self._main: bool | None = None
        """Whether that of the main thread is looked for, that of another one, or any."""

        self._dump = bytearray()
        self._taken = b""
        """The dump that was handed over last."""

        self._whole: bool | None = None
        """Whether what has come ends as stacks do; None while nothing has."""
        self._waiting: list[_Waiting] = []

    @property
    def expected(self) -> bool:
        """Whether a stack is under way."""
        return self._asked is not None

    def begin_cell(self, message: Mapping[str, Any]) -> None:
        """Take note of a cell that begins, as the host tells of it."""
        self._taken = b""
        if self._asked is None:
            self._discard()  # what a child wrote that crashed in an earlier cell
        code, lines = str(message.get("code") or ""), message.get("lines")
        self.names.begin(
            str(message.get("msg_id")),
            code,
            str(message.get("file") or ""),
            lines if isinstance(lines, int) else 0,
        )
        self.last = None

    def afterwards(self, call: Callable[[], object]) -> None:
        """Call ``call`` once the dump that is under way was handed over; at once where none is."""
        if self._asked is None:
            call()
        else:
            self._asked.afterwards.append(call)

    def reaches(self, request: Request) -> bool:
        """Tell whether who makes a call has the handler: the worker and what it forks, not what it executes."""
        return catches(request.tid, self._signal)

    def ask_held(self, process: int, thread: int, done: Done, answer: Callable[[], object]) -> None:
        """Find where a held call comes from and have it answered: at once, or when the dump before it is whole.

        ``done`` is called once, with the place or None.
        """
        asked = self._asked
        if asked is not None and asked.thread == thread:
            self.settle(now=True)  # a thread that makes its next call has written all
        self._in_turn(_Waiting(process, thread, done, answer, time.monotonic() + _WAITING_SECONDS))

    def ask_who_waits(self, process: int, done: Done, answer: Callable[[], object]) -> None:
        """As :meth:`ask_held` for a call of what ``process`` waits for, which is answered behind the dump.

        Once it is answered, who made it may end, and ``process`` be at its next line.
        """
        self._in_turn(_Waiting(process, None, done, answer, time.monotonic() + _WAITING_SECONDS))

    def _in_turn(self, call: _Waiting) -> None:
        if self._asked is None:
            self._begin(call)
        elif len(self._waiting) < _MOST_WAITING:
            self._waiting.append(call)
        else:
            call.done(None)
            call.answer()

    def _begin(self, call: _Waiting) -> None:
        """Ask for the stack that a held call's turn has come for."""
        if call.thread is not None:
            if not self.ask(call.process, call.thread, call.done):
                call.done(None)
            call.answer()
            return

        def found(place: Place | None) -> None:
            call.done(place)
            call.answer()

        if not self.ask_beside(call.process, (), found):
            found(None)

    def ask(self, process: int, thread: int, done: Done, patience: float = PATIENCE_SECONDS) -> bool:
        """Signal a thread, where that is safe and no other dump is under way; False where not."""
        if self._asked is not None or not self._is_safe(process, thread, self._signal):
            return False
        self._discard()
        return self._send(process, thread, self._signal, done, patience)

    def ask_beside(
        self,
        process: int,
        held: Collection[int],
        done: Done,
        patience: float = PATIENCE_SECONDS,
        *,
        main: bool | None = None,
    ) -> bool:
        """Have one of the worker's other threads dump the stacks of all, while those in ``held`` wait; False: none can.

        faulthandler looks at the other threads as they stand, without their help. ``main`` tells whether it is the main
        thread that is looked for.
        """
        if self._asked is not None:
            return False
        number = self._signal - 1  # STACKS_SIGNAL of worker_link.py
        waiting = {call.thread for call in self._waiting}
        with contextlib.suppress(OSError, ValueError):
            first, *threads = sorted(map(int, os.listdir(f"/proc/{process}/task")))
            # ipykernel's own threads before any of the cells', which may wait for something that a signal ends.
            for thread in (*threads, first):
                if thread not in held and thread not in waiting and self._is_safe(process, thread, number):
                    self._discard()
                    self._main = main
                    return self._send(process, thread, number, done, patience)
        return False

    def _send(self, process: int, thread: int, number: int, done: Done, patience: float) -> bool:
        until = time.monotonic() + patience
        try:
            signal_thread(process, thread, number, lambda: self._is_safe(process, thread, number))
        except OSError:
            return False
        self._asked = _Asked(done, thread, number, until, ThreadTime(thread))
        self._all = number != self._signal
        return True

    def _is_safe(self, process: int, thread: int, number: int) -> bool:
        """Tell whether a signal does no harm: it is caught, and what its handler writes to is still our pipe.

        A forked child that became a daemon has closed all, and may have a file of its own under that number.
        """
        return catches(thread, number) and self._has_pipe(process)

    def _has_pipe(self, process: int) -> bool:
        try:
            if self._number < 0:
                # The first one to be asked is the worker, or what it has just forked.
                self._pipe = f"pipe:[{os.fstat(self.descriptor).st_ino}]"
                numbers = sorted(map(int, os.listdir(f"/proc/{process}/fd")))
                self._number = next((number for number in numbers if self._is_pipe(process, number)), -1)
            return self._number >= 0 and self._is_pipe(process, self._number)
        except (OSError, ValueError):
            return False

    def _is_pipe(self, process: int, number: int) -> bool:
        try:
            return os.readlink(f"/proc/{process}/fd/{number}") == self._pipe
        except OSError:
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
        tail = bytes(self._dump[-_TAIL_BYTES:])
        self._whole = is_whole_of_all(tail) if self._all else is_whole(tail)
        self._asked.time.begin_anew()

    def due_seconds(self) -> float | None:
        """Return in how many seconds :meth:`settle` has something to do, or None."""
        if self._asked is None:
            return None
        if self._whole:
            return 0.0
        dues = [self._given_up_at(self._asked), self._asked.time.due(self._longest_silence)]
        dues += [waiting.until for waiting in self._waiting[:1]]
        return max(0.0, min(dues) - time.monotonic())

    def settle(self, *, now: bool = False) -> None:
        """Hand over a dump that is whole, or given up, and go on to the next; ``now`` takes what there is."""
        if now and self._asked is not None:
            self.readable()
        while self._asked is not None and (self._is_settled() or now):
            now = False
            self._hand_over(self._asked)
            self._ask_next()
        clock = time.monotonic()
        while self._waiting and clock >= self._waiting[0].until:
            waiting = self._waiting.pop(0)
            waiting.done(None)
            waiting.answer()

    def _hand_over(self, asked: _Asked) -> None:
        dump = bytes(self._dump)
        self._asked, self._whole = None, None
        self._taken = dump
        self._dump.clear()
        if self._all:
            place = only_place(parse_stacks(dump), self.names, main=self._main)
            place = None if place is None else replace(place, sure=False)
        else:
            place = place_of(parse_stack(dump), self.names, whole=is_whole(dump))
        if place is not None and place.line is not None and not place.cell:
            self.last = place
        asked.done(place)
        for call in asked.afterwards:
            call()

    def _ask_next(self) -> None:
        """Answer the calls that wait, up to one whose stack is then under way."""
        while self._waiting and not self.expected:
            self._begin(self._waiting.pop(0))

    @property
    def _longest_silence(self) -> float:
        return _SILENT_SECONDS if self._whole is None else _SETTLE_SECONDS

    def _given_up_at(self, asked: _Asked) -> float:
        """Return when to take what has come: whoever goes on writing to the pipe puts it off no longer than this."""
        return asked.until if self._whole is None else asked.until + _SETTLE_SECONDS

    def _is_settled(self) -> bool:
        asked = self._asked
        if asked is None:
            return False
        if self._whole or time.monotonic() >= self._given_up_at(asked):
            return True
        if asked.time.seconds() < self._longest_silence:
            return False
        if self._whole is None and not asked.has_begun:
            # While the signal is pending the thread has not gone on: a busy machine is no reason to give up.
            asked.has_begun = not is_pending(asked.thread, asked.number)
            asked.time.begin_anew()
            return False
        return True

    def crash(self) -> Place | None:
        """Return where the worker that has died was, by what its last handler wrote; None where it wrote nothing."""
        dump = bytearray(self._taken)
        with contextlib.suppress(BlockingIOError):
            for _ in range(_DISCARDED_READS):
                chunk = os.read(self.descriptor, MAXIMUM_BYTES)
                if not chunk:
                    break
                dump += chunk
        frames = parse_crash(bytes(dump))
        self.went_round = is_recursion(frames)
        place = place_of(frames, self.names)
        # The line of an earlier cell may be a child's, which shares the pipe and crashed by itself.
        return Place() if place is not None and place.cell else place

    def _discard(self) -> None:
        """Forget what came without being asked for: no more than a pipe holds, or who goes on writing is never done."""
        self._dump.clear()
        self._whole = None
        with contextlib.suppress(BlockingIOError):
            for _ in range(_DISCARDED_READS):
                if not os.read(self.descriptor, MAXIMUM_BYTES):
                    break

    def close(self) -> None:
        """Close the reading end; nothing is found any more."""
        asked, self._asked = self._asked, None
        if asked is not None:
            asked.done(None)
            for call in asked.afterwards:
                call()
        for waiting in self._waiting:
            waiting.done(None)
            waiting.answer()
        self._waiting.clear()
        os.close(self.descriptor)
