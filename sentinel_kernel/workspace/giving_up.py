"""Takes what equals the host's file out of the upper layer, so that cells see the host's and memory is free.

The overlay knows nothing of it: overlayfs.rst calls a changed layer undefined, though never a crash, and what it
comes to is known. Names that nobody uses are forgotten by the reconfiguration; a name in use (an open file, a
current folder) goes on leading to the old one, and what is written there would be lost. Hence

- a lease that is granted only where nobody has the file open, and that makes whoever opens it wait (leases.py);
- the file is moved aside, not deleted;
- cells must then see the host's, which is looked at through the overlay as they do; else it is moved back;
- the folder that it was moved from must then have the path that it had: a cell may have given that another name, at
  which it has nothing from the host. So what is moved back goes to that very folder, whatever its name is by now.
"""

from __future__ import annotations

import contextlib
import os
import signal
import stat

from sentinel_kernel.linux import mounts
from sentinel_kernel.linux.acting import acting_as
from sentinel_kernel.linux.birth import birth_ns
from sentinel_kernel.linux.files import open_beneath
from sentinel_kernel.linux.leases import is_kept, take_lease
from sentinel_kernel.linux.renaming import rename_to_free_name
from sentinel_kernel.workspace.layer import Parents, folder_of, open_plain, status_of
from sentinel_kernel.workspace.marks import is_opaque, key_of, mark, uncover

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from sentinel_kernel.workspace.layer import Layer
    from sentinel_kernel.workspace.marks import Key

_PARKED = "committed-"
_LOOKED_AT = 10_000
_AT_A_TIME = 16


class Settled:
    """A path at which the host now has what cells see, or has nothing any more."""

    __slots__ = ("cell", "host", "path")

    def __init__(self, path: str, host: Key | None, cell: Key | None = None) -> None:
        """Note the state of the host's file, None where it was deleted, and of the cell's, None for a whiteout."""
        self.path = path
        self.host = host
        self.cell = cell


class _Aside:
    __slots__ = ("folder", "lease", "name", "settled")

    def __init__(self, settled: Settled, folder: int) -> None:
        self.settled = settled
        self.folder = os.dup(folder)
        """Where it was: its path may lead elsewhere by now."""
        self.name = f"{_PARKED}{os.urandom(8).hex()}"
        self.lease = -1

    def close(self) -> None:
        os.close(self.folder)
        if self.lease >= 0:
            os.close(self.lease)


def give_up(layer: Layer, settled: Sequence[Settled], folders: Sequence[str] = ()) -> int:
    """Give up the upper layer's entries of ``settled``, and the covers of ``folders``; return how many are gone.

    What can't be given up stays, is marked as committed, and shadows the host's as before. Nothing is raised for it.
    """
    if layer.context < 0 or layer.parked < 0:
        for one in settled:
            _note(layer, one)
        return 0
    signal.signal(signal.SIGIO, signal.SIG_IGN)  # tells of broken leases; ends a process else
    _sweep(layer)
    above = {one.path.rpartition("/")[0] for one in settled} - {""}
    for path in sorted({*folders, *above}):
        _uncover(layer, path)
    if above or folders:
        mounts.reconfigure(layer.context)
    parents = Parents(layer.upper)
    try:
        starts = range(0, len(settled), _AT_A_TIME)
        return sum(_give_up_some(layer, parents, settled[start : start + _AT_A_TIME]) for start in starts)
    finally:
        parents.close()


def _give_up_some(layer: Layer, parents: Parents, settled: Sequence[Settled]) -> int:
    """Give some up. Who uses one of the names within this millisecond may be told ESTALE or ENOENT."""
    aside = [moved for one in settled if (moved := _move_aside(layer, parents, one)) is not None]
    if not aside:
        return 0
    mounts.reconfigure(layer.context)
    gone = 0
    for moved in aside:
        # In this order: a folder at which cells see what the host has can't be given another name any more.
        replaced = _is_seen(layer, moved.settled) and _is_in_place(layer, moved)
        if replaced and (moved.lease < 0 or is_kept(moved.lease, alone=True)):
            with contextlib.suppress(OSError):
                os.unlink(moved.name, dir_fd=layer.parked)
            gone += 1
        else:
            _move_back(layer, moved)
        moved.close()
    if gone < len(aside):
        mounts.reconfigure(layer.context)
    return gone


