"""Sockets of the network outside that stand for one of the sandbox's: made like it, told apart from it, looked at."""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import struct

from sentinel_kernel.policy.network import parse_address
from sentinel_kernel.policy.network_fence import MSG_FASTOPEN
from sentinel_kernel.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

ESTABLISHED, SYN_SENT, CLOSED, CLOSE_WAIT = 1, 2, 7, 8  # <net/tcp_states.h>
_SO_COOKIE, _SO_NETNS_COOKIE, _SO_BUF_LOCK = 57, 71, 72  # <asm-generic/socket.h>
_SNDBUF_LOCK, _RCVBUF_LOCK = 1, 2  # <linux/socket.h>
_INT: Final = 4
_FDINFO_BYTES: Final = 256
"""As much as it takes to have the flags, which are on the second line (proc_pid_fdinfo(5))."""
_TIME: Final = struct.Struct("=qq")
# struct tcp_info of <linux/tcp.h>: u8 state at 0; u64 bytes_acked at 120, bytes_received at 128, bytes_sent at 200,
# bytes_retrans at 208 (Linux 4.19)
_INFO_BYTES, _INFO_COUNTS, _INFO_SENT = 216, 120, 200

_INET, _INET6, _STREAM = int(socket.AF_INET), int(socket.AF_INET6), int(socket.SOCK_STREAM)
_IP, _IPV6, _TCP, _SOL = socket.IPPROTO_IP, socket.IPPROTO_IPV6, socket.IPPROTO_TCP, socket.SOL_SOCKET
_COPIED: Final = (
    (_SOL, socket.SO_KEEPALIVE, _INT),
    (_SOL, socket.SO_LINGER, 8),
    (_SOL, socket.SO_OOBINLINE, _INT),
    (_SOL, socket.SO_PRIORITY, _INT),
    (_SOL, socket.SO_RCVLOWAT, _INT),
    (_SOL, socket.SO_RCVTIMEO, _TIME.size),
    (_SOL, socket.SO_SNDTIMEO, _TIME.size),
    (_TCP, socket.TCP_NODELAY, _INT),
    (_TCP, socket.TCP_CORK, _INT),
    (_TCP, socket.TCP_KEEPIDLE, _INT),
    (_TCP, socket.TCP_KEEPINTVL, _INT),
    (_TCP, socket.TCP_KEEPCNT, _INT),
    (_TCP, socket.TCP_SYNCNT, _INT),
    (_TCP, socket.TCP_LINGER2, _INT),
    (_TCP, socket.TCP_USER_TIMEOUT, _INT),
    (_TCP, socket.TCP_NOTSENT_LOWAT, _INT),
)
_COPIED_4: Final = ((_IP, socket.IP_TOS, _INT), (_IP, socket.IP_TTL, _INT))
_COPIED_6: Final = (
    (_IPV6, socket.IPV6_V6ONLY, _INT),
    (_IPV6, socket.IPV6_TCLASS, _INT),
    (_IPV6, socket.IPV6_UNICAST_HOPS, _INT),
)

_COPIED_BY: Final[dict[int, tuple[tuple[int, int, int], ...]]] = {
    socket.AF_INET: (*_COPIED, *_COPIED_4),
    socket.AF_INET6: (*_COPIED, *_COPIED_6),
}


class Target(Record):
    """An internet address that a program named, as :mod:`socket` takes it."""

    family: int
    address: bytes
    """4 or 16 bytes; IPv4 within IPv6 as 4."""
    port: int
    named: tuple[object, ...]


def read_target(data: bytes, domain: int) -> Target | int:
    """Return where ``data`` (``struct sockaddr_*``) leads for a socket of ``domain``, or the errno of connect(2)."""
    family = int.from_bytes(data[:2], "little")
    if domain == socket.AF_INET:
        if len(data) < 16:
            return errno.EINVAL
        if family != socket.AF_INET:
            return errno.EAFNOSUPPORT
        text = socket.inet_ntop(socket.AF_INET, data[4:8])
        return Target(family, data[4:8], int.from_bytes(data[2:4], "big"), (text, _port(data)))
    if len(data) < 24:  # SIN6_LEN_RFC2133: the scope may be left out
        return errno.EINVAL
    if family != socket.AF_INET6:
        return errno.EAFNOSUPPORT
    text = socket.inet_ntop(socket.AF_INET6, data[8:24])
    scope = int.from_bytes(data[24:28], "little") if len(data) >= 28 else 0
    return Target(family, parse_address(text) or data[8:24], _port(data), (text, _port(data), 0, scope))


