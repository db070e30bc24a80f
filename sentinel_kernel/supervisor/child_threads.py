"""Threads that programs of a cell start where there is no room for another one: what refuses them tells nobody.

Such a program may be gone some milliseconds later, long before the next sample. The start of its threads is held
(policy/measured.py), and as long as one is, what there is can be counted. The worker's own threads, and those of its
forks, are not among them: their stacks lie elsewhere (boot/confinement.py, lay_out_memory).
"""

from __future__ import annotations

import contextlib
import resource
import time

from sentinel_kernel.policy.plan import process_limit
from sentinel_kernel.supervisor.last_words import place_fields
from sentinel_kernel.supervisor.reached import reached
from sentinel_kernel.supervisor.starter import find_starter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from sentinel_kernel.policy.stack_dump import Place
    from sentinel_kernel.supervisor.current import Current
    from sentinel_kernel.supervisor.processes import Processes

_NEAR = 0.9
_EACH = 2
"""What a start may add: a thread, and the process that it is in."""

_LONG_SECONDS, _SHARE_OF_TIME = 0.005, 10
"""After a count that took so long comes a pause, ten times as long: the supervisor has others to serve."""

_STATUS_BYTES = 8192


class ChildThreads:
    """Counts what there is as threads are started in one sandbox."""

    def __init__(self, current: Current, processes: Processes) -> None:
        """Count the ``processes`` of ``current``."""
        self._current = current
        self._processes = processes
        self._counted, self._since = processes.tasks, 0
        self._not_before = 0.0
        self.crowded: tuple[int, Place | None] | None = None
        """How many tasks there were when one more was to be started, and which line has started who wanted it."""

    def begin_cell(self) -> None:
        """Take note of a cell that begins."""
        self.crowded = None

    def note(self, thread: int, go_on: Callable[[], object]) -> None:
        """Take note of a thread that ``thread`` is about to start; ``go_on`` answers its call, now or very soon."""
        if not self._has_no_room():
            go_on()
            return
        tasks = self._counted
        self.crowded = tasks, None

        def found(place: Place | None) -> None:
            if self.crowded is not None:  # no other cell has begun since
                self.crowded = tasks, place

        find_starter(self._current, _process_of(thread), found, go_on)

    def _has_no_room(self) -> bool:
        """Tell whether there are so many tasks that there can't be another one; only the first time in a cell."""
        current, sampled = self._current, self._processes.tasks
        allowed = process_limit(current.preparation.plan.sizes)
        if allowed is None or self.crowded is not None or resource.RLIMIT_NPROC in current.limits_set:
            return False
        self._since += _EACH
        if max(self._counted, sampled) + self._since < allowed * _NEAR:
            return False
        began, busy = time.monotonic(), time.process_time()
        if began < self._not_before:
            return False
        self._processes.refresh()
        self._processes.cpu_seconds()
        self._counted, self._since = self._processes.tasks, 0
        took = time.process_time() - busy  # on a busy machine it is longer under way
        if took > _LONG_SECONDS:
            self._not_before = began + _SHARE_OF_TIME * took
        current.peak_tasks = max(current.peak_tasks, self._counted)
        return self._counted >= allowed

    def limit(self) -> dict[str, Any] | None:
        """Return the limit of tasks as an event, where a thread found no room since the cell began."""
        allowed = process_limit(self._current.preparation.plan.sizes)
        if self.crowded is None or allowed is None:
            return None
        used, where = self.crowded
        place = place_fields(where) or {"line": None, "function": None, "library": None}
        told = reached(self._current, "pids", "refused", used, allowed, "count")
        # One of the others may have ended in the moment between.
        return {**told, "place_of": {**place, "confidence": "likely"}}


def _process_of(thread: int) -> int:
    with contextlib.suppress(OSError, ValueError, IndexError), open(f"/proc/{thread}/status", "rb") as file:
        return int(file.read(_STATUS_BYTES).partition(b"\nTgid:")[2].split(None, 1)[0])
    return thread
