"""Ports for servers that take one by its number, which nothing else is given meanwhile."""

from __future__ import annotations

import contextlib
import random
import socket
from pathlib import Path

_FIRST = 10_000


def free_ports(count: int) -> list[int]:
    """Return ports of loopback that are free, below those that Linux gives to who asks for any (ip(7)).

    A kernel that starts beside the test asks for any: a port of those may be its own before the server listens.
    """
    given_from = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    found: list[int] = []
    with contextlib.ExitStack() as held:
        for port in random.sample(range(_FIRST, given_from), given_from - _FIRST):
            with contextlib.suppress(OSError):
                held.enter_context(socket.create_server(("127.0.0.1", port)))
                found.append(port)
            if len(found) == count:
                return found
    raise OSError(f"there are no {count} free ports from {_FIRST} to {given_from - 1}")