def _port(data: bytes) -> int:
    return int.from_bytes(data[2:4], "big")


def network_of(sock: socket.SocketType) -> bytes:
    """Return what tells the network namespace of a socket from all others (SO_NETNS_COOKIE, Linux 5.14)."""
    return sock.getsockopt(_SOL, _SO_NETNS_COOKIE, 8)


def cookie_of(sock: socket.SocketType) -> bytes:
    """Return what tells a socket from all others."""
    return sock.getsockopt(_SOL, _SO_COOKIE, 8)


def is_tcp(sock: socket.SocketType) -> bool:
    """Tell whether it is a plain socket of TCP."""
    return sock.proto == _TCP and sock.type == _STREAM and sock.family in (_INET, _INET6)


def state_of(sock: socket.SocketType) -> int:
    """Return a TCP socket's state (<net/tcp_states.h>)."""
    return sock.getsockopt(_TCP, socket.TCP_INFO, 1)[0]


def counts_of(info: bytes) -> tuple[int, int, bool]:
    """Return bytes out and in of a ``struct tcp_info``, and whether it was established; zeros where it is too short."""
    if len(info) < _INFO_BYTES:
        return 0, 0, True
    acknowledged, received = struct.unpack_from("=QQ", info, _INFO_COUNTS)
    sent, again = struct.unpack_from("=QQ", info, _INFO_SENT)
    return sent - again, received, acknowledged > 0


def patience_of(sock: socket.SocketType) -> float | None:
    """Return how many seconds a connection may take by SO_SNDTIMEO; None: as long as it takes."""
    seconds, microseconds = _TIME.unpack(sock.getsockopt(_SOL, socket.SO_SNDTIMEO, _TIME.size))
    return seconds + microseconds / 1e6 if seconds or microseconds else None


_usual_options: dict[int, list[tuple[int, int, int, int | bytes]]] = {}
"""What a socket of a family has before anybody sets anything: level, name, bytes (0: an int), and the value."""


def _usual(fresh: socket.SocketType) -> list[tuple[int, int, int, int | bytes]]:
    known = _usual_options.get(fresh.family)
    if known is None:
        known = _usual_options[fresh.family] = []
        for level, name, bytes_ in _COPIED_BY[fresh.family]:
            size = 0 if bytes_ == _INT else bytes_
            with contextlib.suppress(OSError):  # this Linux kernel has no such option
                known.append((level, name, size, fresh.getsockopt(level, name, size)))
    return known


def stand_in(own: socket.SocketType) -> socket.SocketType:
    """Return a new, non-blocking socket in this process's network with the options of the sandbox's ``own`` one."""
    made = socket.SocketType(
        own.family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC, _TCP
    )
    asked = own.getsockopt
    for level, name, size, usual in _usual(made):
        wanted = asked(level, name, size)
        if wanted != usual:
            with contextlib.suppress(OSError):
                made.setsockopt(level, name, wanted)
    with contextlib.suppress(OSError):
        locked = asked(_SOL, _SO_BUF_LOCK)
        for bit, name in ((_SNDBUF_LOCK, socket.SO_SNDBUF), (_RCVBUF_LOCK, socket.SO_RCVBUF)):
            if locked & bit:
                made.setsockopt(_SOL, name, asked(_SOL, name) // 2)  # the Linux kernel doubles it
    return made


def connect_inside(own: socket.SocketType, target: Target) -> int:
    """Connect a socket of the sandbox within its own network, without waiting; return 0 or the errno.

    connect(2) would wait or not as the sandbox says at that very moment (O_NONBLOCK is the open file's, and all who
    have it may change it); sending nothing with MSG_FASTOPEN is told with each call not to wait.
    """
    try:
        own.sendto(b"", MSG_FASTOPEN | socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL, target.named)
    except OSError as error:
        return error.errno or errno.EIO
    return 0


def close_on_exec(thread: int, number: int) -> bool:
    """Tell whether a program's descriptor is closed by exec."""
    try:
        file = os.open(f"/proc/{thread}/fdinfo/{number}", os.O_RDONLY | os.O_CLOEXEC)
        try:
            told = os.read(file, _FDINFO_BYTES)
        finally:
            os.close(file)
        return bool(int(told.partition(b"flags:")[2].split(None, 1)[0], 8) & os.O_CLOEXEC)
    except (OSError, ValueError, IndexError):
        return True  # it has gone; nobody will get the socket then
