"""Whether a socket that is to be connected outside is one of datagrams: those reach no host, whatever is allowed."""

from __future__ import annotations

import contextlib
import socket

from sentinel_kernel.supervisor.network.taken import held, take_socket

TYPE_CHECKING = False
if TYPE_CHECKING:
    from sentinel_kernel.linux.seccomp import Notification

_DESCRIPTOR = 0xFFFFFFFF


def is_of_datagrams(notification: Notification, process: int) -> bool:
    """Tell whether the first argument of a held call is a socket of datagrams of ``process``."""
    with contextlib.suppress(OSError):
        own = take_socket(notification.thread, process, notification.arguments[0] & _DESCRIPTOR)
        if own is None:
            return False
        with held(own):
            return own.type == socket.SOCK_DGRAM
    return False
