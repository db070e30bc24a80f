"""The host's folder as a commit changes it: files that appear whole, under a free name or in place of a known one.

All of it happens as the folder's owner, through descriptors that no link leads out of. An unfinished file has a name
of its own kind and a lock; one without the lock is left over from a commit that was killed, and removed.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import time

from sentinel_kernel.linux.acting import acting_as
from sentinel_kernel.linux.files import open_beneath
from sentinel_kernel.linux.locks import try_lock_whole
from sentinel_kernel.linux.renaming import exchange, rename_to_free_name
from sentinel_kernel.policy.committable import UNFINISHED, YAML, by_itself, form_of, is_unfinished
from sentinel_kernel.policy.disk_reserve import room
from sentinel_kernel.workspace.layer import MAXIMUM_DEPTH, status_of
from sentinel_kernel.workspace.marks import key_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from sentinel_kernel.workspace.layer import Layer
    from sentinel_kernel.workspace.marks import Key

_SWEPT_NAMES = 50_000
_SWEPT_FOLDERS = 300
_NAME_BYTES = 255
_TRIES = 100
_FOLDER = os.O_DIRECTORY | os.O_PATH
_ABSENT = (0, 0, 0, 0)


class ChangedMeanwhile(Exception):
    """The host's file is another than the one that was to be replaced or deleted."""


class HostFolders:
    """The folders that a commit writes to, each opened, swept and kept open once."""

    def __init__(self, layer: Layer) -> None:
        """Open none yet."""
        self._root = layer.lower
        self._owner = layer.owner
        self._open: dict[str, int] = {}
        self.made: set[str] = set()
        """Paths of the folders that were missing and were made."""

    def close(self) -> None:
        """Release them."""
        while self._open:
            os.close(self._open.popitem()[1])

    def __len__(self) -> int:
        """Return how many are open."""
        return len(self._open)

    def acting(self) -> acting_as:
        """Act as the folder's owner within."""
        return acting_as(self._owner)

    def folder(self, path: str) -> int:
        """Return the folder ``path``, by name alone; it and those above are made where they are missing.

        Raises:
            OSError: ELOOP or ENOTDIR where something else is there, EXDEV where another file system is.

        """
        known = self._open.get(path)
        if known is not None:
            return known
        with self.acting():
            descriptor = self._opened(path)
            self._open[path] = descriptor
            _sweep(descriptor)
        return descriptor

    def _opened(self, path: str) -> int:
        try:
            return open_beneath(self._root, path or ".", _FOLDER)
        except FileNotFoundError:
            pass
        descriptor = open_beneath(self._root, ".", _FOLDER)
        try:
            above = ""
            for name in path.split("/"):
                above = f"{above}/{name}" if above else name
                with contextlib.suppress(FileExistsError):
                    _refuse_without_room(descriptor, name)
                    os.mkdir(name, 0o777, dir_fd=descriptor)
                    self.made.add(above)
                inner = open_beneath(descriptor, name, _FOLDER)
                os.close(descriptor)
                descriptor = inner
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor


def _refuse_without_room(folder: int, name: str) -> None:
    """Raise OSError (ENOSPC) where a new folder would leave too little of the disk for others."""
    if room(os.fstatvfs(folder)) < 0 and status_of(folder, name) is None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def make_unfinished(folder: int, mode: int = 0o600) -> tuple[int, str]:
    """Make a new file; return its descriptor, for writing, and its name. The umask, or an ACL, narrow ``mode``."""
    name = f"{UNFINISHED[0]}{os.urandom(8).hex()}{UNFINISHED[1]}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(name, flags, mode, dir_fd=folder)
    try_lock_whole(descriptor)
    return descriptor, name


def place(folder: int, unfinished: str, name: str, host: Key) -> None:
    """Give a finished file its name: in place of the host's file of state ``host``, or (zeros) where there is none.

    Raises:
        ChangedMeanwhile: another file is there. It keeps its name, or gets one beside where it came in the last
            moment; ``unfinished`` is as it was, or has the name.
        OSError: it was refused.

    """
    if host == _ABSENT:
        try:
            rename_to_free_name(folder, unfinished, folder, name)
        except FileExistsError:
            raise ChangedMeanwhile from None
        return
    there = status_of(folder, name)
    if there is None or key_of(there) != host:
        raise ChangedMeanwhile
    if not exchange(folder, unfinished, name):
        os.rename(unfinished, name, src_dir_fd=folder, dst_dir_fd=folder)
        return
    out = status_of(folder, unfinished)
    # The exchange itself is a change of ctime.
    if out is not None and key_of(out)[:3] != host[:3]:
        place_beside(folder, unfinished, name)
        raise ChangedMeanwhile
    with contextlib.suppress(FileNotFoundError):
        os.unlink(unfinished, dir_fd=folder)


