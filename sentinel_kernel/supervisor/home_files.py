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
    from collections.abc import Callable, Iterable
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

_NOTHING: dict[str, Any] = {"count": 0, "paths": []}


class _Folder:
    """One folder of the home, or of /tmp; ``told_as`` is what the host calls that.

    ``fresh``: a cell has made it, so that all that is in it is new. In /tmp itself only results count (``shared``).
    """

    __slots__ = ("before", "changed", "descriptor", "files", "known", "path", "shared", "told_as")

    def __init__(
        self, descriptor: int, path: str, told_as: str, *, fresh: bool = False, shared: bool = False
    ) -> None:
        self.descriptor = descriptor
        self.path = path
        self.told_as = told_as
        self.shared = shared
        self.changed = -1 if fresh else os.fstat(descriptor).st_mtime_ns
        self.before: dict[str, int] = {} if fresh else _names(descriptor, shared=shared)
        """What was there before any cell is no file of a cell's."""
        self.known = self.before
        """Name -> which folder it is, by its inode; 0: a file. What is watched keeps its inode, removed or not."""
        self.files: list[str] = []
        """The names of cells' files in it."""

    def close(self) -> None:
        """Let go of it: it can't be looked at any more."""
        os.close(self.descriptor)
        self.descriptor = -1


class HomeFiles(Keeper):
    """The home of the sandbox in use."""

    def __init__(self, tell: Callable[[str, dict[str, Any]], None]) -> None:
        """Tell the host through ``tell``."""
        self._tell = tell
        self._generation = 0
        self._folders: list[_Folder] = []
        self._own = _NOTHING
        """What was told last of all that lies there."""

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
        paths = (os.path.join(folder.path, name) for folder in self._folders for name in folder.files)
        count = sum(len(folder.files) for folder in self._folders)
        own = {"count": count, "paths": _cut(itertools.islice(paths, _NAMED))}
        if not new and own == self._own:
            return
        self._own = own
        for told_as, found in (new or {"": []}).items():
            told = {told_as: _cut(found[:_NAMED]), "new": len(found)} if told_as else {}
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
            files = sorted(name for name, inode in fresh.items() if not inode)
            if files:
                paths = [os.path.join(folder.path, name) for name in files]
                found.setdefault(folder.told_as, []).extend(paths)
            waiting += self._watch_new(folder, [name for name, inode in fresh.items() if inode])
        return found

    def _fresh(self, folder: _Folder) -> dict[str, int]:
        """Return what has come into a folder since it was last looked at, by name.

        Raises:
            OSError: it can't be read, or has gone.

        """
        changed = os.fstat(folder.descriptor).st_mtime_ns
        if changed == folder.changed:
            return {}
        folder.changed = changed
        before, folder.known = folder.known, _names(folder.descriptor, shared=folder.shared)
        for path in [one.path for one in self._folders if os.path.dirname(one.path) == folder.path]:
            name = os.path.basename(path)
            if folder.known.get(name) != before.get(name):  # removed, moved, or made anew: that one is fresh
                self._leave(path)
        folder.files = [
            name for name, inode in folder.known.items() if not inode and name not in folder.before
        ]
        return {name: inode for name, inode in folder.known.items() if before.get(name) != inode}

    def _leave(self, path: str) -> None:
        """Let go of the folder that was at this path, and of those below it."""
        for folder in [folder for folder in self._folders if is_within(folder.path, path)]:
            self._folders.remove(folder)
            folder.close()

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
        self._own = _NOTHING
        while self._folders:
            self._folders.pop().close()


def _cut(paths: Iterable[str]) -> list[str]:
    return [path[:_PATH_CHARACTERS] for path in paths]


def _names(folder: int, *, shared: bool) -> dict[str, int]:
    """Return the names in a folder that count, each with its inode where it is a folder, else with 0."""
    with os.scandir(folder) as entries:
        found = {
            entry.name: entry.inode() if entry.is_dir(follow_symlinks=False) else 0
            for entry in itertools.islice(entries, _MOST_NAMES)
            if not entry.name.startswith(".")
        }
    if not shared:
        return found
    return {name: inode for name, inode in found.items() if _is_result(name, is_folder=inode > 0)}


def _is_result(name: str, *, is_folder: bool) -> bool:
    """Tell whether somebody has chosen a name in /tmp for a result: no program takes such a one for its own files."""
    if name.startswith(_SCRATCH):
        return False
    return name.replace("_", "").isalpha() if is_folder else by_itself(name)
