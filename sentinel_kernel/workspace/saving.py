"""Saving what was written in the workspace: from the sandbox's upper layer to the artifact store.

What is saved is bounded twice: by the size of the layer itself (a file with many names is copied once and linked
after that, holes stay holes), and by the free space of the store's file system, of which a share is left.
"""

from __future__ import annotations

import json
import os
import stat
import time

from sentinel_kernel.linux.files import open_beneath
from sentinel_kernel.record import MutableRecord, fresh

_MAXIMUM_DEPTH = 64
_MAXIMUM_FILES = 100_000
_MAXIMUM_SKIPPED = 20
_MAXIMUM_FOLDERS = 20_000
_MAXIMUM_DELETED_BYTES = 8 << 20
"""Of the names in the list of deleted files."""

_BLOCK_BYTES = 4096
"""What a file or folder takes beside its data, as a rule."""

_LEFT_FREE_PERCENT = 5
_LEFT_FREE_BYTES = 1 << 30
"""What stays free of the store's file system: 5 percent of it, and 1 GiB of a large one."""

_TOO_MUCH = "the sandbox's disk limit is reached"
_NO_ROOM = "too little space would be left for others"
_CHUNK_BYTES = 1 << 20
_UNTOLD = "untold"
_LOOKED_AT = 50
_KEY_CHARACTERS = 4096
# Caches: they are made again, and would turn every import of a module of the workspace into a "changed file".
_CACHES = frozenset({"__pycache__", ".ipynb_checkpoints", ".pytest_cache", ".mypy_cache", ".ruff_cache"})


class Salvaged(MutableRecord):
    """What was saved: ``path`` is empty where nothing had changed. ``skipped`` says what could not be, and why."""

    path: str = ""
    files: int = 0
    bytes: int = 0
    left_out: int = 0
    """How many paths are not saved; ``skipped`` names the first of them."""
    deleted: list[str] = fresh(default_factory=list)
    skipped: list[str] = fresh(default_factory=list)

    def skip(self, name: str, reason: str) -> None:
        """Note one path that is not saved; the list stays short, its last entry says so."""
        self.left_out += 1
        if len(self.skipped) < _MAXIMUM_SKIPPED:
            self.skipped.append(f"{name[:200]!r}: {reason}")
        elif len(self.skipped) == _MAXIMUM_SKIPPED:
            self.skipped.append("… and more")


