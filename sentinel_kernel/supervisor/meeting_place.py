"""Where the supervisors of a user keep what lives as long as they do, and by which name one waits for its next host.

The host looks here before it has imported anything: nothing but os and stat may be imported.
"""

from __future__ import annotations

import os
import stat

PREFIX = "next-"
_NAME_BYTES = 120


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
    """Return what tells a kernel (its connection file) from the user's others."""
    return os.path.basename(kernel).encode()[:_NAME_BYTES].decode("utf-8", "ignore")


def is_awaited(kernel: str) -> bool:
    """Tell whether a supervisor may wait for the next host of ``kernel``; rendezvous.py finds out whether one does."""
    try:
        names = os.listdir(base_directory())
    except OSError:
        return False
    ending = f"-{own_name(kernel)}"
    return any(name.startswith(PREFIX) and name.endswith(ending) for name in names)
