"""File leases: whether anybody has a file open, and a say before somebody opens it (fcntl(2), F_SETLEASE).

Whoever opens the file against a lease waits until it is given back, /proc/sys/fs/lease-break-time (45 s) at most. Who
holds one must ignore SIGIO, which tells of that and ends a process else.
"""

from __future__ import annotations

import fcntl


def take_lease(descriptor: int, *, alone: bool) -> bool:
    """Take a lease on an open file of one's own; False where that can't be had.

    ``alone`` asks that nobody else has it open at all, maps it, or opens it from now on; else that nobody has it open
    for writing. ``descriptor`` is open for reading alone.
    """
    try:
        fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_WRLCK if alone else fcntl.F_RDLCK)
    except OSError:
        return False
    return True


def is_kept(descriptor: int, *, alone: bool) -> bool:
    """Tell whether the lease still holds and nobody waits for its end."""
    return fcntl.fcntl(descriptor, fcntl.F_GETLEASE) == (fcntl.F_WRLCK if alone else fcntl.F_RDLCK)


def release_lease(descriptor: int) -> None:
    """Give the lease back; who waits for that goes on. Closing the descriptor does the same."""
    try:
        fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_UNLCK)
    except OSError:
        return  # the Linux kernel took it away after the time that it grants
