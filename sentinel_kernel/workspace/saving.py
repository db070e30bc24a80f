"""Saving what was written in held folders: from the sandbox's upper layers to the artifact store.

What is saved is bounded twice: by the size of the layer itself (a file with many names is copied once and linked
after that, holes stay holes), and by the free space of the store's file system, of which a share is left.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import stat
import time

from sentinel_kernel.linux.files import open_beneath
from sentinel_kernel.policy.disk_reserve import room
from sentinel_kernel.record import MutableRecord, Record, fresh
from sentinel_kernel.workspace.folder_order import folders_of, names_of
from sentinel_kernel.workspace.layer import is_absent
from sentinel_kernel.workspace.store import MANIFEST, PART, leave_word

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from sentinel_kernel.workspace.store import StoreSettings

MAXIMUM_FILES = 100_000
_SHARE_FILES = 2_000
"""Of a folder, before the others have had their turn."""
_TURNS, _EMPTY_TURN = 3, 2
_MAXIMUM_SKIPPED = 20
_MAXIMUM_DELETED_BYTES = 8 << 20
"""Of the names in the list of deleted files."""

_BLOCK_BYTES = 4096
"""What a file or folder takes beside its data, as a rule."""

_TOO_MUCH = "the sandbox's disk limit is reached"
_NO_ROOM = "too little space would be left for others"
_CHUNK_BYTES = 1 << 20
FILES = "files"
"""Where an artifact has the workspace's files."""
_COPYING = ".sentinel-copy"
"""The name of the file that is being copied; it gets its own when it is whole."""

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


class Budget:
    """Where to, and what may still be copied: ``limit`` bytes of data, and what that file system has to spare."""

    def __init__(self, limit: int, target: str, place: str = FILES, lower: int = -1) -> None:
        self._left = limit
        self.target = target
        """The artifact that is copied to."""
        self.place = place
        """The folder of it that is this layer's."""
        self.lower = lower
        """The host's folder, or -1: what is there just so is not copied."""
        self._deleted_left = _MAXIMUM_DELETED_BYTES
        self.copies: dict[tuple[int, int], str] = {}
        """(device, inode) of a file with several names -> where it was copied to."""
        self._keeps_holes: bool | None = None

    def refuses(self, cost: int) -> str:
        """Return why ``cost`` bytes more are not to be copied, or nothing. Raises OSError."""
        if cost > self._left:
            return _TOO_MUCH
        space = os.statvfs(self.target)
        if room(space) < cost + _BLOCK_BYTES:
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


class Source(Record):
    """One held folder, as its saving needs it: the name of its layer, its path on the host, and descriptors."""

    name: str
    path: str
    upper: int
    lower: int = -1


def new_name() -> str:
    """Return a name for an artifact that is saved now."""
    return f"{time.strftime('%Y%m%d-%H%M%S')}-{os.urandom(3).hex()}"


def save(
    sources: Sequence[Source], settings: StoreSettings, kernel: str, name: str, part: str = ""
) -> Salvaged:
    """Copy every regular file of the layers into a new artifact, whole or (where it is killed) file by file.

    The layers were written by hostile code: they are walked by descriptors, without following links, and everything
    but folders and regular files is left behind. Files that the host has just so are not saved again. ``part`` is what
    an earlier try, which was killed, has left. Nothing is raised; what went wrong is in ``skipped``. The artifact says
    that nobody was told of it yet (:func:`~sentinel_kernel.workspace.store.leave_word`).
    """
    result = Salvaged()
    target = os.path.join(settings.folder, PART + name)
    folders: list[dict[str, Any]] = []
    for source in sources:
        before = result.files, result.bytes, len(result.deleted)
        place = FILES if source is sources[0] else os.path.join("folders", source.name)
        try:
            layer = os.fstatvfs(source.upper)
            budget = Budget(layer.f_blocks * layer.f_frsize - result.bytes, target, place, source.lower)
            _copy_tree(source.upper, result, budget)
        except OSError as error:
            result.skip("the rest", error.strerror or "error")
        deleted = result.deleted[before[2] :]
        files, size = result.files - before[0], result.bytes - before[1]
        if files or deleted:
            folders.append(
                {
                    "name": source.name,
                    "path": source.path,
                    "files": files,
                    "bytes": size,
                    "place": place,
                    "deleted": deleted,
                }
            )
    if not result.path and (result.deleted or result.left_out):
        result.path = target  # the manifest alone: it says what there was, and why it is not there
    if result.path:
        finish(result, os.path.join(settings.folder, name), sources[0].path, folders, kernel)
    if part and result.path and not result.left_out:
        _forget_part(settings.folder, part)
    return result


def finish(result: Salvaged, target: str, workspace: str, folders: list[dict[str, Any]], kernel: str) -> None:
    """Write the manifest, and give the artifact its name: from there on it is whole."""
    store, name = os.path.split(target)
    part = os.path.join(store, PART + name)
    manifest = {
        "version": 2,
        "workspace": workspace,
        "saved": name.rpartition("-")[0],
        "files": result.files,
        "bytes": result.bytes,
        "deleted": result.deleted,
        "skipped": result.skipped,
        "left_out": result.left_out,
        "folders": folders,
    }
    try:
        os.makedirs(part, 0o700, exist_ok=True)
        leave_word(part, kernel)
        with open(os.path.join(part, MANIFEST), "w", encoding="utf-8") as file:
            json.dump(manifest, file, ensure_ascii=True, indent=1)
        os.rename(part, target)
    except OSError as error:
        result.skip(MANIFEST, error.strerror or "error")
        if not result.files:
            result.path = ""
    else:
        result.path = target


