"""Whether a socket that is to be connected outside is one of datagrams: those reach no host, whatever is allowed."""

from __future__ import annotations

import contextlib
import os
import socket

from sentinel_kernel.linux.process import open_thread, take_file
from sentinel_kernel.supervisor.network.taken import close_file, let_go

TYPE_CHECKING = False
if TYPE_CHECKING:
    from sentinel_kernel.linux.seccomp import Notification

_DESCRIPTOR = 0xFFFFFFFF


def is_of_datagrams(notification: Notification, process: int) -> bool:
    """Tell whether the first argument of a held call is a socket of datagrams of ``process``."""
    with contextlib.suppress(OSError):
        pidfd = open_thread(notification.thread, process)
        try:
            taken = take_file(pidfd, notification.arguments[0] & _DESCRIPTOR)
        finally:
            os.close(pidfd)
        try:
            own = socket.socket(fileno=taken)
        except OSError:
            close_file(taken)
            return False
        kind = own.type
        let_go(own)
        return kind == socket.SOCK_DGRAM
    return False
