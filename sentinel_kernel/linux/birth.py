"""When a file was made, which its writer can't change (statx(2), STATX_BTIME, Linux 4.11)."""

from __future__ import annotations

import ctypes
import os
import struct

from sentinel_kernel.linux.libc import system_call

_AT_SYMLINK_NOFOLLOW = 0x100
_AT_EMPTY_PATH = 0x1000
_STATX_BTIME = 0x800
_LAYOUT_BYTES = 256
# struct statx: stx_mask at 0; stx_btime, a statx_timestamp {s64 seconds, u32 nanoseconds, s32}, at 80.
_BTIME_AT = 80


def birth_ns(folder: int, name: str) -> int:
    """Return when the file ``name`` of ``folder`` was made, in ns since 1970; 0 where its file system does not keep it.

    An empty name is the folder itself. Links are not followed.

    Raises:
        OSError: there is none, or it can't be told.

    """
    buffer = ctypes.create_string_buffer(_LAYOUT_BYTES)
    flags = _AT_SYMLINK_NOFOLLOW if name else _AT_EMPTY_PATH
    system_call("statx", folder, os.fsencode(name), flags, _STATX_BTIME, buffer)
    (known,) = struct.unpack_from("=I", buffer, 0)
    if not known & _STATX_BTIME:
        return 0
    seconds, nanoseconds = struct.unpack_from("=qI", buffer, _BTIME_AT)
    return int(seconds) * 1_000_000_000 + int(nanoseconds)