def _forget_part(store: str, part: str) -> None:
    """Remove what a killed try has left: all of it was saved again."""
    if part.startswith(PART) and "/" not in part:
        shutil.rmtree(os.path.join(store, part), ignore_errors=True)


def _copy_tree(source: int, result: Salvaged, budget: Budget) -> None:
    """Copy what is in ``source``: in three turns, folders above first, so that no junk takes the place of results.

    First a share of each folder's files that are not empty, then their rest, then empty ones. No folder's names are
    held whole.
    """
    folders = folders_of(source, _CACHES, result.skip)
    for turn in range(_TURNS):
        left = []
        for path in folders:
            try:
                descriptor = open_beneath(source, path or ".", os.O_RDONLY | os.O_DIRECTORY)
            except OSError as error:
                result.skip(path or "the rest", error.strerror or "error")
                continue
            try:
                if _copy_files(descriptor, path, result, budget, turn):
                    left.append(path)
            except OSError as error:
                result.skip(path or "the rest", error.strerror or "error")
            finally:
                os.close(descriptor)
        folders = left


def _copy_files(source: int, relative: str, result: Salvaged, budget: Budget, turn: int) -> bool:
    """Copy the files of a folder whose turn it is; tell whether there are others. Raises OSError."""
    number, more = 0, False
    with contextlib.closing(names_of(source)) as names:
        for name in names:
            path = f"{relative}/{name}" if relative else name
            try:
                status = os.stat(name, dir_fd=source, follow_symlinks=False)
            except OSError as error:
                if turn == 0:
                    result.skip(path, error.strerror or "error")
                continue
            if not stat.S_ISREG(status.st_mode):
                if turn == 0 and not stat.S_ISDIR(status.st_mode):
                    _note_special(path, status, result, budget)
                continue
            number += status.st_size > 0
            its_turn = _EMPTY_TURN if not status.st_size else int(number > _SHARE_FILES)
            more = more or its_turn > turn
            if its_turn != turn:
                continue
            if result.files >= MAXIMUM_FILES:
                result.skip(path, f"more than {MAXIMUM_FILES} files")
            else:
                copy_file(source, name, path, result, budget)
    return more


def _note_special(path: str, status: os.stat_result, result: Salvaged, budget: Budget) -> None:
    if not stat.S_ISCHR(status.st_mode) or status.st_rdev != 0:
        result.skip(path, "neither a file nor a folder")
    elif budget.lower >= 0 and is_absent(budget.lower, path):
        return  # the host has none either: the deletion was committed, or it was a cell's own
    elif budget.lists(path):  # a whiteout: the file below was deleted (overlayfs)
        result.deleted.append(path)
    else:
        result.skip(path, "deleted, and the list of deleted files is full")


def copy_file(source: int, name: str, path: str, result: Salvaged, budget: Budget) -> None:
    """Copy the plain file ``name`` of a folder to ``path`` of the artifact; why not, is in the result."""
    destination = os.path.join(budget.target, budget.place, path)
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
        if budget.lower >= 0 and _is_on_host(reader, status, budget.lower, path):
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
            _copy_whole(reader, status, budget, destination)
            budget.take(cost)
            result.bytes += cost
            if status.st_nlink > 1:
                budget.copies[status.st_dev, status.st_ino] = destination
        result.files += 1
    except OSError as error:
        result.skip(path, error.strerror or "error")
    finally:
        os.close(reader)


def _copy_whole(reader: int, status: os.stat_result, budget: Budget, destination: str) -> None:
    """Copy a file with its times, whole or not at all. Raises OSError."""
    # Neither executable nor setuid: what hostile code wrote is data until somebody decides otherwise.
    copying = os.path.join(budget.target, _COPYING)
    writer = os.open(copying, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        try:
            _copy_data(reader, writer, status.st_size)
            os.utime(writer, ns=(status.st_atime_ns, status.st_mtime_ns))
        finally:
            os.close(writer)
        os.rename(copying, destination)
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(copying)
        raise


def _is_on_host(reader: int, status: os.stat_result, lower: int, path: str) -> bool:
    """Tell whether the host's folder has the very file: of the same time and content, as a commit leaves it."""
    try:
        there = open_beneath(lower, path, os.O_RDONLY | os.O_NONBLOCK)
    except OSError:
        return False
    try:
        host = os.fstat(there)
        if (host.st_mode & 0o170000, host.st_size, host.st_mtime_ns) != (
            stat.S_IFREG,
            status.st_size,
            status.st_mtime_ns,
        ):
            return False
        position = 0
        while position < status.st_size:
            chunk = os.pread(reader, _CHUNK_BYTES, position)
            if not chunk or chunk != os.pread(there, len(chunk), position):
                return False
            position += len(chunk)
    except OSError:
        return False
    finally:
        os.close(there)
    return True


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
