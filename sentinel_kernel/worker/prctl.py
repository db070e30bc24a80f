"""What prctl(2) sets for this process: whether others of its user may trace it, and whether it adopts orphans."""

from __future__ import annotations

import ctypes

_PR_SET_DUMPABLE = 4
_PR_SET_CHILD_SUBREAPER = 36


def set_dumpable(*, dumpable: bool) -> None:
    """Set or clear it; execve(2) sets it again. Raises OSError where the Linux kernel refuses."""
    _set(_PR_SET_DUMPABLE, dumpable, "PR_SET_DUMPABLE")


def adopt_orphans(*, adopts: bool) -> None:
    """Be the parent of descendants whose own parent ends, or leave them to pid 1. Raises OSError as above."""
    _set(_PR_SET_CHILD_SUBREAPER, adopts, "PR_SET_CHILD_SUBREAPER")


def _set(option: int, value: bool, name: str) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(option, int(value), 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), f"prctl({name})")