class _Budget:
    """Where to, and what may still be copied: ``limit`` bytes of data, and what that file system has to spare."""

    def __init__(self, limit: int, target: str) -> None:
        self._left = limit
        self.target = target
        """The folder that is copied to."""
        self._deleted_left = _MAXIMUM_DELETED_BYTES
        self.folders = 0
        self.copies: dict[tuple[int, int], str] = {}
        """(device, inode) of a file with several names -> where it was copied to."""
        self._keeps_holes: bool | None = None

    def refuses(self, cost: int) -> str:
        """Return why ``cost`` bytes more are not to be copied, or nothing. Raises OSError."""
        if cost > self._left:
            return _TOO_MUCH
        space = os.statvfs(self.target)
        reserve = min(space.f_blocks * space.f_frsize * _LEFT_FREE_PERCENT // 100, _LEFT_FREE_BYTES)
        if space.f_bavail * space.f_frsize - reserve < cost + _BLOCK_BYTES:
            return _NO_ROOM
        return ""

    def cost(self, status: os.stat_result) -> int:
        """Return how many bytes a copy takes: less than its length only where holes stay holes."""
        stored = status.st_blocks * 512
        if stored >= status.st_size:
            return status.st_size
        if self._keeps_holes is None:
            self._keeps_holes = _keeps_holes(self.target)
        return stored if self._keeps_holes else status.st_size

    def take(self, cost: int) -> None:
        """Count bytes that were copied."""
        self._left -= cost

    def lists(self, path: str) -> bool:
        """Tell whether a deleted path may still be listed."""
        self._deleted_left -= len(path)
        return self._deleted_left >= 0


def artifact_store() -> str:
    """Return the folder of the artifact store (XDG base directory specification)."""
    data = os.environ.get("XDG_DATA_HOME") or os.path.join(os.environ.get("HOME") or "/", ".local", "share")
    return os.path.join(data, "sentinel-kernel", "artifacts")


def salvage(upper: int, workspace: str, store: str) -> Salvaged:
    """Copy every regular file of the layer ``upper`` (a descriptor) into a new folder of ``store``.

    The layer was written by hostile code: it is walked by descriptors, without following links, and everything
    but folders and regular files is left behind. Nothing is raised; what went wrong is in ``skipped``.
    """
    result = Salvaged()
    stamp = time.strftime("%Y%m%d-%H%M%S")
    target = os.path.join(store, f"{stamp}-{os.urandom(3).hex()}")
    try:
        layer = os.fstatvfs(upper)
        budget = _Budget(layer.f_blocks * layer.f_frsize, target)
        _copy_directory(upper, "", result, budget, 0)
    except OSError as error:
        result.skip("the rest", error.strerror or "error")
    if not result.path and result.deleted:
        result.path = target
    if result.path:
        manifest = {
            "workspace": workspace,
            "saved": stamp,
            "files": result.files,
            "bytes": result.bytes,
            "deleted": result.deleted,
            "skipped": result.skipped,
            "left_out": result.left_out,
        }
        try:
            os.makedirs(target, 0o700, exist_ok=True)
            with open(os.path.join(target, "manifest.json"), "w", encoding="utf-8") as file:
                json.dump(manifest, file, ensure_ascii=True, indent=1)
        except OSError as error:
            result.skip("manifest.json", error.strerror or "error")
    return result


def leave_word(path: str, key: str) -> None:
    """Note in the saved folder ``path`` that nobody was told of it; :func:`take_words` finds it by ``key``."""
    try:
        with open(os.path.join(path, _UNTOLD), "x", encoding="utf-8") as file:
            file.write(key)
    except OSError:
        pass  # the files are saved all the same, and the log says where


def take_words(store: str, key: str) -> list[tuple[str, int, int]]:
    """Return (path, number of files, number left out) of the folders that nobody was told of under ``key``, once."""
    found = []
    try:
        newest = sorted(os.listdir(store))[-_LOOKED_AT:]
    except OSError:
        return []
    for name in newest:
        path = os.path.join(store, name)
        mark = os.path.join(path, _UNTOLD)
        try:
            with open(mark, encoding="utf-8") as file:
                if file.read(_KEY_CHARACTERS) != key:
                    continue
            os.unlink(mark)
            with open(os.path.join(path, "manifest.json"), encoding="utf-8") as file:
                manifest = json.load(file)
                found.append((path, int(manifest["files"]), int(manifest.get("left_out") or 0)))
        except (OSError, ValueError, KeyError, TypeError):
            continue  # none of ours, or no longer whole
    return found


def _copy_directory(source: int, relative: str, result: Salvaged, budget: _Budget, depth: int) -> None:
    if depth > _MAXIMUM_DEPTH:
        result.skip(relative, f"deeper than {_MAXIMUM_DEPTH} folders")
        return
    with os.scandir(source) as entries:
        names = sorted(entry.name for entry in entries)
    for name in names:
        path = f"{relative}/{name}" if relative else name
        try:
            status = os.stat(name, dir_fd=source, follow_symlinks=False)
        except OSError as error:
            result.skip(path, error.strerror or "error")
            continue
        mode = status.st_mode
        if stat.S_ISCHR(mode) and status.st_rdev == 0:
            # A whiteout: the file below was deleted (overlayfs).
            if budget.lists(path):
                result.deleted.append(path)
            else:
                result.skip(path, "deleted, and the list of deleted files is full")
        elif stat.S_ISDIR(mode):
            if name in _CACHES:
                continue
            _enter(source, name, path, result, budget, depth)
        elif stat.S_ISREG(mode):
            if result.files >= _MAXIMUM_FILES:
                result.skip(path, f"more than {_MAXIMUM_FILES} files")
                return
            _copy_file(source, name, path, result, budget)
        else:
            result.skip(path, "neither a file nor a folder")


def _enter(source: int, name: str, path: str, result: Salvaged, budget: _Budget, depth: int) -> None:
    budget.folders += 1
    if budget.folders > _MAXIMUM_FOLDERS:
        result.skip(path, f"more than {_MAXIMUM_FOLDERS} folders")
        return
    try:
        directory = open_beneath(source, name, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        result.skip(path, error.strerror or "error")
        return
    try:
        _copy_directory(directory, path, result, budget, depth + 1)
    finally:
        os.close(directory)


def _copy_file(source: int, name: str, path: str, result: Salvaged, budget: _Budget) -> None:
    destination = os.path.join(budget.target, "files", path)
    try:
        reader = open_beneath(source, name, os.O_RDONLY | os.O_NONBLOCK)
    except OSError as error:
        result.skip(path, error.strerror or "error")
        return
    try:
        status = os.fstat(reader)
        if not stat.S_ISREG(status.st_mode):
            result.skip(path, "changed while it was saved")
            return
        os.makedirs(budget.target, 0o700, exist_ok=True)
        result.path = budget.target
        cost = budget.cost(status)
        known = budget.copies.get((status.st_dev, status.st_ino)) if status.st_nlink > 1 else None
        reason = budget.refuses(0 if known is not None else cost)
        if reason:
            result.skip(path, reason)
            return
        os.makedirs(os.path.dirname(destination), 0o700, exist_ok=True)
        if known is not None:
            os.link(known, destination)
        else:
            _copy_whole(reader, status, destination)
            budget.take(cost)
            result.bytes += cost
            if status.st_nlink > 1:
                budget.copies[status.st_dev, status.st_ino] = destination
        result.files += 1
    except OSError as error:
        result.skip(path, error.strerror or "error")
    finally:
        os.close(reader)


def _copy_whole(reader: int, status: os.stat_result, destination: str) -> None:
    """Copy a file with its times, or leave nothing of it. Raises OSError."""
    # Neither executable nor setuid: what hostile code wrote is data until somebody decides otherwise.
    writer = os.open(destination, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        try:
            _copy_data(reader, writer, status.st_size)
        finally:
            os.close(writer)
        os.utime(destination, ns=(status.st_atime_ns, status.st_mtime_ns))
    except OSError:
        os.unlink(destination)
        raise


def _keeps_holes(folder: str) -> bool:
    """Tell whether the file system of ``folder`` stores holes as holes (vfat, say, does not)."""
    try:
        probe = os.open(folder, os.O_TMPFILE | os.O_WRONLY | os.O_CLOEXEC, 0o600)
    except OSError:
        return False  # such a file system is none that keeps them, or too old to tell
    try:
        os.ftruncate(probe, _CHUNK_BYTES)
        os.fsync(probe)
        return os.fstat(probe).st_blocks * 512 < _CHUNK_BYTES
    except OSError:
        return False
    finally:
        os.close(probe)


def _copy_data(reader: int, writer: int, size: int) -> None:
    """Copy the data of a file and leave its holes holes (lseek(2), SEEK_DATA)."""
    position = 0
    while position < size:
        try:
            start = os.lseek(reader, position, os.SEEK_DATA)
        except OSError:
            break  # ENXIO: only a hole is left
        end = min(os.lseek(reader, start, os.SEEK_HOLE), size)
        os.lseek(reader, start, os.SEEK_SET)
        os.lseek(writer, start, os.SEEK_SET)
        position = start
        while position < end:
            chunk = os.read(reader, min(_CHUNK_BYTES, end - position))
            if not chunk:
                break
            view = memoryview(chunk)
            while view:
                view = view[os.write(writer, view) :]
            position += len(chunk)
        if position < end:
            break
    os.ftruncate(writer, size)
