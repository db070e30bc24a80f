"""Tells of files that cells put into the sandbox's own home: nothing holds them, and they go with the sandbox.

So do those beside and above the notebook's folder, where that lies in the home or below /tmp; in /tmp itself files are
meant to go. What begins with a dot is programs' own affair.
"""

from __future__ import annotations

import contextlib
import itertools
import os

from sentinel_kernel.policy.plan import is_within
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
_TMP = "/tmp"


class _Folder:
    """One folder of the home, or of /tmp; ``told_as`` is what the host calls that."""

    __slots__ = ("changed", "descriptor", "known", "path", "told_as")

    def __init__(self, descriptor: int, path: str, told_as: str) -> None:
        self.descriptor = descriptor
        self.path = path
        self.told_as = told_as
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
            self._folders.append(_Folder(os.dup(descriptor), home, "home"))
        with contextlib.suppress(OSError):
            if is_within(workspace, home):
                self._watch_between(descriptor, home, workspace, "home")
            elif is_within(workspace, _TMP):
                tmp = os.open(f"/proc/{current.sandbox.pid}/root{_TMP}", _FOLDER)
                try:
                    self._watch_between(tmp, _TMP, workspace, "tmp")
                finally:
                    os.close(tmp)

    def _watch_between(self, top: int, path: str, workspace: str, told_as: str) -> None:
        """Watch each folder below ``top`` on the way to the notebook's, as far as they are of its file system.

        Raises:
            OSError: one is gone.

        """
        last = top
        for name in os.path.relpath(os.path.dirname(workspace), path).split(os.sep)[:_MOST_FOLDERS]:
            if name in ("", ".", ".."):
                break
            inner = os.open(name, _FOLDER, dir_fd=last)
            if os.fstat(inner).st_dev != os.fstat(top).st_dev:
                os.close(inner)  # a folder of data, in which what is written is held
                break
            path = os.path.join(path, name)
            self._folders.append(_Folder(inner, path, told_as))
            last = inner

    def end_cell(self, message: dict[str, Any]) -> None:  # noqa: ARG002 - all are told alike
        """Tell of what has come since the last cell, and is no hidden one."""
        for told_as, found in self._new().items():
            self._tell(protocol.EVENT_FILES, {"generation": self._generation, told_as: found[:_NAMED]})

    def _new(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for folder in self._folders:
            with contextlib.suppress(OSError):
                changed = os.fstat(folder.descriptor).st_mtime_ns
                if changed != folder.changed:
                    folder.changed = changed
                    names = _names(folder.descriptor)
                    fresh = [name for name in names if name not in folder.known]
                    folder.known = set(names)
                    if fresh:
                        paths = [os.path.join(folder.path, name) for name in sorted(fresh)]
                        found.setdefault(folder.told_as, []).extend(paths)
        return found

    def close(self) -> None:
        """Let go of the folders."""
        while self._folders:
            os.close(self._folders.pop().descriptor)


def _names(folder: int) -> list[str]:
    with os.scandir(folder) as entries:
        return [
            entry.name for entry in itertools.islice(entries, _MOST_NAMES) if not entry.name.startswith(".")
        ]
