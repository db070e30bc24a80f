"""One folder of the host above which cells write: its descriptors, and ways into it that no link leads out of."""

from __future__ import annotations

import contextlib
import errno
import os
import stat

from sentinel_kernel.linux.files import open_beneath
from sentinel_kernel.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

MAXIMUM_DEPTH = 128
"""Folders within folders: each takes a few descriptors while a tree is walked."""
MAXIMUM_PATH_BYTES = 4000
"""Of a path within a layer: the Linux kernel takes 4095 in one call."""

_FOLDER = os.O_DIRECTORY | os.O_PATH


class Layer(Record):
    """What a workspace is to those who list and commit; the descriptors are their owner's (held_folders.py)."""

    name: str
    """``workspace``, ``data0`` ...: as the plan names the layer."""
    path: str
    """Of the folder on the host, for judging where a file would land; never opened."""
    upper: int
    """The overlay's upper folder."""
    merged: int
    """What cells see."""
    lower: int
    """The host's folder."""
    context: int = -1
    """Reconfigures the overlay (fspick(2)); -1: what was committed stays in the upper folder, and shadows."""
    parked: int = -1
    """A folder of the upper one's file system that no path of the sandbox leads to; -1 as above."""
    owner: tuple[int, int] | None = None
    """Started by root: who owns the host's folder, user and group; what is committed is written as theirs."""
    writer: tuple[int, int] | None = None
    """Started by root: who the sandbox runs as, in the host's numbers; what cells see is changed as them."""

    @property
    def is_gone(self) -> bool:
        """Whether the host's folder was deleted, or nothing can be told of it any more. Raises nothing.

        What has its name by now is another one, or what holds it does not answer (a server, a disk).
        """
        try:
            return os.fstat(self.lower).st_nlink == 0
        except OSError:  # of a deleted one on another machine: ENOENT, ESTALE
            return True

    def shown(self, path: str) -> str:
        """Return a path within it as a person types it: of the workspace from there, of any other folder in full."""
        return path if self.name == "workspace" else f"{self.path.rstrip('/')}/{path}"


def parts_of(path: str) -> list[str]:
    """Return the names of a path within a layer.

    Raises:
        OSError: EINVAL where it is no such path, ENAMETOOLONG where it is longer or deeper than a walk goes.

    """
    names = path.split("/")
    if any(name in ("", ".", "..") for name in names) or "\0" in path:
        raise OSError(errno.EINVAL, "no path within the folder")
    if len(os.fsencode(path)) > MAXIMUM_PATH_BYTES or len(names) > MAXIMUM_DEPTH:
        raise OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG))
    return names


@contextlib.contextmanager
def folder_of(root: int, path: str) -> Iterator[tuple[int, str]]:
    """Open the folder that holds ``path`` below ``root`` and give it (by name alone, O_PATH) with the last name.

    Through no link and into no other mount.

    Raises:
        OSError: it is not there, or can't be entered.

    """
    *folders, name = parts_of(path)
    descriptor = open_beneath(root, "/".join(folders) or ".", _FOLDER)
    try:
        yield descriptor, name
    finally:
        os.close(descriptor)


class Parents:
    """The folders of one tree that paths lie in; the last one stays open, as most paths come folder by folder."""

    def __init__(self, root: int) -> None:
        """Open none yet."""
        self._root = root
        self._path = ""
        self._descriptor = -1

    def of(self, path: str) -> tuple[int, str]:
        """Return the folder of ``path``, by name alone, and the last name; good until the next one is asked for.

        Raises:
            OSError: as :func:`folder_of`.

        """
        names = parts_of(path)
        above = path[: -len(names[-1]) - 1]
        if self._descriptor < 0 or above != self._path:
            self.close()
            self._descriptor = open_beneath(self._root, above or ".", _FOLDER)
            self._path = above
        return self._descriptor, names[-1]

    def close(self) -> None:
        """Release it."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def open_plain(folder: int, name: str) -> tuple[int, os.stat_result]:
    """Open the regular file ``name`` for reading, with its status; nothing else is ever opened.

    First by name alone: a FIFO, a device or a socket meets nobody who opens it.

    Raises:
        OSError: EINVAL where it is no regular file, else as open(2); EAGAIN where somebody has a lease on it.

    """
    seen = open_beneath(folder, name, os.O_PATH)
    try:
        status = os.fstat(seen)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "not a regular file")
        flags = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
        return os.open(f"/proc/self/fd/{seen}", flags), status
    finally:
        os.close(seen)


def status_of(folder: int, name: str) -> os.stat_result | None:
    """Return the status of what has this name, itself and not what a link leads to; None where there is nothing.

    Raises:
        OSError: it can't be told.

    """
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None


def is_absent(folder: int, path: str) -> bool:
    """Tell whether there is surely nothing at ``path`` below ``folder``."""
    try:
        os.close(open_beneath(folder, path, os.O_PATH))
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:
        return False  # something that may not be followed
    return False
