"""Files in /dev/shm that are larger than it has room for: who writes such a one through a mapping ends by SIGBUS.

Shared memory is made by its size alone (shm_open, ftruncate), and removed some milliseconds after whoever dies of it:
only while it is there can it be seen. Told by inotify(7) of each new file, this looks at its size.
"""

from __future__ import annotations

import contextlib
import os
import stat
import time

from sentinel_kernel.linux import inotify
from sentinel_kernel.supervisor.keeper import Keeper

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from sentinel_kernel.supervisor.current import Current

_LOOKS, _BETWEEN_SECONDS = 4, 0.003
"""A file that is empty yet is looked at again so often: it is given its size right behind its name."""

_MOST_EMPTY = 64
_BLOCK_BYTES = 512  # st_blocks of inode(7)


class PromisedFiles(Keeper):
    """Watches /dev/shm of the sandbox in use, from its first cell on."""

    def __init__(self) -> None:
        """Watch nothing yet."""
        self._current: Current | None = None
        self._watch = self._folder = -1
        self._empty: dict[bytes, int] = {}
        """Name -> how often to look at it again."""
        self._due = 0.0

    def sandbox_ready(self, current: Current, generation: int) -> None:  # noqa: ARG002 - workers are alike
        """Begin anew where it is another sandbox."""
        if current is not self._current:
            self.close()
            self._current = current

    def sandbox_gone(self, cause: dict[str, Any]) -> None:  # noqa: ARG002 - all are alike
        """Watch for nobody."""
        self.close()
        self._current = None

    def begin_cell(self, message: dict[str, Any]) -> None:  # noqa: ARG002 - each cell alike
        """Begin to watch. Where all watches are taken, nothing is seen."""
        current = self._current
        if current is None or self._folder >= 0 or current.preparation.plan.lists is not None:
            return
        with contextlib.suppress(OSError):
            place = f"/proc/{current.sandbox.pid}/root/dev/shm"
            self._folder = os.open(place, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
            self._watch = inotify.make_watch()
            inotify.watch_new_files(self._watch, self._folder)

    def descriptors(self) -> Iterable[int]:
        """Return the watch."""
        return () if self._watch < 0 else (self._watch,)

    def serve(self, ready: dict[int, int]) -> None:
        """Look at what is new."""
        if self._watch in ready:
            for name in inotify.names_of(self._watch):
                self._look(name, _LOOKS)

    def due_seconds(self) -> float | None:
        """Return when to look again at what was empty."""
        return max(0.0, self._due - time.monotonic()) if self._empty else None

    def catch_up(self) -> dict[str, Any] | None:
        """Look at it again."""
        if self._empty and time.monotonic() >= self._due:
            waiting, self._empty = self._empty, {}
            for name, looks in waiting.items():
                self._look(name, looks)
        return None

    def _look(self, name: bytes, looks: int) -> None:
        current = self._current
        if not name or current is None:
            return
        with contextlib.suppress(OSError):  # it is gone
            status = os.stat(name, dir_fd=self._folder, follow_symlinks=False)
            room = os.fstatvfs(self._folder)
            if not stat.S_ISREG(status.st_mode):
                return
            if status.st_size == 0 and looks > 1 and len(self._empty) < _MOST_EMPTY:
                self._empty[name] = looks - 1
                self._due = time.monotonic() + _BETWEEN_SECONDS
            if status.st_size - status.st_blocks * _BLOCK_BYTES > room.f_bfree * room.f_frsize:
                current.promised_bytes = max(current.promised_bytes, status.st_size)

    def close(self) -> None:
        """Watch no more."""
        for descriptor in (self._watch, self._folder):
            if descriptor >= 0:
                os.close(descriptor)
        self._watch = self._folder = -1
        self._empty.clear()
