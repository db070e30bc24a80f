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

MOST_CELLS, MOST_OTHERS = 4_000, 1_000
"""How many are remembered that have ended: a thread of a cell long gone may still speak. Half a KiB each."""

MOST_BYTES = 8 * 1024 * 1024
"""Of the headers of either."""

MOST_OPEN, MOST_OPEN_BYTES = 20_000, 64 * 1024 * 1024
"""How many of either may be without their end: more than wait and are with the worker together (execution.py).

One of them that is forgotten is never answered. What the host has answered itself stays among them until it is old.
"""

_NONE = b"{}"
_IN_TURN = frozenset({"busy", "idle"})
"""The states that a worker tells for a request; what has been told of both needs no account any more."""


class _Headers:
    """Headers by msg_id, oldest first, and how many bytes they are."""

    def __init__(self) -> None:
        self.by_id: OrderedDict[str, bytes] = OrderedDict()
        self.bytes = 0

    def add(self, msg_id: str, header: bytes) -> None:
        self.by_id[msg_id] = header
        self.bytes += len(header)

    def take(self, msg_id: str) -> bytes:
        header = self.by_id.pop(msg_id, b"")
        self.bytes -= len(header)
        return header

    def oldest_beyond(self, most: int, most_bytes: int) -> list[str]:
        """Return the oldest where these are more than ``most``, or more bytes; nothing where they are not."""
        return [next(iter(self.by_id))] if len(self.by_id) > most or self.bytes > most_bytes else []


class _Newest:
    """The headers of the newest requests of a kind, and what the worker may still say of each."""

    def __init__(self, most: int) -> None:
        self.open, self.ended = _Headers(), _Headers()
        self.told: dict[str, frozenset[str]] = {}
        """msg_id -> the states that were told, until all were."""
        self._most = most

    def header(self, msg_id: str) -> bytes | None:
        return self.open.by_id.get(msg_id) or self.ended.by_id.get(msg_id)

    def note(self, msg_id: str, header: bytes) -> None:
        self.forget(msg_id)
        self.open.add(msg_id, header)
        self.told[msg_id] = frozenset()
        while oldest := self.open.oldest_beyond(MOST_OPEN, MOST_OPEN_BYTES):
            self.forget(*oldest)

    def forget(self, msg_id: str) -> None:
        self.open.take(msg_id)
        self.ended.take(msg_id)
        self.told.pop(msg_id, None)

    def is_first(self, msg_id: str, state: str) -> bool:
        told = self.told.get(msg_id)
        if told is None or state in told:
            return False
        if told | {state} >= _IN_TURN:
            self._end(msg_id)
        else:
            self.told[msg_id] = told | {state}
        return True

    def _end(self, msg_id: str) -> None:
        del self.told[msg_id]
        self.ended.add(msg_id, self.open.take(msg_id))
        while oldest := self.ended.oldest_beyond(self._most, MOST_BYTES):
            self.ended.take(*oldest)


class KnownRequests:
    """Remembers the headers of the newest requests. ``own_prefix`` is of msg_ids that the host itself makes up."""

    def __init__(self, own_prefix: str) -> None:
        self._own_prefix = own_prefix
        self._cells, self._others = _Newest(MOST_CELLS), _Newest(MOST_OTHERS)
        self._told_of_none: set[str] = set()
        """The states that the worker has told for no request."""
        self._generation = -1

    def note(self, request: Request) -> None:
        """Take note of a client's request."""
        is_cell = request.msg_type == "execute_request"
        keeps, other = (self._cells, self._others) if is_cell else (self._others, self._cells)
        other.forget(request.msg_id)
        keeps.note(request.msg_id, bytes(request.header))

    def parent(self, msg_id: str) -> Part:
        """Return the header of the request ``msg_id``, as its client wrote it; an empty one where none is known."""
        header = self._cells.header(msg_id) or self._others.header(msg_id)
        if header is None:
            return encode({"msg_id": msg_id}) if msg_id.startswith(self._own_prefix) else _NONE
        return header

    def is_first(self, msg_id: str, state: str, generation: int) -> bool:
        """Tell whether the worker says for the first time that it is in ``state`` for a request, or for none.

        ipykernel says each once. A flood of states is counted by no limit of a cell's, and clients act on every one.
        """
        for newest in (self._cells, self._others):
            if newest.header(msg_id) is not None:
                return newest.is_first(msg_id, state)
        if generation != self._generation:
            self._generation = generation
            self._told_of_none.clear()
        first = state not in self._told_of_none
        self._told_of_none.add(state)
        return first