def _move_aside(layer: Layer, parents: Parents, one: Settled) -> _Aside | None:
    """Move it to a folder that cells don't see; None where it is in use or has changed, which is noted at it."""
    aside = None
    try:
        folder, last = parents.of(one.path)
        aside = _Aside(one, folder)
        if one.cell is not None:
            aside.lease, _ = open_plain(folder, last)
            alone = take_lease(aside.lease, alone=True)
            if not alone or key_of(os.fstat(aside.lease)) != one.cell:
                _mark(aside.lease, one)
                raise _InUse
        elif not _is_whiteout(status_of(folder, last)):
            raise _InUse
        with acting_as(layer.writer):  # nobody else has an id in that file system
            rename_to_free_name(folder, last, layer.parked, aside.name)
        moved = status_of(layer.parked, aside.name)
        if moved is None or (aside.lease >= 0 and moved.st_ino != os.fstat(aside.lease).st_ino):
            _move_back(layer, aside)  # the cell has put another in its place meanwhile
            raise _InUse
    except OSError:
        if aside is not None:
            aside.close()
        return None
    return aside


class _InUse(OSError):
    """Somebody has the file open, or has changed it."""


def _mark(file: int, one: Settled) -> None:
    if one.host is not None and one.cell is not None and os.fstat(file).st_ino == one.cell[0]:
        mark(file, one.path, one.host, one.cell)


def _move_back(layer: Layer, one: _Aside) -> None:
    """Put it where it was. Where the cell has made another there since, it stays aside until it is not in use."""
    with contextlib.suppress(OSError):
        with acting_as(layer.writer):
            rename_to_free_name(layer.parked, one.name, one.folder, one.settled.path.rpartition("/")[2])
        cell = one.settled.cell
        if one.lease >= 0 and cell is not None:
            # The renames have changed its ctime, and nobody but them: the lease tells.
            now = key_of(os.fstat(one.lease))
            _mark(one.lease, Settled(one.settled.path, one.settled.host, (*cell[:3], now[3])))


def _is_in_place(layer: Layer, one: _Aside) -> bool:
    """Tell whether the folder that it was moved from still has the path that it had."""
    try:
        with folder_of(layer.upper, one.settled.path) as (folder, _):
            return os.path.samestat(os.fstat(folder), os.fstat(one.folder))
    except OSError:
        return False


def _is_seen(layer: Layer, one: Settled) -> bool:
    """Tell whether cells see the host's file at the path, or none where it has none."""
    # No folder is held open for this: what is in use keeps leading to what it led to.
    try:
        found = open_beneath(layer.merged, one.path, os.O_PATH)
    except FileNotFoundError:
        return one.host is None
    except OSError:
        return False
    try:
        seen = os.fstat(found)
    finally:
        os.close(found)
    if one.host is None:
        return False
    _, size, mtime_ns, _ = one.host
    return stat.S_ISDIR(seen.st_mode) or (seen.st_size, seen.st_mtime_ns) == (size, mtime_ns)


def _note(layer: Layer, one: Settled) -> None:
    if one.cell is None or one.host is None:
        return
    with contextlib.suppress(OSError), folder_of(layer.upper, one.path) as (folder, last):
        file, _ = open_plain(folder, last)
        try:
            _mark(file, one)
        finally:
            os.close(file)


def _uncover(layer: Layer, path: str) -> None:
    """Let the host's folder be seen through the cell's of the same path, where that brings nothing deleted back."""
    with contextlib.suppress(OSError):
        folder = open_beneath(layer.upper, path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            if is_opaque(folder) and not _hides(layer, path, folder):
                uncover(folder)
        finally:
            os.close(folder)


def _hides(layer: Layer, path: str, folder: int) -> bool:
    """Tell whether the cell's folder stands for the deletion of something on the host; too much to see is so too."""
    made = birth_ns(folder, "")
    host = open_beneath(layer.lower, path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with os.scandir(host) as entries:
            for number, entry in enumerate(entries):
                if number >= _LOOKED_AT:
                    return True
                there = status_of(host, entry.name)
                if there is not None and there.st_ctime_ns <= made and status_of(folder, entry.name) is None:
                    return True
        return False
    finally:
        os.close(host)


def _sweep(layer: Layer) -> None:
    """Remove what an earlier one, that was killed, had moved aside, and nobody has open."""
    folder = open_beneath(layer.parked, ".", os.O_RDONLY | os.O_DIRECTORY)
    try:
        with os.scandir(folder) as entries:
            names = [entry.name for entry in entries if entry.name.startswith(_PARKED)]
    finally:
        os.close(folder)
    for name in names:
        with contextlib.suppress(OSError):
            status = status_of(layer.parked, name)
            if _is_whiteout(status):
                os.unlink(name, dir_fd=layer.parked)
                continue
            file, _ = open_plain(layer.parked, name)
            if take_lease(file, alone=True):
                os.unlink(name, dir_fd=layer.parked)
            os.close(file)


def _is_whiteout(status: os.stat_result | None) -> bool:
    return status is not None and stat.S_ISCHR(status.st_mode) and status.st_rdev == 0
