"""Advisory locks that the Linux kernel releases when their owner dies (fcntl(2), F_SETLK; flock(2))."""

from __future__ import annotations

import errno
import fcntl


def try_lock_byte(descriptor: int, offset: int) -> bool:
    """Lock the byte ``offset`` of an open file for this process; False where another process has it."""
    try:
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, offset)
    except OSError as error:
        if error.errno in (errno.EACCES, errno.EAGAIN):
            return False
        raise
    return True


def unlock_byte(descriptor: int, offset: int) -> None:
    """Release the lock on the byte ``offset``."""
    fcntl.lockf(descriptor, fcntl.LOCK_UN, 1, offset)


def try_lock_whole(descriptor: int) -> bool:
    """Lock an open file or folder (flock(2)) for all who share this descriptor; False where somebody else has it."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def try_share_whole(descriptor: int) -> bool:
    """Lock as above together with others who share it; False where somebody has it alone."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def lock_whole(descriptor: int) -> None:
    """Lock an open file or folder as above, once nobody else has it."""
    fcntl.flock(descriptor, fcntl.LOCK_EX)
