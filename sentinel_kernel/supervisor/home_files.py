"""Tells of files that cells put into the sandbox's own home: nothing holds them, and they go with the sandbox.

So do those beside and above the notebook's folder, where that lies in the home or below /tmp; in /tmp itself files are
meant to go, but for results beside a notebook's folder that lies there. What begins with a dot is programs' own affair.
"""

from __future__ import annotations

import contextlib
import itertools
import os

from sentinel_kernel.policy.committable import by_itself
from sentinel_kernel.policy.plan import is_within
from sentinel_kernel.supervisor import protocol
from sentinel_kernel.supervisor.keeper import Keeper

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from sentinel_kernel.supervisor.current import Current

_MOST_FOLDERS = 16
_MOST_WATCHED = 64
"""With those that cells make; in more of them is not looked."""
_MOST_NAMES = 1000
"""Of a folder are looked at."""
_NAMED = 20
_PATH_CHARACTERS = 300
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_TMP = "/tmp"
_SCRATCH = ("tmp", "temp")
"""How temporary files are named."""


class _Folder:
    """One folder of the home, or of /tmp; ``told_as`` is what the host calls that.

    ``fresh``: a cell has made it, so that all that is in it is new. In /tmp itself only results count (``shared``).
    """

    __slots__ = ("before", "changed", "descriptor", "known", "path", "shared", "told_as")

    def __init__(
        self, descriptor: int, path: str, told_as: str, *, fresh: bool = False, shared: bool = False
    ) -> None:
        self.descriptor = descriptor
        self.path = path
        self.told_as = told_as
        self.shared = shared
        self.changed = -1 if fresh else os.fstat(descriptor).st_mtime_ns
        self.before = frozenset[str]() if fresh else frozenset(_names(descriptor, shared=shared))
        self.known: dict[str, bool] = dict.fromkeys(self.before, True)
        """Name -> whether it is a folder; what was there before any cell counts as one: it is no file of a cell's."""

    def files(self) -> list[str]:
        """Return the paths of cells' files in it."""
        return [os.path.join(self.path, name) for name, is_folder in self.known.items() if not is_folder]


class HomeFiles(Keeper):
    """The home of the sandbox in use."""

    def __init__(self, tell: Callable[[str, dict[str, Any]], None]) -> None:
        """Tell the host through ``tell``."""
        self._tell = tell
        self._generation = 0
        self._folders: list[_Folder] = []
        self._lying: list[str] = []

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
                    if os.path.dirname(workspace) == _TMP:
                        self._folders.append(_Folder(os.dup(tmp), _TMP, "tmp", shared=True))
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
        """Tell of what has come since the last cell, and is no hidden one; with all that lies there by now."""
        new = self._new()
        lying = [path for folder in self._folders for path in folder.files()]
        if not new and lying == self._lying:
            return
        self._lying = lying
        own = {"count": len(lying), "paths": _cut(lying)}
        for told_as, found in (new or {"": []}).items():
            told = {told_as: _cut(found), "new": len(found)} if told_as else {}
            self._tell(protocol.EVENT_FILES, {"generation": self._generation, "own": own, **told})

    def _new(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        waiting = list(self._folders)
        while waiting:
            folder = waiting.pop(0)
            try:
                fresh = self._fresh(folder)
            except OSError:
                continue
            files = sorted(name for name, is_folder in fresh.items() if not is_folder)
            if files:
                paths = [os.path.join(folder.path, name) for name in files]
                found.setdefault(folder.told_as, []).extend(paths)
            waiting += self._watch_new(folder, [name for name, is_folder in fresh.items() if is_folder])
        return found

    def _fresh(self, folder: _Folder) -> dict[str, bool]:
        """Return what has come into a folder since it was last looked at, by name.

        Raises:
            OSError: it can't be read.

        """
        status = os.fstat(folder.descriptor)
        if status.st_mtime_ns == folder.changed:
            return {}
        if not status.st_nlink:  # it was removed
            self._folders.remove(folder)
            os.close(folder.descriptor)
            return {}
        folder.changed = status.st_mtime_ns
        names = _names(folder.descriptor, shared=folder.shared)
        fresh = {name: is_folder for name, is_folder in names.items() if name not in folder.known}
        folder.known = {name: is_folder or name in folder.before for name, is_folder in names.items()}
        return fresh

    def _watch_new(self, folder: _Folder, names: list[str]) -> list[_Folder]:
        """Watch folders that cells have made, as far as they are of the same file system; return them."""
        made: list[_Folder] = []
        for name in names[: max(0, _MOST_WATCHED - len(self._folders))]:
            with contextlib.suppress(OSError):
                inner = os.open(name, _FOLDER, dir_fd=folder.descriptor)
                if os.fstat(inner).st_dev != os.fstat(folder.descriptor).st_dev:
                    os.close(inner)
                    continue
                path, shared = os.path.join(folder.path, name), folder.shared
                made.append(_Folder(inner, path, folder.told_as, fresh=True, shared=shared))
        self._folders += made
        return made

    def close(self) -> None:
        """Let go of the folders."""
        self._lying = []
        while self._folders:
            os.close(self._folders.pop().descriptor)


def _cut(paths: list[str]) -> list[str]:
    return [path[:_PATH_CHARACTERS] for path in paths[:_NAMED]]


def _names(folder: int, *, shared: bool) -> dict[str, bool]:
    """Return the names in a folder that count, and which of them are folders."""
    with os.scandir(folder) as entries:
        found = {
            entry.name: entry.is_dir(follow_symlinks=False)
            for entry in itertools.islice(entries, _MOST_NAMES)
            if not entry.name.startswith(".")
        }
    if not shared:
        return found
    return {name: is_folder for name, is_folder in found.items() if _is_result(name, is_folder=is_folder)}


def _is_result(name: str, *, is_folder: bool) -> bool:
    """Tell whether somebody has chosen a name in /tmp for a result: no program takes such a one for its own files."""
    if name.startswith(_SCRATCH):
        return False
    return name.replace("_", "").isalpha() if is_folder else by_itself(name)
