"""The worker's end of the hop from the host: the kernel sees the identities of the clients, and no other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import zmq

if TYPE_CHECKING:
    from collections.abc import Sequence

HOST = b"host"
"""The name under which the host connects (kernel/inner.py says the same)."""


class HopSocket(zmq.Socket[bytes]):
    """A ROUTER that is used through here alone: the host's name is not in what it returns and is given.

    `Kernel._parent_ident` is what extensions read, and a cell's reply goes to whoever it names. A peer of another
    name, such as the debugger's, is passed on as it is.
    """

    _others: frozenset[bytes] = frozenset()

    def recv_multipart(  # type: ignore[override]  # pyzmq's has an overload for each value of `copy`
        self, flags: int = 0, *, copy: bool = True, track: bool = False
    ) -> list[Any]:
        """Return a message's frames, without the host's name."""
        frames: list[Any] = super().recv_multipart(flags, copy=copy, track=track)
        first: bytes = frames[0] if copy else frames[0].bytes
        if first == HOST:
            del frames[0]
        elif first not in self._others:
            self._others |= {first}
        return frames

    def send_multipart(
        self,
        msg_parts: Sequence[Any],
        flags: int = 0,
        copy: bool = True,
        track: bool = False,
        **kwargs: Any,  # noqa: ANN401 - pyzmq's own
    ) -> Any:  # noqa: ANN401 - what pyzmq returns
        """Send a message to the host, or to the other peer that its first frame names."""
        if bytes(msg_parts[0]) not in self._others:
            msg_parts = [HOST, *msg_parts]
        return super().send_multipart(msg_parts, flags, copy, track, **kwargs)
