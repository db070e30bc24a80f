"""Reads socket addresses (``struct sockaddr_*``) that came from the sandbox; total for any bytes."""

from __future__ import annotations

import socket

from sentinel_kernel.abi.socket import (
    AF_INET,
    AF_INET6,
    AF_UNIX,
    FAMILIES,
    SOCKADDR_IN6_BYTES,
    SOCKADDR_IN_BYTES,
    SOCKADDR_STORAGE_BYTES,
)
from sentinel_kernel.policy.text import shown
from sentinel_kernel.record import Record

LOCAL = "local"
"""Not of the internet: unix, netlink, or AF_UNSPEC, which takes a connection back."""
LOOPBACK = "loopback"
NAME_LOOKUP = "name-lookup"
"""The port of name servers on loopback: resolv.conf of the sandbox leads there, and nobody answers."""
OUTSIDE = "outside"
UNREADABLE = "unreadable"

_NAME_SERVER_PORT = 53


class Address(Record):
    """One address. ``numeric`` is ours (digits and dots), ``text`` may hold what the sandbox wrote."""

    family: str
    reach: str
    numeric: str
    text: str


def read_address(data: bytes) -> Address:
    """Return the address in ``data``; never raises."""
    data = data[:SOCKADDR_STORAGE_BYTES]
    if len(data) < 2:  # sizeof(sa_family_t)
        return Address("", UNREADABLE, "", "unreadable address")
    number = int.from_bytes(data[:2], "little")  # sa_family is in host order; both machines are little-endian
    family = FAMILIES.get(number, f"family {number}")
    if number == AF_UNIX:
        return Address(family, LOCAL, "", _unix_path(data[2:]))
    if number == AF_INET and len(data) >= SOCKADDR_IN_BYTES:
        return _internet(family, socket.AF_INET, data[4:8], int.from_bytes(data[2:4], "big"))
    if number == AF_INET6 and len(data) >= SOCKADDR_IN6_BYTES:
        return _internet(family, socket.AF_INET6, data[8:24], int.from_bytes(data[2:4], "big"))
    if number in (AF_INET, AF_INET6):
        return Address(family, UNREADABLE, "", f"{family}, cut short")
    return Address(family, LOCAL, "", family)


def _internet(family: str, kind: int, host: bytes, port: int) -> Address:
    numeric = socket.inet_ntop(kind, host)
    shown_address = f"[{numeric}]:{port}" if kind == socket.AF_INET6 else f"{numeric}:{port}"
    reach = OUTSIDE
    if _is_loopback(host):
        reach = NAME_LOOKUP if port == _NAME_SERVER_PORT else LOOPBACK
    return Address(family, reach, shown_address, shown_address)


def _is_loopback(host: bytes) -> bool:
    """Tell whether the Linux kernel takes ``host`` to this machine: loopback, or the unspecified address."""
    mapped = bytes(10) + b"\xff\xff"
    if len(host) == len(mapped) + 4:
        if host.startswith(mapped):
            host = host[len(mapped) :]
        else:
            return host[:15] == bytes(15) and host[15] in (0, 1)
    return host[0] == 127 or host == bytes(4)  # 127.0.0.0/8


def _unix_path(path: bytes) -> str:
    if not path:
        return "unnamed"
    if path[0] == 0:
        return "@" + shown(path[1:])
    return shown(path.partition(b"\0")[0])
