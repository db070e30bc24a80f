"""Where the supervisors of a user keep what lives as long as they do, and by which name one waits for its next host.

The host looks here before it has imported anything: nothing but os and stat may be imported.
"""

from __future__ import annotations

import os
import stat

PREFIX = "next-"
_FNV_START, _FNV_PRIME, _FNV_MASK = 0xCBF29CE484222325, 0x100000001B3, (1 << 64) - 1


def base_directory() -> str:
    """Return the folder of what supervisors make for themselves; it need not exist."""
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    if runtime and os.path.isdir(runtime) and os.access(runtime, os.W_OK, effective_ids=True):
        return os.path.join(runtime, "sentinel-kernel")
    return os.path.join(os.environ.get("TMPDIR") or "/tmp", f"sentinel-kernel-{os.geteuid()}")


def is_private(directory: str) -> bool:
    """Tell whether ``directory`` is a folder of the user's own that nobody else can enter."""
    try:
        status = os.lstat(directory)
    except OSError:
        return False
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid() and not status.st_mode & 0o077


def own_name(kernel: str) -> str:
    """Return what tells a kernel (its connection file's path) from the user's others: FNV-1a of 64 bits, as hex digits.

    However long and whatever it is, as a socket's name must be short (unix(7)). Of use against chance alone: only the
    user can make names here. hashlib would take longer to import than this does.
    """
    value = _FNV_START
    for byte in os.fsencode(kernel):
        value = (value ^ byte) * _FNV_PRIME & _FNV_MASK
    return f"{value:016x}"


def is_awaited(kernel: str) -> bool:
    """Tell whether a supervisor may wait for the next host of ``kernel``; rendezvous.py finds out whether one does."""
    try:
        names = [name for name in os.listdir(base_directory()) if name.startswith(PREFIX)]
    except OSError:
        return False
    return bool(names) and any(name.endswith(f"-{own_name(kernel)}") for name in names)
