"""What this process sets for itself: whether others of its user may trace it, whether it adopts orphans, its layout."""

from __future__ import annotations

import ctypes
import signal

_PR_SET_PDEATHSIG = 1
_PR_SET_DUMPABLE = 4
_PR_SET_CHILD_SUBREAPER = 36


def set_dumpable(*, dumpable: bool) -> None:
    """Set or clear it; execve(2) sets it again. Raises OSError where the Linux kernel refuses."""
    _set(_PR_SET_DUMPABLE, dumpable, "PR_SET_DUMPABLE")


def die_with_parent() -> None:
    """End by SIGKILL with the parent, from now on. Raises OSError as above."""
    _set(_PR_SET_PDEATHSIG, signal.SIGKILL, "PR_SET_PDEATHSIG")


def adopt_orphans(*, adopts: bool) -> None:
    """Be the parent of descendants whose own parent ends, or leave them to pid 1. Raises OSError as above."""
    _set(_PR_SET_CHILD_SUBREAPER, adopts, "PR_SET_CHILD_SUBREAPER")


def lay_out_as_usual() -> None:
    """Have what is executed from now on laid out in memory as everywhere; this process stays as boot has had it made.

    Where that is refused, boot could not have it made otherwise either.
    """
    ctypes.CDLL(None, use_errno=True).personality(ctypes.c_ulong(0))


def _set(option: int, value: int, name: str) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(option, int(value), 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), f"prctl({name})")
