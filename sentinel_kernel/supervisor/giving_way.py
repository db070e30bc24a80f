"""Has a sandbox that computes much give way to others on the machine, by a lower weight, while it does.

What it uses while nobody else wants a processor is not touched. One that dies again and again pays for its starts.
"""

from __future__ import annotations

import contextlib
import time

from sentinel_kernel.linux.autogroup import obstacle
from sentinel_kernel.supervisor.backend import NICE
from sentinel_kernel.supervisor.keeper import Keeper
from sentinel_kernel.supervisor.processor_credit import ProcessorCredit
from sentinel_kernel.supervisor.processor_time import ProcessorTime
from sentinel_kernel.supervisor.sessions import Sessions

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from sentinel_kernel.supervisor.backend import Backends
    from sentinel_kernel.supervisor.current import Current
    from sentinel_kernel.supervisor.meter import Meter
    from sentinel_kernel.supervisor.sandbox import Sandbox

_RUNNING_SECONDS = 0.25
_IDLE_SECONDS = 2.0
_LOOK_SHARE = 50
"""Looking takes a fiftieth of a processor: after a look that took long the next one waits."""


class GivingWay(Keeper):
    """Sets the weight of the sandbox in use, and of the next one to be made.

    The supervisor keeps its own, as it holds limits against what computes; a scope of systemd's is weighed whole.
    """

    def __init__(self, meter: Meter, backends: Backends) -> None:
        """Ask ``meter`` whether a cell runs; ``backends`` make the next sandbox as it is to be."""
        self._meter = meter
        self._backends = backends
        self._current: Current | None = None
        self._sandbox: Sandbox | None = None
        self._credit = ProcessorCredit(time.monotonic())
        self._time = ProcessorTime()
        self._counted = 0.0
        self._own = time.process_time()
        self._sessions: Sessions | None = None
        self._sessions_count: bool | None = None
        self._due = 0.0

    def sandbox_ready(self, current: Current, generation: int) -> None:  # noqa: ARG002 - all its workers alike
        """Count what the start of another sandbox has used; one with another worker is counted on."""
        if current.sandbox is not self._sandbox:
            self._time, self._counted = ProcessorTime(), 0.0
            self._sessions = Sessions(current.sandbox.pid)
        self._current, self._sandbox = current, current.sandbox
        self._count(current)
        self._due = 0.0

    def sandbox_gone(self, cause: dict[str, Any]) -> None:  # noqa: ARG002 - whatever it died of
        """Count no more; another worker may come."""
        self._current = None

    def begin_cell(self, message: dict[str, Any]) -> None:  # noqa: ARG002 - whatever the cell is
        """Look at it soon, if it is not over by then."""
        self._due = min(self._due, time.monotonic() + _RUNNING_SECONDS)

    def due_seconds(self) -> float | None:
        """Return in how many seconds to look again."""
        return None if self._current is None else max(0.0, self._due - time.monotonic())

    def catch_up(self) -> dict[str, Any] | None:
        """Count what was used, and set the weight that follows."""
        current, began = self._current, time.monotonic()
        if current is None or began < self._due:
            return None
        self._count(current)
        is_set = self._weigh(current, self._backends.nice)
        now = time.monotonic()
        soon = self._meter.running or self._backends.nice or not is_set
        self._due = now + max(_RUNNING_SECONDS if soon else _IDLE_SECONDS, (now - began) * _LOOK_SHARE)
        return None

    def _count(self, current: Current) -> None:
        used, self._own = time.process_time() - self._own, time.process_time()
        with contextlib.suppress(OSError):  # a group that goes
            seconds = self._time.seconds(current)
            used += max(0.0, seconds - self._counted)
            self._counted = max(self._counted, seconds)
        self._credit.spend(used, time.monotonic())
        self._backends.nice = NICE if self._credit.is_spent else 0

    def _weigh(self, current: Current, nice: int) -> bool:
        """Set the weight; False where some of it is left for the next look."""
        current.backend.weigh(nice)
        if current.backend.throttles or self._sessions is None:
            return True
        if self._sessions_count is None:
            self._sessions_count = not obstacle()
        return not self._sessions_count or self._sessions.weigh(nice, current.worker_pid)
