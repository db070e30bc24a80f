"""Advisory record locks that the Linux kernel releases when their owner dies (fcntl(2), F_SETLK)."""

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
