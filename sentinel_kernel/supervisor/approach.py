"""Where the worker is as memory or a file system fills up: asked ahead, while it can still tell.

Who is killed for memory, or swallows that a disk is full, is past the line by the time it is known. A sample that finds
much more in use than the last one has the main thread's stack written; some tens of them at most for each limit.
"""

from __future__ import annotations

from sentinel_kernel.supervisor.limit_watch import file_systems, fullness, size_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from sentinel_kernel.policy.stack_dump import Place
    from sentinel_kernel.supervisor.current import Current

_MEMORY_FROM, _FILES_FROM = 0.5, 0.125
"""From these shares of a limit on it is worth asking."""

_STEP = 24
"""And each time that another 24th of it was taken."""

_PATIENCE_SECONDS = 0.2


class Approach:
    """Asks the worker of one sandbox."""

    def __init__(self, current: Current) -> None:
        """Have what is found noted in ``current``: by the line of its worker, and as ``filling``."""
        self._current = current
        self._memory = 0
        self._files: dict[str, int] = {}
        """What was held by each when it was asked last."""

    def begin_cell(self, used: int) -> None:
        """Take note of a cell that begins with ``used`` bytes taken."""
        self._memory = used
        self._files = dict(self._current.held_peaks)
        self._current.filling.clear()

    def look(self, used: int, mark: int) -> None:
        """Ask where the worker is, if the last sample tells that it approaches a limit: ``mark`` is that of memory."""
        grown = self._grown_files()
        more = used >= mark * _MEMORY_FROM and used >= self._memory + mark // _STEP
        line, worker = self._current.held_line, self._current.worker_pid
        if not (grown or more) or line is None or worker <= 0:
            return

        def found(place: Place | None) -> None:
            if place is not None and place.line is not None and not place.cell:
                self._note(grown, place)

        if line.ask(worker, worker, found, _PATIENCE_SECONDS):
            self._memory = max(self._memory, used) if more else self._memory
            self._files |= grown

    def _note(self, grown: dict[str, int], place: Place) -> None:
        """Have it noted where the worker is; where nothing fits in any more, it may be past the line that filled it."""
        current = self._current
        full = {size_name(current, *one[:2]) for one in file_systems(current) if fullness(current, *one)}
        for name in grown:
            if name not in full or name not in current.filling:
                current.filling[name] = place

    def _grown_files(self) -> dict[str, int]:
        """Return which file systems hold much more than when it was asked last, and how much."""
        sizes, grown = self._current.preparation.plan.sizes, {}
        for name, held in self._current.held_peaks.items():
            size = sizes.tmp_bytes if name == "home" else getattr(sizes, name)
            before = self._files.get(name, 0)
            if held >= before + max(size * _FILES_FROM if before == 0 else size // _STEP, 1):
                grown[name] = held
        return grown
