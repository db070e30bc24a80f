"""Whether two descriptors of other processes are one open file, or two threads have one table of them (kcmp(2))."""

from __future__ import annotations

import ctypes
import errno
import os

from sentinel_kernel.linux.libc import NUMBERS, call_by_number

_KCMP = NUMBERS["kcmp"]
_KCMP_FILE, _KCMP_FILES = 0, 2  # <linux/kcmp.h>
_GONE = (errno.ESRCH, errno.EBADF)


def compare_files(first: tuple[int, int], second: tuple[int, int]) -> int | None:
    """Return 0 where two (thread, number) are the same open file, else -1 or 1: an order of all that there are.

    None where one of them is gone.

    Raises:
        OSError: it can't be told: EPERM, one is closed to us; ENOSYS, there is no such call.

    """
    found = call_by_number(_KCMP, first[0], second[0], _KCMP_FILE, first[1], second[1])
    if found in (0, 1, 2):
        return (0, -1, 1)[found]
    error = ctypes.get_errno()
    if error in _GONE:
        return None
    raise OSError(error, os.strerror(error))


def shares_table(thread: int, other: int) -> bool:
    """Tell whether two threads have the same table of open files (CLONE_FILES)."""
    return call_by_number(_KCMP, thread, other, _KCMP_FILES, 0, 0) == 0
