"""The place of files in the host: how many are held, and the way to what does something about them, loaded late."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sentinel_kernel.kernel import words
from sentinel_kernel.kernel.lifecycle import State
from sentinel_kernel.kernel.log import log
from sentinel_kernel.supervisor import protocol

if TYPE_CHECKING:
    from collections.abc import Callable

    from sentinel_kernel.kernel.cells import Cell
    from sentinel_kernel.kernel.files import Files
    from sentinel_kernel.kernel.files_arguments import FilesWanted
    from sentinel_kernel.kernel.files_notices import FilesNotices
    from sentinel_kernel.kernel.host import Host
    from sentinel_kernel.kernel.wire import Json
    from sentinel_kernel.kernel.words import Words

    Current = Callable[[Callable[..., None]], Callable[..., None]]

_MOST_EARLIER = 3
"""`sentinel-kernel artifacts list` names them all."""

_TOLD_SECONDS = 60.0


class FilesEntry:
    """Counts what is held, as the supervisor tells, and passes on the rest once there is any."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._files: Files | None = None
        self._notices: FilesNotices | None = None
        self._person = False
        """A client that can be asked has run a cell."""
        self._held = (0, 0)
        self._generation = 0
        self._own: Json = {}
        self.earlier: list[Words] = []
        """Where the files of the last sandboxes that ended are, the newest last."""

        self._unsaid: list[tuple[Words, str]] = []
        """Of those what no cell has shown yet, with the folder that they were saved in."""

        self._known: set[str] = set()
        """The folders that were heard of: a supervisor that takes the place of a killed one tells of them anew."""

        host.displays.said = self._said
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
        self._person |= cell.client_answers
        if self._notices is not None:
            self._notices.show_late(cell)

    def hand_over(self, cell: Cell) -> None:
        """Put that among the pages of ``cell``, which the host is about to answer itself."""
        self._person |= cell.client_answers
        if self._notices is not None:
            self._notices.hand_over(cell)

    def saved(self, path: str, files: int, left_out: int) -> None:
        """Say where the files of a sandbox that ended are: in a cell that runs, else in the next; and in the log.

        A cell that was answered takes nothing new any more: its client has stopped listening. Where the host ends, the
        next one is told.
        """
        host, told = self._host, words.artifacts(path, files, left_out)
        log(told.message("en"))
        if host.lifecycle.state is State.STOPPING:
            return
        if path in self._known:
            if all(path != unsaid for _, unsaid in self._unsaid):
                self._tell(path)  # it was shown while no supervisor was there to hear of it
            return
        if path:
            self._known.add(path)
        self.earlier = [*self.earlier, told][-_MOST_EARLIER:]
        self._unsaid.append((told, path))
        host.displays.waiting.append(told)
        cell = host.execution.newest()
        if cell is not None and host.execution.running:
            host.displays.show_waiting(cell)

    def _said(self, told: Words) -> None:
        """Have the supervisor note that the person was told, if ``told`` is of saved files: until then it is not so."""
        paths = [path for words, path in self._unsaid if words is told]
        self._unsaid = [(words, path) for words, path in self._unsaid if words is not told]
        for path in filter(None, paths):
            self._tell(path)

    def _tell(self, path: str) -> None:
        link = self._host.lifecycle.link
        if link is not None and not link.gone:
            link.request(protocol.OP_TOLD, {"path": path}, lambda _reply: None, _TOLD_SECONDS)

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

            self._notices = FilesNotices(self._host, lambda: self._person)
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
