"""Tells of files that cells put into the sandbox's own home: nothing holds them, and they go with the sandbox.

So do those beside the notebook's folder, where that lies in the home. What begins with a dot is programs' own affair.
"""

from __future__ import annotations

import contextlib
import itertools
import os

from sentinel_kernel.supervisor import protocol
from sentinel_kernel.supervisor.keeper import Keeper

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from sentinel_kernel.supervisor.current import Current

_MOST_FOLDERS = 16
_MOST_NAMES = 1000
"""Of a folder are looked at."""
_NAMED = 20
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class _Folder:
    """One folder of the home."""

    __slots__ = ("changed", "descriptor", "known", "path")

    def __init__(self, descriptor: int, path: str) -> None:
        self.descriptor = descriptor
        self.path = path
        self.changed = os.fstat(descriptor).st_mtime_ns
        self.known = set(_names(descriptor))


class HomeFiles(Keeper):
    """The home of the sandbox in use."""

    def __init__(self, tell: Callable[[str, dict[str, Any]], None]) -> None:
        """Tell the host through ``tell``."""
        self._tell = tell
        self._generation = 0
        self._folders: list[_Folder] = []

    def sandbox_ready(self, current: Current, generation: int) -> None:
        """Take note of what is there before any cell has run."""
        self._generation = generation
        self.close()
        home, workspace = current.preparation.plan.home, current.preparation.plan.workspace
        descriptor = current.sandbox.held.home
        if descriptor < 0:
            return
        with contextlib.suppress(OSError):
            self._folders.append(_Folder(os.dup(descriptor), home))
            above = os.path.relpath(os.path.dirname(workspace), home).split(os.sep)
            for name in above[:_MOST_FOLDERS] if workspace.startswith(home + os.sep) else ():
                if name in ("", ".", ".."):
                    break
                last = self._folders[-1]
                inner = os.open(name, _FOLDER, dir_fd=last.descriptor)
                self._folders.append(_Folder(inner, os.path.join(last.path, name)))

    def end_cell(self, message: dict[str, Any]) -> None:  # noqa: ARG002 - all are told alike
        """Tell of what has come since the last cell, and is no hidden one."""
        if found := self._new():
            self._tell(protocol.EVENT_FILES, {"generation": self._generation, "home": found})

    def _new(self) -> list[str]:
        found: list[str] = []
        for folder in self._folders:
            with contextlib.suppress(OSError):
                changed = os.fstat(folder.descriptor).st_mtime_ns
                if changed != folder.changed:
                    folder.changed = changed
                    fresh = [name for name in _names(folder.descriptor) if name not in folder.known]
                    folder.known.update(fresh)
                    found += [os.path.join(folder.path, name) for name in sorted(fresh)]
        return found[:_NAMED]

    def close(self) -> None:
        """Let go of the home."""
        while self._folders:
            os.close(self._folders.pop().descriptor)


def _names(folder: int) -> list[str]:
    with os.scandir(folder) as entries:
        return [
            entry.name for entry in itertools.islice(entries, _MOST_NAMES) if not entry.name.startswith(".")
        ]
