"""Saves what a sandbox that is over has left, once, whoever of its survivors does it.

Supervisor, files process and the host's next supervisor may each find that a sandbox ended. Who comes first has a lock
on the folder of former versions, which lies beside the layers; what it has saved is noted there for the others.
"""

from __future__ import annotations

import contextlib
import json
import os
import time

from sentinel_kernel.linux.acting import acting_as
from sentinel_kernel.linux.locks import lock_whole
from sentinel_kernel.workspace.journal_file import RESERVE
from sentinel_kernel.workspace.saving import Source, new_name, save
from sentinel_kernel.workspace.store import PART, retain
from sentinel_kernel.workspace.uploading import start_upload

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from sentinel_kernel.workspace.serving import Folders
    from sentinel_kernel.workspace.setup import FilesSetup

    Json = dict[str, Any]

_SAVING = "saving"
_SAVED = "saved"
_NOTE_BYTES = 1 << 20


def rescue(held: Folders, setup: FilesSetup) -> Json:
    """Save what the folders hold, unless that was done already; return what the host is told of it."""
    lock = (
        os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=held.history)
        if held.history >= 0
        else -1
    )
    try:
        if lock >= 0:
            lock_whole(lock)
        return _rescue(held, setup, lock)
    finally:
        if lock >= 0:
            os.close(lock)


def _rescue(held: Folders, setup: FilesSetup, notes: int) -> Json:
    done = _read(notes, _SAVED)
    known = _names(done)
    left = [one for one in held.folders if one.name not in known]
    if done is not None and not left:
        return {**done, "again": True}
    _make_room(notes)
    earlier = _read(notes, _SAVING) or {}
    name = new_name()
    _write(notes, _SAVING, {"part": PART + name}, setup)
    sources = [Source(one.name, one.path, one.upper, one.lower) for one in left]
    saved = save(sources, setup.store, setup.kernel, name, str(earlier.get("part") or ""))
    fields = {
        "path": saved.path,
        "files": saved.files,
        "bytes": saved.bytes,
        "skipped": saved.skipped,
        "left_out": saved.left_out,
    }
    _write(notes, _SAVED, {**fields, "folders": sorted(known | {one.name for one in left})}, setup)
    if saved.path and setup.store.url:
        start_upload(saved.path)
    with contextlib.suppress(OSError):
        retain(setup.store, time.time(), tells=False)
    return fields


def _names(done: Json | None) -> set[str]:
    """Return which folders were saved: the host keeps the first few alone for its next supervisor."""
    named = done.get("folders") if done is not None else None
    return set(map(str, named)) if isinstance(named, list) else set()


def _make_room(notes: int) -> None:
    """Remove former versions, which nobody can ask for any more: the layers' file system may be full."""
    if notes >= 0:
        for name in os.listdir(notes):
            if name.startswith("v") or name == RESERVE:
                with contextlib.suppress(OSError):
                    os.unlink(name, dir_fd=notes)


def _read(notes: int, name: str) -> Json | None:
    if notes < 0:
        return None
    try:
        reader = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=notes)
        with os.fdopen(reader, encoding="ascii") as file:
            note = json.loads(file.read(_NOTE_BYTES))
    except (OSError, ValueError):
        return None
    return note if isinstance(note, dict) else None


def _write(notes: int, name: str, note: Json, setup: FilesSetup) -> None:
    """Leave a note for who comes next; where that can't be done, what was saved may be saved twice."""
    if notes < 0:
        return
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
    with contextlib.suppress(OSError), acting_as(setup.writer):
        writer = os.open(name + ".new", flags, 0o600, dir_fd=notes)
        with os.fdopen(writer, "w", encoding="ascii") as file:
            json.dump(note, file)
        os.rename(name + ".new", name, src_dir_fd=notes, dst_dir_fd=notes)
