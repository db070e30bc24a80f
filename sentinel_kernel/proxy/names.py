"""Names that the proxy looks up: each once for a while, and not as many as one likes."""

from __future__ import annotations

import asyncio
import socket
import time

from sentinel_kernel.policy.network import plain_address

_KEPT_SECONDS, _KEPT_NONE_SECONDS = 60.0, 5.0
_MOST_NAMES = 1024
_MOST_ADDRESSES = 8
_BURST, _A_SECOND = 60, 1.0
"""As for names that programs look up: a name may carry something to who answers for it."""


class TooMany(Exception):
    """More names were asked for than are looked up."""


class Names:
    """The names of one proxy."""

    def __init__(self) -> None:
        """Know nothing yet."""
        self._known: dict[str, tuple[float, list[bytes]]] = {}
        self._tokens = float(_BURST)
        self._counted = time.monotonic()

    async def look_up(self, name: str) -> list[bytes]:
        """Return the addresses of ``name``, 4 or 16 bytes each; none where there is no such name.

        Raises:
            TooMany: of late too many other names were looked up.
            OSError: nobody can tell now.

        """
        now = time.monotonic()
        until, addresses = self._known.get(name, (0.0, []))
        if now < until:
            return addresses
        self._tokens = min(float(_BURST), self._tokens + (now - self._counted) * _A_SECOND)
        self._counted = now
        if self._tokens < 1.0:
            raise TooMany
        self._tokens -= 1.0
        addresses = await _ask(name)
        if len(self._known) >= _MOST_NAMES:
            self._known.clear()
        self._known[name] = (now + (_KEPT_SECONDS if addresses else _KEPT_NONE_SECONDS), addresses)
        return addresses


async def _ask(name: str) -> list[bytes]:
    loop = asyncio.get_running_loop()
    found = []
    # With the dot at its end first: no domain of this machine's own is tried behind it. /etc/hosts knows no such dot.
    for asked in (f"{name}.", name):
        try:
            found = await loop.getaddrinfo(asked, None, type=socket.SOCK_STREAM)
            break
        except socket.gaierror as error:
            if error.errno not in (socket.EAI_NONAME, socket.EAI_NODATA):
                raise
    packed = {}
    for family, _, _, _, where in found:
        if family in (socket.AF_INET, socket.AF_INET6):
            packed[plain_address(socket.inet_pton(family, str(where[0]).partition("%")[0]))] = True
    return list(packed)[:_MOST_ADDRESSES]
