"""Ends what runs a dry run, at its end: the worker's copy and all that was started below it, as seen from outside.

That the dry run is over is the worker's word, which the cell may say for itself, in the middle or through a descriptor
that the copy has too. So nothing of the end is done, and files and way out stay held back, until all of it has gone.
"""

from __future__ import annotations

import signal
import time

from sentinel_kernel.supervisor.clearing import LOOK_SECONDS, Clearing
from sentinel_kernel.supervisor.keeper import Keeper
from sentinel_kernel.supervisor.processes import children_of, processes_below
from sentinel_kernel.supervisor.processor_time import has_ended, stat_fields

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from sentinel_kernel.supervisor.current import Current

_STILL_LOOKS = 3
"""So many looks in a row have to find nothing: one that goes from process to process is between two of them in some."""


class DryCopies(Keeper):
    """Holds up a dry run's end until what it has started is gone; told of a cell's end before all other keepers."""

    def __init__(self) -> None:
        self._current: Current | None = None
        self._began: float | None = None
        """When the dry run began that is under way (seconds since the boot); None: none is."""
        self._ending: Ending | None = None

    @property
    def busy(self) -> bool:
        """Whether it is still being ended."""
        return self._ending is not None

    def sandbox_ready(self, current: Current, generation: int) -> None:  # noqa: ARG002 - all are alike
        """Look at this sandbox from here on."""
        self._current, self._began, self._ending = current, None, None

    def sandbox_gone(self, cause: dict[str, Any]) -> None:  # noqa: ARG002 - nothing is left to end
        """Look at nothing: with the worker all goes that it has started."""
        self._current = self._began = self._ending = None

    def begin_cell(self, message: dict[str, Any]) -> None:
        """Take note of when a dry run begins."""
        self._began = time.clock_gettime(time.CLOCK_BOOTTIME) if message.get("dry_run") else None

    def end_cell(self, message: dict[str, Any]) -> None:  # noqa: ARG002 - the first end there is
        """End what a dry run has started, where it has not ended by itself."""
        if self._current is not None and self._began is not None:
            self._ending = Ending(self._current, self._began)
            self._go_on()

    def due_seconds(self) -> float | None:
        """Return when to look whether it has gone."""
        return None if self._ending is None else LOOK_SECONDS

    def catch_up(self) -> dict[str, Any] | None:
        """Go on; what can't be ended goes with the worker."""
        if self._ending is None or not self._ending.late:
            self._go_on()
            return None
        self._ending = None
        return {"kind": "signal", "signal": int(signal.SIGKILL)}

    def _go_on(self) -> None:
        if self._ending is not None and self._ending.step():
            self._began = self._ending = None


class Ending(Clearing):
    """Ends what the worker has started since a moment, and what that left to init; nothing of older processes."""

    def __init__(self, current: Current, began: float) -> None:
        super().__init__(current, began)
        self._seen_ended: set[int] = set()

    @property
    def late(self) -> bool:
        """Whether it takes too long."""
        return time.monotonic() >= self._deadline

    def step(self) -> bool:
        """Go on; True once nothing is left, and nothing moved while that was looked at."""
        return self._end_all() and not self.late and all(self._is_still() for _ in range(_STILL_LOOKS))

    def _started(self) -> list[int]:
        return [pid for pid in self._below() if self._is_younger(pid)]

    def _is_still(self) -> bool:
        """Tell whether all has ended, none since the last look: what that left may be where was looked before."""
        below = self._below()
        ended = {pid for pid in below if has_ended(stat_fields(pid))}
        new, self._seen_ended = ended - self._seen_ended, ended
        return not new and len(ended) == len(set(below))

    def _below(self) -> list[int]:
        """Return what was started by the worker, or left to it or to init; of what is older, nothing."""
        worker, init = self._current.worker_pid, self._current.sandbox.pid
        own = (pid for parent in (worker, init) for pid in children_of(parent) if pid != worker)
        return [pid for first in own if not self._is_older(first) for pid in processes_below(first)]

    def _is_older(self, pid: int) -> bool:
        fields = stat_fields(pid)
        return bool(fields) and not self._is_young(fields)