def place_beside(folder: int, unfinished: str, name: str) -> str:
    """Give a file a name beside ``name``; return it. Raises OSError.

    It is ``NAME.sentinel-TIME``, of data ``NAME.sentinel-TIME.csv``: programs of the host may take up other endings.
    """
    stamp, ending = time.strftime(".sentinel-%Y%m%d-%H%M%S"), ""
    if by_itself(name) and form_of(name) != YAML:
        name, ending = os.path.splitext(name)
    short = os.fsdecode(os.fsencode(name)[: _NAME_BYTES - len(stamp) - len(os.fsencode(ending)) - 4])
    for number in range(_TRIES):
        beside = short + stamp + (f"-{number}" if number else "") + ending
        try:
            rename_to_free_name(folder, unfinished, folder, beside)
        except FileExistsError:
            continue
        return beside
    raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))


def delete(folder: int, name: str, host: Key, before_ns: int) -> None:
    """Delete the host's file or folder ``name`` of state ``host``; of a folder, what is in it as well.

    It loses its name in one step. ``before_ns``: of a folder in which something was changed later, nothing is deleted.

    Raises:
        ChangedMeanwhile: it is another, or something in it was changed.
        OSError: it was refused.

    """
    there = status_of(folder, name)
    if there is None:
        return
    is_folder = stat.S_ISDIR(there.st_mode)
    if key_of(there) != host or (is_folder and _changed_since(folder, name, before_ns, 0)):
        raise ChangedMeanwhile
    aside = f"{UNFINISHED[0]}{os.urandom(8).hex()}{UNFINISHED[1]}"
    rename_to_free_name(folder, name, folder, aside)
    out = status_of(folder, aside)
    if out is not None and key_of(out)[:3] != host[:3]:
        rename_to_free_name(folder, aside, folder, name)
        raise ChangedMeanwhile
    remove_tree(folder, aside)


def remove_tree(folder: int, name: str, depth: int = 0) -> None:
    """Delete a file, or a folder with what is in it; links are deleted, not followed. Raises OSError."""
    status = status_of(folder, name)
    if status is None:
        return
    if not stat.S_ISDIR(status.st_mode):
        os.unlink(name, dir_fd=folder)
        return
    if depth > MAXIMUM_DEPTH:
        raise OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG))
    inside = open_beneath(folder, name, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with os.scandir(inside) as entries:
            for entry in entries:
                remove_tree(inside, entry.name, depth + 1)
    finally:
        os.close(inside)
    os.rmdir(name, dir_fd=folder)


def _changed_since(folder: int, name: str, before_ns: int, depth: int) -> bool:
    """Tell whether anything in a folder was changed later, or is too deep to know."""
    if depth > MAXIMUM_DEPTH:
        return True
    inside = open_beneath(folder, name, os.O_RDONLY | os.O_DIRECTORY)
    try:
        if os.fstat(inside).st_mtime_ns > before_ns:
            return True
        with os.scandir(inside) as entries:
            for entry in entries:
                status = status_of(inside, entry.name)
                if status is None:
                    continue
                if stat.S_ISDIR(status.st_mode):
                    if _changed_since(inside, entry.name, before_ns, depth + 1):
                        return True
                elif status.st_ctime_ns > before_ns:
                    return True
        return False
    finally:
        os.close(inside)


def sweep_below(layer: Layer) -> None:
    """Remove what killed commits have left unfinished in the layer's folder and the first ones below it.

    Raises nothing; what is deeper is removed with the next commit to that folder.
    """
    paths, looked_at = [""], 0
    with acting_as(layer.owner):
        for path in paths:  # grows meanwhile
            try:
                folder = open_beneath(layer.lower, path or ".", os.O_RDONLY | os.O_DIRECTORY)
            except OSError:
                continue
            try:
                unfinished = False
                with os.scandir(folder) as entries:
                    for entry in entries:
                        looked_at += 1
                        unfinished = unfinished or is_unfinished(entry.name)
                        if len(paths) < _SWEPT_FOLDERS and entry.is_dir(follow_symlinks=False):
                            paths.append(f"{path}/{entry.name}" if path else entry.name)
                if unfinished:
                    _sweep(folder)
            except OSError:
                continue
            finally:
                os.close(folder)
            if looked_at > _SWEPT_NAMES:
                return


def _sweep(folder: int) -> None:
    """Remove unfinished files and folders that no commit holds any more."""
    with contextlib.suppress(OSError):  # it may be entered and not listed
        listed = open_beneath(folder, ".", os.O_RDONLY | os.O_DIRECTORY)
        try:
            with os.scandir(listed) as entries:
                names = [
                    entry.name
                    for _, entry in zip(range(_SWEPT_NAMES), entries, strict=False)
                    if is_unfinished(entry.name)
                ]
        finally:
            os.close(listed)
        for name in names:
            with contextlib.suppress(OSError):
                _sweep_one(folder, name)


def _sweep_one(folder: int, name: str) -> None:
    seen = open_beneath(folder, name, os.O_PATH)
    try:
        mode = os.fstat(seen).st_mode
        if stat.S_ISDIR(mode):
            remove_tree(folder, name)
        elif stat.S_ISREG(mode):
            file = os.open(f"/proc/self/fd/{seen}", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            try:
                if try_lock_whole(file):
                    os.unlink(name, dir_fd=folder)
            finally:
                os.close(file)
    finally:
        os.close(seen)
