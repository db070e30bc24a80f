"""Holds each cell to its seconds: interrupts it when they are used up, and has the worker killed if it goes on.

Two clocks: wall time, and the processor time of everything in the sandbox. While a cell waits for the person (input(),
a question of ours) its wall clock stands, save for processor time that is used meanwhile: a cell that only pretends
to ask, and computes, gains nothing.
"""

from __future__ import annotations

import os
import time

from sentinel_kernel.record import MutableRecord, fresh
from sentinel_kernel.supervisor import protocol
from sentinel_kernel.supervisor.clearing import LOOK_SECONDS, Clearing
from sentinel_kernel.supervisor.keeper import Keeper
from sentinel_kernel.supervisor.last_words import note_place
from sentinel_kernel.supervisor.processes import process_seconds
from sentinel_kernel.supervisor.processor_time import RUNS, STATE, ProcessorTime, has_runnable, stat_fields
from sentinel_kernel.supervisor.reached import reached

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from sentinel_kernel.policy.plan import Sizes
    from sentinel_kernel.supervisor.current import Current
    from sentinel_kernel.supervisor.sandbox import Sandbox

GRACE_SECONDS = 5
"""How long a cell may go on after its interrupt where the profile says nothing else."""

_SECOND_INTERRUPT = 0.5
"""After this share of the grace a cell that goes on is interrupted once more."""

_GIVEN_SHARE, _PATIENCE, _MOST_PATIENCE = 0.8, 0.1, 8
"""The grace is over once the worker had a processor for most of it, or wanted none; on a busy machine that is looked at
after each tenth of the grace, up to eight times as long."""

_AFTER_SECONDS = 0.5
_BUSY_SHARE = 0.1
"""A cell that has said that it ended is looked at so often, until what goes on takes less than this of a processor:
it may have lied, or left threads behind."""

_LEAST_WAIT_SECONDS = 0.05
_WAITING_LOOK_SECONDS = 0.5
"""How often processor time is looked at while a cell waits for the person."""

_CHURN_SECONDS = 0.01
_WATCH_SECONDS = 0.1
"""How often the processor time is looked at where nothing but looking counts it: with processes that come and go, and
without."""

_LOOK_SHARE = 20
"""Between two looks at the processor time passes this many times what a look takes: many processes take long."""


class _Cell(MutableRecord):
    """A cell that runs."""

    msg_id: str
    began: float
    cpu_began: float | None = None
    stood_seconds: float = 0.0
    """How long its wall clock has stood, in all."""
    waits_for: set[str] = fresh(default_factory=set)
    """Why its wall clock stands: input, question."""
    began_at: float = fresh(default_factory=lambda: time.clock_gettime(time.CLOCK_BOOTTIME))
    """When it began on the clock of a process's start time."""
    cleared: bool = False
    asks_since: float | None = None
    cpu_at_question: float = 0.0
    interrupted: float | None = None
    again: bool = False
    """It was interrupted a second time."""
    first_interrupted: float = 0.0
    worker_used: float = 0.0
    """The worker's processor time when it was interrupted first."""
    patient_until: float = 0.0
    clearing: Clearing | None = None
    """What goes on after its end is being ended."""
    over: str = ""
    """The limit that it was interrupted for."""
    looked_after: float | None = None
    """When it was last looked at what goes on after its end; None: it has not ended."""
    used_after: float = 0.0
    """The processor time that was used by then."""


