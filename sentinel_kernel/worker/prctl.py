"""Whether processes of the same user may trace this one (prctl(2), PR_SET_DUMPABLE)."""

from __future__ import annotations

import ctypes

_PR_SET_DUMPABLE = 4


def set_dumpable(*, dumpable: bool) -> None:
    """Set or clear it; execve(2) sets it again. Raises OSError where the Linux kernel refuses."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_DUMPABLE, int(dumpable), 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_DUMPABLE)")
