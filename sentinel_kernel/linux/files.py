"""Opening files of an untrusted tree without ever leaving it (openat2(2), Linux 5.6)."""

from __future__ import annotations

import ctypes
import os
import struct

from sentinel_kernel.abi.openat2 import OPEN_HOW_FORMAT, Resolve
from sentinel_kernel.linux.libc import system_call

_HERE = -100  # AT_FDCWD of <linux/fcntl.h>
_WITHIN = int(Resolve.BENEATH | Resolve.NO_SYMLINKS | Resolve.NO_MAGICLINKS | Resolve.NO_XDEV)


def open_beneath(directory: int, name: str, flags: int) -> int:
    """Open ``name`` below the descriptor ``directory``: no symbolic links, no other mounts, close-on-exec.

    Raises:
        OSError: ELOOP for a link, EXDEV for a path that leaves the tree.

    """
    layout = struct.pack(OPEN_HOW_FORMAT, flags | os.O_CLOEXEC | os.O_NOFOLLOW, 0, _WITHIN)
    return system_call(
        "openat2", directory, os.fsencode(name), ctypes.create_string_buffer(layout, len(layout)), len(layout)
    )


def open_without_links(directory: int, path: str, flags: int) -> int:
    """Open ``path`` below the descriptor ``directory``, across mounts, but through no link; close-on-exec.

    Raises:
        OSError: ELOOP for a link, EXDEV for a path that leaves the tree.

    """
    resolve = Resolve.BENEATH | Resolve.NO_SYMLINKS | Resolve.NO_MAGICLINKS
    layout = struct.pack(OPEN_HOW_FORMAT, flags | os.O_CLOEXEC | os.O_NOFOLLOW, 0, int(resolve))
    return system_call(
        "openat2", directory, os.fsencode(path), ctypes.create_string_buffer(layout, len(layout)), len(layout)
    )


def look_up_beneath(root: int, path: str) -> int:
    """Return a descriptor of what ``path`` leads to, opened by name alone (O_PATH): nothing is read and no device met.

    The descriptor ``root`` is taken as the root, which links can't leave (RESOLVE_IN_ROOT). Links into processes
    (/proc/self/fd/3) are never followed.

    Raises:
        OSError: there is nothing, or it can't be reached.

    """
    resolve = Resolve.NO_MAGICLINKS | Resolve.IN_ROOT
    layout = struct.pack(OPEN_HOW_FORMAT, os.O_PATH | os.O_CLOEXEC, 0, int(resolve))
    return system_call(
        "openat2", root, os.fsencode(path), ctypes.create_string_buffer(layout, len(layout)), len(layout)
    )


def set_times(descriptor: int, times: bytes | None) -> None:
    """Set the times of what is open as ``descriptor`` (perhaps by name alone) to two ``struct timespec``; None: now.

    Raises:
        OSError: it was refused (utimensat(2)).

    """
    path = b"/proc/self/fd/%d" % descriptor
    buffer = None if times is None else ctypes.create_string_buffer(times, len(times))
    system_call("utimensat", _HERE, path, buffer, 0)
