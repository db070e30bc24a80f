"""The place of files in the host: how many are held, and the way to what does something about them, loaded late."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sentinel_kernel.supervisor import protocol

if TYPE_CHECKING:
    from collections.abc import Callable

    from sentinel_kernel.kernel.cells import Cell
    from sentinel_kernel.kernel.files import Files
    from sentinel_kernel.kernel.files_arguments import FilesWanted
    from sentinel_kernel.kernel.files_notices import FilesNotices
    from sentinel_kernel.kernel.host import Host
    from sentinel_kernel.kernel.wire import Json

    Current = Callable[[Callable[..., None]], Callable[..., None]]


class FilesEntry:
    """Counts what is held, as the supervisor tells, and passes on the rest once there is any."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._files: Files | None = None
        self._notices: FilesNotices | None = None
        self._held = (0, 0)
        self._generation = 0
        self._own: Json = {}
        host.lifecycle.told[protocol.EVENT_FILES] = self._told

    @property
    def held(self) -> tuple[int, int]:
        """How many files of the sandbox that runs are held, and their bytes."""
        return self._held if self._generation == self._host.lifecycle.generation else (0, 0)

    @property
    def own(self) -> Json:
        """What cells' files lie in the sandbox's own home or beside the notebook's folder: ``count`` and ``paths``."""
        return self._own if self._own.get("generation") == self._host.lifecycle.generation else {}

    def count(self, told: Json) -> None:
        """Take note of how much is held, as an answer or an event says."""
        held, size = told.get("held"), told.get("bytes")
        if isinstance(held, int) and isinstance(size, int):
            self._held, self._generation = (held, size), self._host.lifecycle.generation
            self._host.gauge.refresh_soon()
            if not held and self._notices is not None:
                self._notices.nothing_held()

    def show_late(self, cell: Cell) -> None:
        """Show in ``cell``, which has just begun, what was told behind the end of the last one."""
        if self._notices is not None:
            self._notices.show_late(cell)

    def run(
        self,
        cell: Cell,
        wanted: FilesWanted,
        current: Current,
        done: Callable[[Json], None],
        refuse: Callable[[str], None],
    ) -> None:
        """Do what a line in ``cell`` asks for; ``done`` gets the page of it, or ``refuse`` why it was not done."""
        if self._files is None:
            from sentinel_kernel.kernel.files import Files  # noqa: PLC0415 - only for the magics

            self._files = Files(self._host)
        self._files.run(cell, wanted, current, done, refuse)

    def _told(self, event: Json) -> None:
        if isinstance(own := event.get("own"), dict):
            self._own = {**own, "generation": self._host.lifecycle.generation}
        progress = event.get("progress")
        if isinstance(progress, dict):
            if self._files is not None:
                self._files.progress(progress)
            return
        if self._notices is None:
            from sentinel_kernel.kernel.files_notices import FilesNotices  # noqa: PLC0415 - for cells that write

            self._notices = FilesNotices(self._host)
        if "fault" in event:
            self._notices.not_looked_at(str(event["fault"]))
            return
        if "own" in event:
            for place in {"home", "tmp"} & event.keys():
                paths = [path for path in event[place] if isinstance(path, str)]
                self._notices.in_own(place, paths, event.get("new"))
            return
        self._notices.cell_ended(event)
        self.count(event)
