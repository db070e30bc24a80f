"""Whether the notebook's folder on the host is as it was when the last cell began: then its overlay stays as it is.

To have it look again makes every name in it be looked up anew, which reading many small files pays for. Nothing is
asked of a disk here: a forked process sets the watches, in a pause between cells, where the folder is of this machine
and has not too many folders. Where that can't be, or until it is done, each cell begins with the look.
"""

from __future__ import annotations

import os
import time

from sentinel_kernel.linux import inotify
from sentinel_kernel.linux.files import open_beneath
from sentinel_kernel.linux.local_files import require_local
from sentinel_kernel.linux.process import die_with_parent
from sentinel_kernel.supervisor.keeper import Keeper

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

    from sentinel_kernel.supervisor.current import Current

_MOST_FOLDERS = 500
_MOST_ENTRIES = 100_000
_MOST_READS = 16
_PAUSE_SECONDS = 0.01
_AGAIN_SECONDS = 5.0
"""Between two settings of the watches: new folders on the host need new ones."""

_INCOMPLETE = inotify.IN_Q_OVERFLOW | inotify.IN_UNMOUNT | inotify.IN_IGNORED | inotify.IN_MOVE_SELF


class HostChanges(Keeper):
    """The notebook's folder of the sandbox in use."""

    def __init__(self) -> None:
        """Watch nothing yet."""
        self._current: Current | None = None
        self._watch = -1
        self._pid = 0
        self._pidfd = -1
        self._complete = False
        """The watches are set on every folder."""
        self._looked = False
        """The overlay has looked again since they are."""
        self._hopeless = False
        self._due: float | None = None
        self._earliest = 0.0

    def unchanged(self, current: Current) -> bool:
        """Tell whether nothing has changed since the last call for this sandbox, after which the overlay has looked."""
        if current is not self._current or not self._complete:
            return False
        try:
            seen = inotify.changes_of(self._watch, _MOST_READS)
        except OSError:
            seen = _INCOMPLETE
        new_folders = inotify.IN_CREATE | inotify.IN_MOVED_TO
        if seen & _INCOMPLETE or (seen & inotify.IN_ISDIR and seen & new_folders):
            self.forget()
            return False
        looked, self._looked = self._looked, True
        return looked and not seen

    def sandbox_ready(self, current: Current, generation: int) -> None:  # noqa: ARG002 - workers are alike
        """Begin anew where it is another sandbox."""
        if current is not self._current:
            self.forget()
            self._current, self._hopeless = current, False

    def sandbox_gone(self, cause: dict[str, Any]) -> None:  # noqa: ARG002 - all are alike
        """Watch for nobody."""
        self.forget()
        self._current = None

    def begin_cell(self, message: dict[str, Any]) -> None:  # noqa: ARG002 - each cell alike
        """Set no watches while a cell runs."""
        self._due = None

    def end_cell(self, message: dict[str, Any]) -> None:  # noqa: ARG002 - each cell alike
        """Set the watches after a pause, where there are none."""
        if not self._complete and not self._pid and not self._hopeless and self._current is not None:
            self._due = max(time.monotonic() + _PAUSE_SECONDS, self._earliest)

    def due_seconds(self) -> float | None:
        """Return when the watches are to be set."""
        return None if self._due is None else max(0.0, self._due - time.monotonic())

    def catch_up(self) -> None:
        """Set the watches."""
        if self._due is not None and time.monotonic() >= self._due:
            self._due = None
            self._set()

    def descriptors(self) -> tuple[int, ...]:
        """Return what is readable at the end of the process that sets the watches."""
        return (self._pidfd,) if self._pidfd >= 0 else ()

    def serve(self, ready: dict[int, int]) -> None:
        """Take note of the process's end."""
        if self._pidfd not in ready or not self._pid:
            return
        try:
            _, status = os.waitpid(self._pid, 0)
        except ChildProcessError:
            status = 1
        self._pid = 0
        os.close(self._pidfd)
        self._pidfd = -1
        if self._watch < 0:
            return  # it was for a sandbox that has gone
        if status:
            self.forget()
            self._hopeless = True
        else:
            self._complete, self._looked = True, False

    def close(self) -> None:
        """Let go of all."""
        self.forget()
        if self._pidfd >= 0:
            os.close(self._pidfd)
            self._pidfd = -1

    def forget(self) -> None:
        """Know nothing of what has changed."""
        self._complete = self._looked = False
        self._due = None
        if self._watch >= 0:
            os.close(self._watch)
            self._watch = -1

    def _set(self) -> None:
        current = self._current
        held = current.sandbox.held.folders if current is not None else []
        if not held or held[0].lower < 0 or self._pid:
            return
        self._earliest = time.monotonic() + _AGAIN_SECONDS
        try:
            self._watch = inotify.make_watch()
            pid = os.fork()
        except OSError:
            self.forget()
            self._hopeless = True
            return
        if pid == 0:
            _set_watches(self._watch, held[0].lower)
        self._pid = pid
        try:
            self._pidfd = os.pidfd_open(pid)
        except OSError:  # it is reaped with the supervisor
            self._pid, self._hopeless = 0, True
            self.forget()


def _set_watches(watch: int, lower: int) -> NoReturn:
    """Do it in the forked process; never returns. Its status tells whether every folder is watched."""
    status = 1
    try:
        die_with_parent()
        from sentinel_kernel.supervisor.live_mounts import alone  # noqa: PLC0415 - in the process alone

        first = alone((watch, lower))
        status = 0 if _every_folder(first, first + 1) else 1
    finally:
        os._exit(status)


def _every_folder(watch: int, lower: int) -> bool:
    """Watch the folder and all below it on the same file system; False: there are too many. Raises OSError."""
    require_local(lower)
    folders, entries = [""], 0
    for path in folders:  # grows meanwhile
        folder = open_beneath(lower, path or ".", os.O_RDONLY | os.O_DIRECTORY)
        try:
            inotify.watch_folder(watch, folder)  # first: a folder that comes now is told of
            with os.scandir(folder) as found:
                for entry in found:
                    entries += 1
                    if entry.is_dir(follow_symlinks=False):
                        folders.append(f"{path}/{entry.name}" if path else entry.name)
                    if entries > _MOST_ENTRIES or len(folders) > _MOST_FOLDERS:
                        return False
        finally:
            os.close(folder)
    return True
