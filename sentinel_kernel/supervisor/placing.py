"""Having a held call answered and finding where it came from: the cell's line, its function, the library, the thread.

The first refusals of a kind are counted once their line is known, so that each line has a record of its own; of those
that follow, a flood perhaps, only the number is of interest.
"""

from __future__ import annotations

import time

from sentinel_kernel.policy.violation import Frame
from sentinel_kernel.record import Record, replace
from sentinel_kernel.supervisor.started import is_younger

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from sentinel_kernel.policy.request import Request
    from sentinel_kernel.policy.stack_dump import Place
    from sentinel_kernel.policy.violation import Violation
    from sentinel_kernel.supervisor.held_line import HeldLine
    from sentinel_kernel.supervisor.ledger import Ledger
    from sentinel_kernel.supervisor.started import Started

_LINES_PER_KIND = 8
"""So many refusals of one kind are looked at in one cell; the others count for the first one's line."""

_MOST_KINDS = 256
"""Of so many kinds in one cell: a kind has its arguments, of which a program may have as many as it likes."""

_MOST_PROCESSES = 256
_KILL_PATIENCE_SECONDS = 0.05


class Places:
    """Records the refusals of one worker and what it starts, with their places."""

    def __init__(self, ledger: Ledger, held_line: HeldLine, started: Started, worker: int) -> None:
        """Record in ``ledger``; ``worker`` is the worker's process id."""
        self._ledger = ledger
        self._line = held_line
        self._started = started
        self._worker = worker
        self._looked: dict[tuple[object, ...], int] = {}
        self._starts: dict[int, Place | None] = {}
        self._began = 0.0

    def begin_cell(self) -> None:
        """Look anew: the ledger tells anew."""
        self._looked.clear()
        self._starts.clear()
        self._began = time.clock_gettime(time.CLOCK_BOOTTIME)

    def refuse(
        self,
        made: Violation,
        request: Request,
        registers: tuple[object, ...] | None,
        answer: Callable[[], object],
    ) -> bool:
        """Record a refusal (``registers``: Ledger.record), have it answered by ``answer``; True: look at the next too.

        So is a call that goes on in vain. A thread that has no Python, or has given up the handler, has no line.
        """
        kind = self._ledger.kind(made)
        looked = self._looked.get(kind, 0)
        if looked >= _LINES_PER_KIND or (looked == 0 and len(self._looked) >= _MOST_KINDS):
            self._ledger.record(made, registers)
            answer()
            return False
        self._looked[kind] = looked + 1
        told = looked == 0 and not self._ledger.knows(made)
        if told:
            self._ledger.record(made)  # told at once; its line follows
        self._look(request, _Record(self._ledger, made, told=told), answer)
        return True

    def _look(self, request: Request, record: _Record, answer: Callable[[], object]) -> None:
        """Find where a call comes from, and have it answered."""
        line, process, thread = self._line, request.pid, request.tid
        if not request.is_worker and record.made.started_line is None and not line.reaches(request):
            # Executed by what leaves no note, as os.system: whoever waits for it now has started it.
            def waits(place: Place | None) -> None:
                record.add(place, started)
                if place is not None and place.line is not None:
                    self._started_there(process, place)

            line.ask_who_waits(self._worker, waits, answer)
            return

        def held(main: Place | None) -> None:
            line.ask_held(process, thread, lambda own: record.add(_either(own, main), placed), answer)

        def seen(main: Place | None) -> None:
            # A stack that is looked at while its thread runs may be caught between two frames: once more.
            if main is not None or not line.ask_beside(process, {thread}, held, main=True):
                held(main)

        # A thread that the running cell has started may run none of its code: then who waits for it has its line.
        young = request.is_worker and thread != process and is_younger(thread, self._began)
        if not young or not line.ask_beside(process, {thread}, seen, main=True):
            held(None)

    def _started_there(self, process: int, place: Place) -> None:
        """Name the line that started ``process`` in all that it was refused, not in what was asked about alone."""
        self._starts[process] = replace(place, sure=False)
        for told in self._ledger.violations():
            if told.process is not None and told.process.pid == process and told.started_line is None:
                self._ledger.change(told.id, lambda violation: started(violation, place))

    def kill(self, violation: Violation, request: Request, done: Callable[[Place | None], None]) -> bool:
        """Find where a recorded call comes from that is never answered; False where nobody can tell.

        The held thread can't: another one of the worker's writes what it sees.
        """
        add = placed if request.is_worker else started
        if not request.is_worker and violation.started_line is not None:
            return False  # all that can be known

        def found(place: Place | None) -> None:
            if place is not None:
                self._ledger.change(violation.id, lambda known: add(known, place))
            done(place)

        main = request.tid == request.pid if request.is_worker else None
        return self._line.ask_beside(self._worker, {request.tid}, found, _KILL_PATIENCE_SECONDS, main=main)

    def described(self, made: Violation, request: Request) -> Violation:
        """Add what is known before the stack is: the name of a thread, the line that started a process."""
        if request.is_worker:
            if request.tid == request.pid:
                return made
            return replace(made, thread=self._started.thread_name(request.tid))
        if request.pid not in self._starts:
            if len(self._starts) >= _MOST_PROCESSES:
                self._starts.clear()
            self._starts[request.pid] = self._started.started_at(request.pid, self._worker, self._line.names)
        place = self._starts[request.pid]
        if place is None:
            return made
        sure = made.confidence if place.sure else "likely"
        return replace(made, cell=place.cell or None, started_line=place.line, confidence=sure)


class _Record(Record):
    """A refusal whose place is looked for; ``told``: it was recorded before."""

    ledger: Ledger
    made: Violation
    told: bool

    def add(self, place: Place | None, add: Callable[[Violation, Place | None], Violation]) -> None:
        """Add the place that was found, or record it without one."""
        if not self.told:
            self.ledger.record(add(self.made, place))
        elif place is not None:
            self.ledger.change(self.made.id, lambda violation: add(violation, place))


def _either(own: Place | None, main: Place | None) -> Place | None:
    """Return the place in a thread's own stack; where that has no line, the line that the main thread is at."""
    if own is None or own.line is not None or main is None:
        return own
    return replace(main, library=own.library, sure=False)


def placed(violation: Violation, place: Place | None) -> Violation:
    """Return ``violation`` with what a stack told."""
    if place is None:
        return violation
    library = place.library
    cell = violation.cell if place.line is None else place.cell or None
    return replace(
        violation,
        cell=cell,
        line=place.line,
        function=place.function,
        library=None if library is None else Frame(library.file, library.line, library.function),
        started_line=violation.started_line if cell == violation.cell else None,
        confidence=violation.confidence if place.sure else "likely",
    )


def started(violation: Violation, place: Place | None) -> Violation:
    """Return ``violation`` with the line that waits for the process, which is most likely the one that started it."""
    if place is None or place.line is None:
        return violation
    return replace(violation, cell=place.cell or None, started_line=place.line, confidence="likely")
