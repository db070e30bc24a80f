"""Held calls on sockets other than connecting: binding, listening, asking for devices, done in the program's stead.

A socket of the network outside takes none of them, so that nobody is reached, and nobody is let in.
"""

from __future__ import annotations

import errno
import socket

from sentinel_kernel.linux.memory import read_memory, write_memory
from sentinel_kernel.linux.network import ask_device
from sentinel_kernel.policy.network_fence import ASKED_OF_DEVICES, HARMLESS_REQUESTS, answer_to_option
from sentinel_kernel.supervisor.network.sockets import is_tcp, network_of, read_target

TYPE_CHECKING = False
if TYPE_CHECKING:
    from sentinel_kernel.linux.seccomp import Listener, Notification
    from sentinel_kernel.policy.request import Request

_ADDRESS = 1
_IFREQ_BYTES = 40
_FIRST_FREE_PORT = 1024


class SocketCalls:
    """Answers bind, listen, setsockopt and ioctl; ``False`` has a call go on."""

    def __init__(self, listener: Listener, outside: bytes) -> None:
        """Answer through ``listener``; ``outside`` is the network that the sandbox is not in."""
        self._listener = listener
        self._outside = outside

    def answer(self, name: str, notification: Notification, request: Request, own: socket.SocketType) -> bool:
        """Answer one call on a socket that was taken out of the program's table."""
        if name == "bind":
            return self._bind(notification, request, own)
        if name == "listen":
            return self._listen(notification, own)
        return self._ask_device(notification, own)

    def _error(self, notification: Notification, number: int) -> bool:
        self._listener.refuse(notification.id, number)
        return True

    def _bind(self, notification: Notification, request: Request, own: socket.SocketType) -> bool:
        if not is_tcp(own):
            return False  # within the sandbox's own network, or its files
        if network_of(own) == self._outside:
            return self._error(notification, errno.EINVAL)
        data = request.copied.get(_ADDRESS, b"")
        if own.family == socket.AF_INET and data[:2] == b"\0\0" and data[4:8] == bytes(4):
            data = socket.AF_INET.to_bytes(2, "little") + data[2:]  # as old programs leave it out (ip(7))
        target = read_target(data, own.family)
        if isinstance(target, int):
            return self._error(notification, target)
        if 0 < target.port < _FIRST_FREE_PORT:
            return self._error(notification, errno.EACCES)  # here it would be the supervisor who asks
        try:
            own.bind(target.named)
        except OSError as error:
            return self._error(notification, error.errno or errno.EINVAL)
        self._listener.answer(notification.id, 0)
        return True

    def _listen(self, notification: Notification, own: socket.SocketType) -> bool:
        if network_of(own) == self._outside:
            return self._error(notification, errno.EINVAL)
        try:
            own.listen(max(0, signed(notification.arguments[1])))
        except OSError as error:
            return self._error(notification, error.errno or errno.EINVAL)
        self._listener.answer(notification.id, 0)
        return True

    def set_option(self, notification: Notification) -> bool:
        """Refuse options that lead a connection elsewhere, or in; registers tell."""
        level, name = (argument & 0xFFFFFFFF for argument in notification.arguments[1:3])
        number = answer_to_option(level, name)
        return self._error(notification, number) if number else False

    def _ask_device(self, notification: Notification, own: socket.SocketType) -> bool:
        wanted, where = notification.arguments[1] & 0xFFFFFFFF, notification.arguments[2]
        if wanted in HARMLESS_REQUESTS:
            return False
        if wanted not in ASKED_OF_DEVICES or network_of(own) == self._outside:
            return self._error(notification, errno.EPERM)
        number = errno.EFAULT
        try:
            asked = read_memory(notification.thread, where, _IFREQ_BYTES)
            if not self._listener.is_valid(notification.id):
                return True
            if len(asked) == _IFREQ_BYTES:
                answer = ask_device(own.fileno(), wanted, asked)
                number = 0 if write_memory(notification.thread, where, answer) else errno.EFAULT
        except OSError as error:
            number = error.errno or errno.EINVAL
        if number:
            return self._error(notification, number)
        self._listener.answer(notification.id, 0)
        return True


def signed(argument: int) -> int:
    """Return a register as the int that it is to the call."""
    value = argument & 0xFFFFFFFF
    return value - (1 << 32) if value & 0x80000000 else value
