"""Interfaces of this process's network namespace (netdevice(7))."""

from __future__ import annotations

import fcntl
import socket
import struct

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
