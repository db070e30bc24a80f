"""Being told by the Linux kernel that something in a folder has changed (inotify(7))."""

from __future__ import annotations

import os
import struct

from sentinel_kernel.linux.libc import LIBC, checked

# <linux/inotify.h>
IN_MODIFY, IN_ATTRIB = 0x2, 0x4
IN_MOVED_FROM, IN_MOVED_TO, IN_CREATE, IN_DELETE = 0x40, 0x80, 0x100, 0x200
IN_DELETE_SELF, IN_MOVE_SELF = 0x400, 0x800
IN_UNMOUNT, IN_Q_OVERFLOW, IN_IGNORED = 0x2000, 0x4000, 0x8000
IN_ONLYDIR, IN_ISDIR = 0x0100_0000, 0x4000_0000

_CHANGES = (
    IN_MODIFY
    | IN_ATTRIB
    | IN_MOVED_FROM
    | IN_MOVED_TO
    | IN_CREATE
    | IN_DELETE
    | IN_DELETE_SELF
    | IN_MOVE_SELF
)
_HEAD = struct.Struct("iIII")
_READ_BYTES = 1 << 16


def make_watch() -> int:
    """Return a descriptor that tells of changes; reading it never waits.

    Raises:
        OSError: EMFILE beyond the user's share.

    """
    return checked(LIBC.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC), "inotify_init1")


def watch_folder(watch: int, folder: int) -> None:
    """Have ``watch`` tell of what changes in the folder of a descriptor, not in those below it.

    Raises:
        OSError: ENOSPC beyond the user's share of watches, ENOTDIR where it is no folder.

    """
    path = f"/proc/self/fd/{folder}".encode()
    checked(LIBC.inotify_add_watch(watch, path, _CHANGES | IN_ONLYDIR), "inotify_add_watch")


def watch_new_files(watch: int, folder: int) -> None:
    """Have ``watch`` tell of what is made in the folder of a descriptor. Raises OSError as above."""
    path = f"/proc/self/fd/{folder}".encode()
    checked(LIBC.inotify_add_watch(watch, path, IN_CREATE | IN_ONLYDIR), "inotify_add_watch")


def names_of(watch: int) -> list[bytes]:
    """Return the names that one read tells of; none: nothing was made. Raises OSError."""
    try:
        data = os.read(watch, _READ_BYTES)
    except BlockingIOError:
        return []
    names, at = [], 0
    while at < len(data):
        *_, length = _HEAD.unpack_from(data, at)
        at += _HEAD.size + length
        names.append(data[at - length : at].rstrip(b"\0"))
    return names


def changes_of(watch: int, most_reads: int) -> int:
    """Return the masks of all that has changed since the last call, put together; 0: nothing has.

    IN_Q_OVERFLOW is among them where there was more than so many reads take. Raises OSError.
    """
    found = 0
    for _ in range(most_reads):
        try:
            data = os.read(watch, _READ_BYTES)
        except BlockingIOError:
            return found
        at = 0
        while at < len(data):
            _, mask, _, length = _HEAD.unpack_from(data, at)
            found |= mask
            at += _HEAD.size + length
    return found | IN_Q_OVERFLOW
