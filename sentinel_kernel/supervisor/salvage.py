"""Saving what was written in the workspace: from the sandbox's upper layer to the artifact store."""

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
    deleted: list[str] = fresh(default_factory=list)
    skipped: list[str] = fresh(default_factory=list)

    def skip(self, name: str, reason: str) -> None:
        """Note one path that is not saved; the list stays short, its last entry says so."""
        if len(self.skipped) < _MAXIMUM_SKIPPED:
            self.skipped.append(f"{name[:200]!r}: {reason}")
        elif len(self.skipped) == _MAXIMUM_SKIPPED:
            self.skipped.append("… and more")


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
        _copy_directory(upper, "", target, result, 0)
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
            "deleted": result.deleted[:_MAXIMUM_FILES],
            "skipped": result.skipped,
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


def take_words(store: str, key: str) -> list[tuple[str, int]]:
    """Return (path, number of files) of the saved folders that nobody was told of under ``key``, once."""
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
                found.append((path, int(json.load(file)["files"])))
        except (OSError, ValueError, KeyError, TypeError):
            continue  # none of ours, or no longer whole
    return found


def _copy_directory(source: int, relative: str, target: str, result: Salvaged, depth: int) -> None:
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
            result.deleted.append(path)  # a whiteout: the file below was deleted (overlayfs)
        elif stat.S_ISDIR(mode):
            if name in _CACHES:
                continue
            _enter(source, name, path, target, result, depth)
        elif stat.S_ISREG(mode):
            if result.files >= _MAXIMUM_FILES:
                result.skip(path, f"more than {_MAXIMUM_FILES} files")
                return
            _copy_file(source, name, path, target, result)
        else:
            result.skip(path, "neither a file nor a folder")


def _enter(source: int, name: str, path: str, target: str, result: Salvaged, depth: int) -> None:
    try:
        directory = open_beneath(source, name, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        result.skip(path, error.strerror or "error")
        return
    try:
        _copy_directory(directory, path, target, result, depth + 1)
    finally:
        os.close(directory)


def _copy_file(source: int, name: str, path: str, target: str, result: Salvaged) -> None:
    destination = os.path.join(target, "files", path)
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
        os.makedirs(os.path.dirname(destination), 0o700, exist_ok=True)
        result.path = target
        # Neither executable nor setuid: what hostile code wrote is data until somebody decides otherwise.
        writer = os.open(destination, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            result.bytes += _copy_data(reader, writer, status.st_size)
        finally:
            os.close(writer)
        os.utime(destination, ns=(status.st_atime_ns, status.st_mtime_ns))
        result.files += 1
    except OSError as error:
        result.skip(path, error.strerror or "error")
    finally:
        os.close(reader)


def _copy_data(reader: int, writer: int, size: int) -> int:
    """Copy the data of a file and leave its holes holes (lseek(2), SEEK_DATA); return the bytes copied."""
    copied = 0
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
            copied += len(chunk)
        if position < end:
            break
    os.ftruncate(writer, size)
    return copied
