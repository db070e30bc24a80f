"""Output widgets that capture a cell's outputs: what the host shows is shown outside of them.

``with Output():`` tells clients, by the widget's ``msg_id``, to put all outputs of that request into the widget, shown
or not. What the host has to say must not end in there: it takes the widgets out of the way (each ``msg_id`` is
set to nothing, as at the end of the ``with``), speaks, and puts them back. The publisher keeps the order, so that
there is no race to win. Clients' bookkeeping is simple (nbclient: a stack that is popped unseen), so the worker's
changes are put into the one order that all of them understand: each capture ends before the next of the same widget.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sentinel_kernel.errors import ProtocolError
from sentinel_kernel.kernel.wire import CONTENT, HEADER_BYTES, PARENT, decode, encode, text_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from sentinel_kernel.kernel.wire import Json, Part

_CONTENT_BYTES = 512 * 1024 * 1024
_MOST_DEEP = 20
_MOST = 2000
_MOST_CHARACTERS = 200


class Captures:
    """Knows which widget captures the outputs of which request. ``publish`` sends a message of the host's."""

    def __init__(self, publish: Callable[[str, Json, Part], None]) -> None:
        self._publish = publish
        self._stacks: dict[str, list[str]] = {}
        """msg_id of a request -> the comm ids that capture its outputs, the one that does last."""

        self._requests: dict[str, str] = {}
        """comm id -> the msg_id that it captures."""

    def capture(self, msg_id: str) -> bool:
        """Tell whether a widget may have the outputs of the request."""
        return msg_id in self._stacks

    def worker_message(self, msg_type: str, parts: list[Part]) -> None:
        """Follow a worker's comm message, and bring it into order. Raises ProtocolError where it is to be dropped."""
        raw = bytes(parts[CONTENT])
        if msg_type != "comm_msg":
            if self._requests:
                # A widget that is closed, or replaced by another of its id, could not be taken away any more.
                self._leave(text_of(decode(raw, _CONTENT_BYTES), "comm_id"), parts[PARENT])
            return
        if b"msg_id" not in raw and b"\\u" not in raw:
            return
        content = decode(raw, _CONTENT_BYTES)
        data = content.get("data")
        state = data.get("state") if isinstance(data, dict) else None
        if not isinstance(state, dict) or "msg_id" not in state:
            return
        comm_id, msg_id = content.get("comm_id"), state["msg_id"] or ""
        if not isinstance(comm_id, str) or not isinstance(msg_id, str):
            raise ProtocolError("A widget's request is no text.")
        if max(len(comm_id), len(msg_id)) > _MOST_CHARACTERS:
            raise ProtocolError("A widget's request is too long.")
        if msg_id == self._requests.get(comm_id, ""):
            del state["msg_id"]  # nothing new: a second time some clients would end only one of them
            parts[CONTENT] = encode(content)
            return
        if msg_id and (len(self._requests) >= _MOST or len(self._stacks.get(msg_id, ())) >= _MOST_DEEP):
            raise ProtocolError("Too many widgets capture outputs.")
        self._leave(comm_id, parts[PARENT])
        if msg_id:
            self._requests[comm_id] = msg_id
            self._stacks.setdefault(msg_id, []).append(comm_id)
        else:
            del state["msg_id"]
            parts[CONTENT] = encode(content)

    def outside(self, parent: Part, speak: Callable[[], None]) -> None:
        """Do what publishes outputs of the host's below ``parent``, outside of every widget."""
        stack = self._stacks.get(text_of(decode(parent, HEADER_BYTES), "msg_id"), ()) if self._stacks else ()
        for comm_id in reversed(stack):
            self._set(comm_id, "", parent)
        speak()
        for comm_id in stack:
            self._set(comm_id, self._requests[comm_id], parent)

    def _leave(self, comm_id: str, parent: Part) -> None:
        """End what a widget captures; those that came after it stand aside meanwhile."""
        msg_id = self._requests.pop(comm_id, "")
        if not msg_id:
            return
        stack = self._stacks[msg_id]
        place = stack.index(comm_id)
        for above in reversed(stack[place:]):
            self._set(above, "", parent)
        del stack[place]
        for above in stack[place:]:
            self._set(above, msg_id, parent)
        if not stack:
            del self._stacks[msg_id]

    def _set(self, comm_id: str, msg_id: str, parent: Part) -> None:
        data = {"method": "update", "state": {"msg_id": msg_id}, "buffer_paths": []}
        self._publish("comm_msg", {"comm_id": comm_id, "data": data}, parent)
