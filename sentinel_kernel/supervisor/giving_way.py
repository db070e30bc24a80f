"""Has a sandbox that computes much give way to others on the machine, by a lower weight, while it does.

What it uses while nobody else wants a processor is not touched. What counts is the processor time of all that the
supervisor has started, sandboxes that have ended included: else one that dies again and again would never pay.
"""

from __future__ import annotations

import contextlib
import errno
import os
import resource
import time

from sentinel_kernel.linux.autogroup import nice_of, set_nice
from sentinel_kernel.supervisor.backend import NICE
from sentinel_kernel.supervisor.keeper import Keeper
from sentinel_kernel.supervisor.processes import descends, processes_below
from sentinel_kernel.supervisor.processor_credit import ProcessorCredit

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from sentinel_kernel.supervisor.backend import Backends
    from sentinel_kernel.supervisor.current import Current
    from sentinel_kernel.supervisor.meter import Meter

_LOOK_SECONDS = 0.25
_RUNNING_SECONDS = 0.25
_IDLE_SECONDS = 2.0
_LOOK_SHARE = 50
"""Looking for new sessions takes a fiftieth of a processor at most."""


class GivingWay(Keeper):
    """Sets the weight of the sandboxes of one supervisor, the spare and the one that starts included.

    The supervisor keeps its own: it has to hold limits against what computes.
    """

    def __init__(self, meter: Meter, backends: Backends) -> None:
        """Count what ``meter`` measures; ``backends`` make the next sandbox as it is to be."""
        self._meter = meter
        self._backends = backends
        self._current: Current | None = None
        self._first = 0
        self._credit = ProcessorCredit(time.monotonic())
        self._counted: float | None = 0.0
        """What the worker in use is known to have used; None until the meter knows what its sandbox had used before."""
        self._counted_twice = 0.0
        """What is known of workers that have ended, and comes in once more with the children's time."""
        self._own, self._children = _seconds()
        self._is_mixed = True
        """Whether a session may have another nice value than it was born with."""
        self._due = 0.0

    def sandbox_ready(self, current: Current, generation: int) -> None:  # noqa: ARG002 - asked of the sandbox
        """Count what another worker uses."""
        self._counted = None if self._first == current.sandbox.pid else 0.0
        self._current, self._first = current, current.sandbox.pid
        self._due = 0.0

    def sandbox_gone(self, cause: dict[str, Any]) -> None:  # noqa: ARG002 - whatever it died of
        """Remember what it has used."""
        self._account()
        self._counted_twice += self._counted or 0.0
        self._current, self._counted = None, 0.0

    def begin_cell(self, message: dict[str, Any]) -> None:  # noqa: ARG002 - whatever the cell is
        """Look at it soon, if it is not over by then."""
        self._due = min(self._due, time.monotonic() + _RUNNING_SECONDS)

    def due_seconds(self) -> float | None:
        """Return in how many seconds to look again."""
        return max(0.0, self._due - time.monotonic())

    def catch_up(self) -> dict[str, Any] | None:
        """Count what was used, and set the weight that follows."""
        began = time.monotonic()
        if began < self._due:
            return None
        self._account()
        nice = NICE if self._credit.is_spent else 0
        self._backends.nice = nice
        is_set = self._set(nice)
        now = time.monotonic()
        wait = _IDLE_SECONDS
        if nice or not is_set:
            wait = max(_LOOK_SECONDS, (now - began) * _LOOK_SHARE)
        elif self._meter.running:
            wait = _RUNNING_SECONDS
        self._due = now + wait
        return None

    def _account(self) -> None:
        used = 0.0
        if self._current is not None:
            seconds = self._meter.cpu_total
            if self._counted is not None:
                used = max(0.0, seconds - self._counted)
                self._counted += used
            elif seconds:
                self._counted = seconds
        own, children = _seconds()
        ended = children - self._children
        known = min(self._counted_twice, ended)
        self._counted_twice -= known
        self._credit.spend(used + own - self._own + ended - known, time.monotonic())
        self._own, self._children = own, children

    def _set(self, nice: int) -> bool:
        """Set the weight of all that is there; False where some of it is left for the next look."""
        if self._current is not None and self._current.backend.throttles:
            with contextlib.suppress(OSError):  # a group that goes
                self._current.backend.weigh(nice)
            return True
        if not nice and not self._is_mixed:
            return True
        self._is_mixed = bool(nice)
        own, is_set = os.getsid(0), True
        seen = {own}
        for pid in processes_below(os.getpid()):
            try:
                session = os.getsid(pid)
                if session not in seen:
                    seen.add(session)
                    _set_session(pid, nice)
            except OSError as error:
                # Ten can be set a second without privileges. Init is not dumpable, so that it can't be set; but it
                # computes nothing itself, and what it hands down is set in the worker.
                is_set &= error.errno != errno.EAGAIN
                self._is_mixed = True
        return is_set


def _set_session(pid: int, nice: int) -> None:
    folder = os.open(f"/proc/{pid}", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        # What had the number when the folder was opened has it still, or the folder leads nowhere.
        if descends(pid, os.getpid()) and nice_of(folder) not in {nice, None}:
            set_nice(folder, nice)
    finally:
        os.close(folder)


def _seconds() -> tuple[float, float]:
    """Return the processor time of this process, and that of its children that have ended, with theirs."""
    own, children = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    return own.ru_utime + own.ru_stime, children.ru_utime + children.ru_stime
