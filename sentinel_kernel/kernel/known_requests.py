"""The requests that clients have made: what a worker's message may name as its parent, and be about only once.

A parent header decides into which cell a client puts an output. The worker names one by its msg_id; which header that
is, byte for byte, is the host's to say.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

from sentinel_kernel.kernel.wire import encode

if TYPE_CHECKING:
    from sentinel_kernel.kernel.requests import Request
    from sentinel_kernel.kernel.wire import Part

STATES = frozenset({"busy", "idle", "starting"})
"""What a worker may say of itself. Clients give up a kernel that says ``dead``; the others are the host's words."""

MOST = 10_000
MOST_BYTES = 16 * 1024 * 1024
"""Of headers that are remembered: a thread of a cell long gone may still speak."""

_NONE = b"{}"


class KnownRequests:
    """Remembers the headers of the newest requests. ``own_prefix`` is of msg_ids that the host itself makes up."""

    def __init__(self, own_prefix: str) -> None:
        self._own_prefix = own_prefix
        self._headers: OrderedDict[str, bytes] = OrderedDict()
        self._bytes = 0
        self._told: dict[str, set[str]] = {}
        """msg_id -> the states that the worker has told for it; "" for none of a request."""
        self._generation = -1

    def note(self, request: Request) -> None:
        """Take note of a client's request."""
        msg_id, header = request.msg_id, bytes(request.header)
        self._forget(msg_id)
        self._headers[msg_id] = header
        self._bytes += len(header)
        while len(self._headers) > MOST or self._bytes > MOST_BYTES:
            self._forget(next(iter(self._headers)))

    def parent(self, msg_id: str) -> Part:
        """Return the header of the request ``msg_id``, as its client wrote it; an empty one where none is known."""
        header = self._headers.get(msg_id)
        if header is None:
            return encode({"msg_id": msg_id}) if msg_id.startswith(self._own_prefix) else _NONE
        return header

    def is_first(self, msg_id: str, state: str, generation: int) -> bool:
        """Tell whether the worker says for the first time that it is in ``state`` for a request, or for none.

        ipykernel says each once. A flood of states is counted by no limit of a cell's, and clients act on every one.
        """
        if generation != self._generation:
            self._generation = generation
            self._told.pop("", None)
        told = self._told.setdefault(msg_id if msg_id in self._headers else "", set())
        first = state not in told
        told.add(state)
        return first

    def _forget(self, msg_id: str) -> None:
        self._bytes -= len(self._headers.pop(msg_id, b""))
        self._told.pop(msg_id, None)
