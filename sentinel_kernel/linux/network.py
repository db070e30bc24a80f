"""Interfaces, addresses and ends of connections of a network namespace (netdevice(7), rtnetlink(7), sock_diag(7))."""

from __future__ import annotations

import errno
import fcntl
import os
import socket
import struct
import sys

from sentinel_kernel.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_SIOCGIFFLAGS = 0x8913
_SIOCSIFFLAGS = 0x8914
_IFF_UP = 1
# struct ifreq: name[16], short flags, padding to 40 bytes
_IFREQ_FORMAT = "16sH22x"


def bring_loopback_up() -> None:
    """Set ``lo`` up; needs CAP_NET_ADMIN in the network namespace's user namespace."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        request = fcntl.ioctl(probe, _SIOCGIFFLAGS, struct.pack(_IFREQ_FORMAT, b"lo", 0))
        flags = struct.unpack(_IFREQ_FORMAT, request)[1]
        fcntl.ioctl(probe, _SIOCSIFFLAGS, struct.pack(_IFREQ_FORMAT, b"lo", flags | _IFF_UP))


def ask_device(descriptor: int, request: int, ifreq: bytes) -> bytes:
    """Return the ``struct ifreq`` that ``request`` (SIOCGIF*) makes of ``ifreq``, in the socket's own network.

    Raises:
        OSError: as netdevice(7) says.

    """
    return fcntl.ioctl(descriptor, request, ifreq)


_NLMSG = struct.Struct("=IHHII")  # struct nlmsghdr: length, type, flags, sequence, port
_RTM_GETADDR, _RTM_NEWADDR, _NLMSG_DONE, _NLMSG_ERROR = 22, 20, 3, 2
_NLM_F_REQUEST_DUMP, _NLM_F_REQUEST_ACK = 0x1 | 0x300, 0x1 | 0x4
_IFADDRMSG = struct.Struct("=BBBBI")
_ATTRIBUTE = struct.Struct("=HH")
_IFA_ADDRESS, _IFA_LOCAL = 1, 2
_READ_BYTES = 65536


def own_addresses() -> frozenset[bytes]:
    """Return all addresses of this machine's devices, in 4 or 16 bytes; of this process's network namespace.

    Raises:
        OSError: netlink is refused.

    """
    found = set()
    with socket.socket(
        socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, socket.NETLINK_ROUTE
    ) as asked:
        asked.settimeout(1.0)  # the Linux kernel answers at once, within the call
        request = _IFADDRMSG.pack(socket.AF_UNSPEC, 0, 0, 0, 0)
        asked.send(_NLMSG.pack(_NLMSG.size + len(request), _RTM_GETADDR, _NLM_F_REQUEST_DUMP, 1, 0) + request)
        while True:
            packet = asked.recv(_READ_BYTES)
            kinds = set()
            for kind, body in _messages(packet):
                kinds.add(kind)
                if kind == _RTM_NEWADDR:
                    for name, value in _attributes(body[_IFADDRMSG.size :]):
                        if name in (_IFA_ADDRESS, _IFA_LOCAL):
                            found.add(value)
            if not kinds or kinds & {_NLMSG_DONE, _NLMSG_ERROR}:
                return frozenset(found)


_RTM_NEWROUTE, _RTM_GETROUTE, _RTA_DST = 24, 26, 1
_RTMSG = struct.Struct("=BBBBBBBBI")  # struct rtmsg: family, bits of destination and source ..., type, flags
_ROUTE_TYPE, _RTN_LOCAL, _RTN_ANYCAST = 7, 2, 4


def local_among(addresses: Iterable[bytes]) -> frozenset[bytes]:
    """Return which of ``addresses`` (4 or 16 bytes) lead to this machine itself now, in this process's namespace.

    Those are more than :func:`own_addresses`: a route of the type ``local`` makes a whole range the machine's own.

    Raises:
        OSError: netlink is refused.

    """
    with socket.socket(
        socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, socket.NETLINK_ROUTE
    ) as asked:
        asked.settimeout(1.0)  # as above
        return frozenset(address for address in addresses if _is_local(asked, address))


def _is_local(asked: socket.socket, address: bytes) -> bool:
    """Tell whether the route to ``address`` ends here; where there is none, it does not."""
    family = socket.AF_INET if len(address) == 4 else socket.AF_INET6
    request = _RTMSG.pack(family, len(address) * 8, 0, 0, 0, 0, 0, 0, 0)
    request += _ATTRIBUTE.pack(_ATTRIBUTE.size + len(address), _RTA_DST) + address
    asked.send(_NLMSG.pack(_NLMSG.size + len(request), _RTM_GETROUTE, 0x1, 1, 0) + request)
    return any(
        kind == _RTM_NEWROUTE and len(body) >= _RTMSG.size and body[_ROUTE_TYPE] in (_RTN_LOCAL, _RTN_ANYCAST)
        for kind, body in _messages(asked.recv(_READ_BYTES))
    )


_NETLINK_SOCK_DIAG, _SOCK_DIAG_BY_FAMILY, _SOCK_DESTROY = 4, 20, 21  # <linux/netlink.h>, <linux/sock_diag.h>
_SKNLGRP_INET_TCP_DESTROY, _SKNLGRP_INET6_TCP_DESTROY = 1, 3
# struct inet_diag_msg of <linux/inet_diag.h>: the socket's id is at 4, its last part, the cookie, at 44, the inode at
# 68, and the attributes begin at 72
_ID, _COOKIE, _INODE, _DIAG_BYTES, _INET_DIAG_INFO = slice(4, 52), slice(44, 52), slice(68, 72), 72, 2
_DIAG_REQUEST = struct.Struct(
    "=BBBxI48s"
)  # struct inet_diag_req_v2: family, protocol, extensions, states, id
_LIVE_STATES = 0xFFF & ~(1 << 6 | 1 << 7 | 1 << 10)
"""Of <net/tcp_states.h> all but TIME_WAIT and CLOSE, whose ends were told, and LISTEN."""


def watch_ends() -> socket.socket:
    """Return a socket that tells of each TCP socket of this network namespace that is no more (sock_diag(7)).

    Raises:
        OSError: the Linux kernel does not tell (INET_DIAG is not built in).

    """
    watching = socket.socket(
        socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC, _NETLINK_SOCK_DIAG
    )
    try:
        groups = (_SKNLGRP_INET_TCP_DESTROY, _SKNLGRP_INET6_TCP_DESTROY)
        watching.bind((0, sum(1 << (group - 1) for group in groups)))
        watching.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
    except OSError:
        watching.close()
        raise
    return watching


def read_ends(watching: socket.socket) -> Iterator[tuple[bytes, bytes]]:
    """Yield (cookie, ``struct tcp_info``) of sockets that have ended, as far as was told by now; bounded.

    An empty cookie: some ends were missed, and :func:`live_sockets` has what is there still.
    """
    for _ in range(64):
        try:
            packet = watching.recv(_READ_BYTES)
        except BlockingIOError:
            return
        except OSError:
            yield b"", b""  # ENOBUFS
            continue
        for kind, body in _messages(packet):
            if kind == _SOCK_DIAG_BY_FAMILY and len(body) >= _DIAG_BYTES:
                info = next(
                    (value for name, value in _attributes(body[_DIAG_BYTES:]) if name == _INET_DIAG_INFO), b""
                )
                yield body[_COOKIE], info


class LiveSocket(Record):
    """A TCP socket of this network namespace; ``inode`` is 0 where no program has it any more."""

    family: int
    id: bytes
    """``struct inet_diag_sockid``."""
    inode: int


def live_sockets() -> dict[bytes, LiveSocket]:
    """Return this network namespace's TCP sockets that are connecting, connected or closing, by their cookies.

    Raises:
        OSError: the Linux kernel does not tell, or no descriptor is free.

    """
    found = {}
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, _NETLINK_SOCK_DIAG) as asked:
        asked.settimeout(1.0)  # as above
        for family in (socket.AF_INET, socket.AF_INET6):
            request = _DIAG_REQUEST.pack(family, socket.IPPROTO_TCP, 0, _LIVE_STATES, bytes(48))
            head = (_NLMSG.size + len(request), _SOCK_DIAG_BY_FAMILY, _NLM_F_REQUEST_DUMP, 1, 0)
            asked.send(_NLMSG.pack(*head) + request)
            kinds: set[int] = set()
            while not kinds & {_NLMSG_DONE, _NLMSG_ERROR}:
                kinds = set()
                for kind, body in _messages(asked.recv(_READ_BYTES)):
                    kinds.add(kind)
                    if kind == _SOCK_DIAG_BY_FAMILY and len(body) >= _DIAG_BYTES:
                        inode = int.from_bytes(body[_INODE], sys.byteorder)
                        found[body[_COOKIE]] = LiveSocket(body[0], body[_ID], inode)
            if _NLMSG_ERROR in kinds:
                raise OSError(errno.EOPNOTSUPP, "sock_diag(7) lists no sockets")
    return found


def end_socket(one: LiveSocket) -> None:
    """End a TCP socket of this network namespace, whoever has it (SOCK_DESTROY of <linux/sock_diag.h>).

    Raises:
        OSError: EPERM, without CAP_NET_ADMIN; EOPNOTSUPP, the Linux kernel was built without it; ENOENT, it is gone.

    """
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, _NETLINK_SOCK_DIAG) as asked:
        asked.settimeout(1.0)  # as above
        request = _DIAG_REQUEST.pack(one.family, socket.IPPROTO_TCP, 0, 0xFFFFFFFF, one.id)
        head = (_NLMSG.size + len(request), _SOCK_DESTROY, _NLM_F_REQUEST_ACK, 1, 0)
        asked.send(_NLMSG.pack(*head) + request)
        for kind, body in _messages(asked.recv(_READ_BYTES)):
            if kind == _NLMSG_ERROR and (number := -int.from_bytes(body[:4], sys.byteorder, signed=True)):
                raise OSError(number, os.strerror(number))


def _messages(packet: bytes) -> Iterator[tuple[int, bytes]]:
    position = 0
    while position + _NLMSG.size <= len(packet):
        length, kind, *_ = _NLMSG.unpack_from(packet, position)
        if length < _NLMSG.size:
            return
        yield kind, packet[position + _NLMSG.size : position + length]
        position += (length + 3) & ~3


def _attributes(data: bytes) -> Iterator[tuple[int, bytes]]:
    position = 0
    while position + _ATTRIBUTE.size <= len(data):
        length, name = _ATTRIBUTE.unpack_from(data, position)
        if length < _ATTRIBUTE.size:
            return
        yield name, data[position + _ATTRIBUTE.size : position + length]
        position += (length + 3) & ~3