class CellClock(Keeper):
    """Watches the clocks of the cells that run.

    ``tell`` sends an event to the host; ``interrupt`` interrupts what runs in the worker, as the person would;
    ``asks`` tells whether a held call waits for the person.
    """

    def __init__(
        self,
        tell: Callable[[str, dict[str, Any]], None],
        interrupt: Callable[[Current], object],
        asks: Callable[[], bool],
        host_pid: Callable[[], int] = lambda: 0,
    ) -> None:
        self._tell = tell
        self._interrupt = interrupt
        self._asks = asks
        self._host_pid = host_pid
        self._asked = False
        self._current: Current | None = None
        self._sandbox: Sandbox | None = None
        """Whose processor time was counted last: it may get another worker."""
        self._generation = 0
        self._cells: dict[str, _Cell] = {}
        self._processor_time = ProcessorTime()
        self._used: float = 0.0
        self._looked: float | None = None
        self._look_seconds = 0.0

    def sandbox_ready(self, current: Current, generation: int) -> None:
        """Watch this sandbox's cells."""
        if self._sandbox is not current.sandbox:
            self._processor_time = ProcessorTime()
            self._sandbox = current.sandbox
        self._current, self._generation = current, generation
        self._cells.clear()

    def sandbox_gone(self, cause: dict[str, Any]) -> None:  # noqa: ARG002 - the cells are over, whatever it was
        """Watch nothing: what the host sends before it hears of the death is for no sandbox."""
        self._cells.clear()
        self._current = None

    def begin_cell(self, message: dict[str, Any]) -> None:
        """Start a cell's clocks."""
        # What an earlier one has left running uses up this one's processor time.
        self._cells = {msg_id: cell for msg_id, cell in self._cells.items() if cell.looked_after is None}
        cell = _Cell(str(message.get("msg_id")), time.monotonic())
        self._cells[cell.msg_id] = cell
        if self._sizes() is not None:
            self._start_counting(cell)

    def end_cell(self, message: dict[str, Any]) -> None:
        """Stop a cell's clocks, once nothing goes on any more."""
        cell = self._cells.get(str(message.get("msg_id")))
        if cell is None:
            return
        if self._sizes() is None or message.get("status") == "died":
            del self._cells[cell.msg_id]
        elif cell.looked_after is None:
            cell.looked_after, cell.used_after = time.monotonic(), self._look()

    def _goes_on(self, cell: _Cell) -> bool:
        """Tell whether ``cell`` has not ended, or something is still busy after it."""
        if cell.looked_after is None:
            return True
        now, used = time.monotonic(), self._look()
        busy = used - cell.used_after >= (now - cell.looked_after) * _BUSY_SHARE
        cell.looked_after, cell.used_after = now, used
        # On a busy machine what goes on gets less than that.
        return busy or (self._current is not None and has_runnable(self._current))

    def person_asked(self, message: dict[str, Any]) -> None:
        """Stop a cell's wall clock while it waits for the person, and let it go on."""
        cell = self._cells.get(str(message.get("msg_id")))
        if cell is not None and self._sizes() is not None:
            self._stand(cell, "input", stands=message.get("waiting") is True)

    def _follow_questions(self) -> None:
        """Stop all wall clocks while a held call waits for the person: which cell made it is not known for sure."""
        asked = self._asks()
        if asked != self._asked:
            self._asked = asked
            for cell in self._cells.values():
                self._stand(cell, "question", stands=asked)

    def _stand(self, cell: _Cell, reason: str, *, stands: bool) -> None:
        if stands and not cell.waits_for:
            cell.asks_since, cell.cpu_at_question = time.monotonic(), self._look()
        was = bool(cell.waits_for)
        if stands:
            cell.waits_for.add(reason)
        else:
            cell.waits_for.discard(reason)
        if was and not cell.waits_for:
            cell.stood_seconds += self._standing(cell, self._look())
            cell.asks_since = None

    def due_seconds(self) -> float | None:
        """Return when the first of the cells may have used up its seconds."""
        sizes = self._sizes()
        if sizes is None or not self._cells:
            return None
        return max(0.0, min(self._wait(cell, sizes) for cell in self._cells.values()))

    def catch_up(self) -> dict[str, Any] | None:
        """Interrupt the cells whose seconds are used up; return the cause of death for one that goes on."""
        sizes, current = self._sizes(), self._current
        if sizes is None or current is None:
            return None
        self._follow_questions()
        for cell in list(self._cells.values()):
            if self._wait(cell, sizes) > 0:
                continue
            if cell.clearing is None and not self._goes_on(cell):
                del self._cells[cell.msg_id]
                continue
            if cell.clearing is None and self._is_starved(cell, current, sizes):
                cell.patient_until = time.monotonic() + _grace(sizes) * _PATIENCE
                continue
            if cell.interrupted is not None and not cell.again:
                # Python loses an interrupt that comes while it forks, or in a destructor.
                cell.again = True
                self._interrupt(current)
                continue
            if cell.interrupted is not None and cell.looked_after is not None and not cell.cleared:
                self._end_rest(cell, current, sizes)
                continue
            if cell.interrupted is not None:
                # Said once: the next kill, if this one fails, is a grace later.
                cell.interrupted = time.monotonic()
                return {"kind": "limit", "limit": self._event(cell, current, sizes, "kill")}
            cell.over = self._over(cell, sizes)
            if cell.over:
                cell.interrupted = cell.first_interrupted = time.monotonic()
                cell.worker_used = process_seconds(current.worker_pid) or 0.0
                limit = self._event(cell, current, sizes, "interrupt")
                note_place(current, limit)
                self._tell(protocol.EVENT_LIMIT, {"generation": self._generation, "limit": limit})
                self._interrupt(current)
        return None

    def _is_starved(self, cell: _Cell, current: Current, sizes: Sizes) -> bool:
        """Tell whether the worker was interrupted and has hardly had a processor since, or the host has none.

        To show an error takes some tenths of a second of it, which on a busy machine are seconds.
        """
        grace = _grace(sizes)
        if cell.interrupted is None or time.monotonic() > cell.first_interrupted + grace * _MOST_PATIENCE:
            return False
        used = process_seconds(current.worker_pid)
        waits = _wants_processor(current.worker_pid) and used is not None
        # The host may have that the cell has ended, and not had the time to pass it on.
        return (waits and (used or 0.0) - cell.worker_used < grace * _GIVEN_SHARE) or _wants_processor(
            self._host_pid()
        )

    def _end_rest(self, cell: _Cell, current: Current, sizes: Sizes) -> None:
        """End what a cell that has ended itself has started: the worker, and with it the variables, goes last."""
        cell.clearing = cell.clearing or Clearing(current, cell.began_at)
        if not cell.clearing.step():
            return
        if cell.clearing.ended:
            limit = self._event(cell, current, sizes, "kill")
            self._tell(protocol.EVENT_LIMIT, {"generation": self._generation, "limit": limit})
        cell.clearing, cell.cleared = None, True
        cell.interrupted = cell.looked_after = time.monotonic()
        cell.used_after = self._look()

    def _sizes(self) -> Sizes | None:
        """Return the limits in force where they limit seconds."""
        if self._current is None:
            return None
        sizes = self._current.preparation.plan.sizes
        return sizes if sizes.wall_seconds is not None or sizes.cpu_seconds is not None else None

    def _wait(self, cell: _Cell, sizes: Sizes) -> float:
        """Return in how many seconds there is something to do about ``cell``."""
        now = time.monotonic()
        if cell.clearing is not None:
            return LOOK_SECONDS
        if cell.interrupted is not None:
            due = cell.interrupted + _grace(sizes) * (1 if cell.again else _SECOND_INTERRUPT)
            return max(due, cell.patient_until) - now
        if cell.looked_after is not None:
            return cell.looked_after + _AFTER_SECONDS - now
        self._start_counting(cell)  # the limit may be younger than the cell
        waits = []
        if sizes.wall_seconds is not None:
            left = sizes.wall_seconds - self._wall(cell, now)
            if cell.asks_since is not None:
                left = min(left, _WAITING_LOOK_SECONDS - (now - (self._looked or now)))
            waits.append(left)
        if sizes.cpu_seconds is not None:
            # No faster than all processors together.
            left = sizes.cpu_seconds - (self._used - (cell.cpu_began or 0.0))
            since = now - (self._looked or now)
            waits.append(left / self._processors() - since if left > 0 else 0.0)
            if not self._processor_time.counts_all:
                waits.append(self._pace() - since)
        wait = min(waits)
        if wait > 0 or self._looked is None:
            return wait
        # Nothing is decided by an old look, and the next one is not right behind the last.
        since = now - self._looked
        least = max(min(_LEAST_WAIT_SECONDS, self._pace()), self._look_seconds * _LOOK_SHARE)
        return 0.0 if since >= least or self._over_by(cell, sizes, self._used, now) else least - since

    def _over(self, cell: _Cell, sizes: Sizes) -> str:
        return self._over_by(cell, sizes, self._look(), time.monotonic())

    def _over_by(self, cell: _Cell, sizes: Sizes, used: float, now: float) -> str:
        """Return the name of the limit that is used up, if any."""
        if sizes.cpu_seconds is not None and used - (cell.cpu_began or 0.0) >= sizes.cpu_seconds:
            return "cpu_seconds"
        return (
            "wall_seconds"
            if sizes.wall_seconds is not None and self._wall(cell, now) >= sizes.wall_seconds
            else ""
        )

    def _wall(self, cell: _Cell, now: float) -> float:
        standing = self._standing(cell, self._used) if cell.asks_since is not None else 0.0
        return now - cell.began - cell.stood_seconds - standing

    def _standing(self, cell: _Cell, used: float) -> float:
        """Return how long the wall clock stands by the question that is open."""
        if cell.asks_since is None:
            return 0.0
        return max(0.0, time.monotonic() - cell.asks_since - max(0.0, used - cell.cpu_at_question))

    def _pace(self) -> float:
        return _CHURN_SECONDS if self._processor_time.churns else _WATCH_SECONDS

    def _start_counting(self, cell: _Cell) -> None:
        if cell.cpu_began is None:
            cell.cpu_began = self._look()

    def _look(self) -> float:
        """Look at how much processor time was used."""
        if self._current is not None:
            started = time.monotonic()
            self._used = self._processor_time.seconds(self._current)
            self._looked = time.monotonic()
            self._look_seconds = self._looked - started
        return self._used

    def _processors(self) -> int:
        cpus = self._current.preparation.plan.cpus if self._current is not None else ()
        return len(cpus) or os.cpu_count() or 1

    def _event(self, cell: _Cell, current: Current, sizes: Sizes, stage: str) -> dict[str, Any]:
        wall = cell.over == "wall_seconds"
        used = self._wall(cell, time.monotonic()) if wall else self._used - (cell.cpu_began or 0.0)
        allowed = sizes.wall_seconds if wall else sizes.cpu_seconds
        after = "after its end" if cell.looked_after is not None else ""
        return {
            **reached(current, cell.over, stage, round(used, 1), allowed, "seconds", detail=after),
            "msg_id": cell.msg_id,
            "grace_seconds": _grace(sizes),
        }


def _wants_processor(pid: int) -> bool:
    fields = stat_fields(pid)
    return bool(fields) and fields[STATE] in RUNS


def _grace(sizes: Sizes) -> int:
    return GRACE_SECONDS if sizes.grace_seconds is None else sizes.grace_seconds
