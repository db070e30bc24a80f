"""Changes what cells see through the overlay itself: a file put there, removed, or the host's brought back.

It is done as the sandbox's own user, so that nothing can be changed that cells could not change.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat

from sentinel_kernel.linux.acting import acting_as
from sentinel_kernel.linux.files import open_beneath
from sentinel_kernel.policy.committable import UNFINISHED
from sentinel_kernel.workspace import change as kinds
from sentinel_kernel.workspace.copying import copy_data
from sentinel_kernel.workspace.giving_up import Settled, give_up
from sentinel_kernel.workspace.layer import folder_of, open_plain, parts_of, status_of
from sentinel_kernel.workspace.marks import key_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from sentinel_kernel.workspace.change import Change
    from sentinel_kernel.workspace.layer import Layer


def discard(layer: Layer, change: Change) -> None:
    """Make cells see the host's file again, or none where it has none; what they wrote there is gone.

    A new folder has to be empty by then: what is in it is discarded first.

    Raises:
        OSError: it could not be done; what cells see is the old, the new, or no file at all.

    """
    show_host(layer, change.path, gone=change.kind == kinds.DELETED)


def show_host(layer: Layer, path: str, *, gone: bool = False) -> None:
    """Make cells see the host's file again, whatever they have there (``gone``: nothing). Raises OSError."""
    if not gone:
        remove(layer, path)
    # What is left of a file that the host has as well is a whiteout: given up, the host's is seen again.
    with contextlib.suppress(OSError), folder_of(layer.lower, path) as (folder, name):
        status = status_of(folder, name)
        if status is not None:
            give_up(layer, [Settled(path, key_of(status))])
    _bring_back(layer, path)


def _bring_back(layer: Layer, path: str) -> None:
    """Copy the host's file where cells still see none: somebody uses the folder as it was."""
    try:
        with folder_of(layer.lower, path) as (folder, name):
            host = status_of(folder, name)
            if host is None:
                return
            with contextlib.suppress(OSError), folder_of(layer.merged, path) as (seen, last):
                if status_of(seen, last) is not None:
                    return
            if not stat.S_ISREG(host.st_mode):
                raise OSError(errno.EBUSY, os.strerror(errno.EBUSY))
            source, status = open_plain(folder, name)
    except (FileNotFoundError, NotADirectoryError):
        return
    try:
        put(layer, path, source, status.st_mode, status.st_mtime_ns)
    finally:
        os.close(source)


def put(layer: Layer, path: str, source: int, mode: int, mtime_ns: int) -> None:
    """Make cells see the content of the open file ``source`` at ``path``, in one step; folders are made as needed.

    Raises:
        OSError: it could not be done; what they see is the old or the new.

    """
    folder_path, _, _ = path.rpartition("/")
    if folder_path:
        make_folder(layer, folder_path)
    size = os.fstat(source).st_size
    with folder_of(layer.merged, path) as (folder, name), acting_as(layer.writer):
        unfinished = f"{UNFINISHED[0]}{os.urandom(8).hex()}{UNFINISHED[1]}"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        writer = os.open(unfinished, flags, 0o600, dir_fd=folder)
        try:
            copy_data(source, writer, size)
            os.fchmod(writer, mode & 0o777)
            os.utime(writer, ns=(mtime_ns, mtime_ns))
            os.rename(unfinished, name, src_dir_fd=folder, dst_dir_fd=folder)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(unfinished, dir_fd=folder)
            raise
        finally:
            os.close(writer)


def remove(layer: Layer, path: str) -> None:
    """Remove a file, or an empty folder, from what cells see. Raises OSError (none where it is gone already)."""
    try:
        with folder_of(layer.merged, path) as (folder, name):
            status = status_of(folder, name)
            if status is None:
                return
            with acting_as(layer.writer):
                if stat.S_ISDIR(status.st_mode):
                    os.rmdir(name, dir_fd=folder)
                else:
                    os.unlink(name, dir_fd=folder)
    except FileNotFoundError:
        return


def make_folder(layer: Layer, path: str) -> None:
    """Make a folder, and those above it, in what cells see. Raises OSError."""
    descriptor = open_beneath(layer.merged, ".", os.O_PATH | os.O_DIRECTORY)
    try:
        for name in parts_of(path):
            with acting_as(layer.writer), contextlib.suppress(FileExistsError):
                os.mkdir(name, 0o777, dir_fd=descriptor)
            inner = open_beneath(descriptor, name, os.O_PATH | os.O_DIRECTORY)
            os.close(descriptor)
            descriptor = inner
    finally:
        os.close(descriptor)
