"""Looking a path up without ever leaving this machine's own file systems: no server, no automounter is asked."""

from __future__ import annotations

import ctypes
import errno
import os
import stat
import sys

from sentinel_kernel.abi.local_file_systems import LOCAL
from sentinel_kernel.linux.libc import system_call

_FLAGS = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
_STATFS_BYTES = 256
"""More than struct statfs has; its first word is the file system's number (statfs(2))."""

_WORD_BYTES = 8
_MOST_LINKS = 40
"""As path_resolution(7) has it."""


def look_up_local(path: str) -> int:
    """Return a descriptor of what the absolute ``path`` leads to, opened by name alone (O_PATH).

    Each name is looked up in a folder that was looked at before: none is sent to a server, and none has anything
    mounted, as it would in the folders of an automounter.

    Raises:
        OSError: there is nothing, or it can't be reached; EXDEV: the way leads into a file system of elsewhere.

    """
    at = os.open("/", _FLAGS)
    names, links = path.split("/")[::-1], 0
    try:
        require_local(at)
        while names:
            name = names.pop()
            if name in ("", "."):
                continue
            target = _link(at, name)
            if target is not None:
                links += 1
                _require(errno.ELOOP, holds=links <= _MOST_LINKS)
                names += target.split("/")[::-1]
                if not target.startswith("/"):
                    continue
                name = "/"
            found = os.open(name, _FLAGS, dir_fd=at)
            os.close(at)
            at = found
            require_local(at)
    except BaseException:
        os.close(at)
        raise
    return at


def require_local(descriptor: int) -> None:
    """Look at the file system that a descriptor is of.

    Raises:
        OSError: EXDEV: it is none of this machine's own, or not known to be one.

    """
    layout = ctypes.create_string_buffer(_STATFS_BYTES)
    system_call("fstatfs", descriptor, layout)
    _require(errno.EXDEV, holds=int.from_bytes(layout.raw[:_WORD_BYTES], sys.byteorder) in LOCAL)


def _require(number: int, *, holds: bool) -> None:
    if not holds:
        raise OSError(number, os.strerror(number))


def _link(at: int, name: str) -> str | None:
    """Return where a link leads; None where it is none."""
    found = os.open(name, _FLAGS, dir_fd=at)
    try:
        require_local(found)
        return os.readlink("", dir_fd=found) if stat.S_ISLNK(os.fstat(found).st_mode) else None
    finally:
        os.close(found)
