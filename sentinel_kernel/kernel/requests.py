"""A client's request as the host keeps it: where it came from, its frames as they came, and its header."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sentinel_kernel.errors import ProtocolError
from sentinel_kernel.kernel.wire import CONTENT, HEADER, HEADER_BYTES, decode, split
from sentinel_kernel.record import MutableRecord

if TYPE_CHECKING:
    from sentinel_kernel.kernel.wire import Json, Part, Session

CONTENT_BYTES = 64 * 1024 * 1024
"""The longest content that the host itself reads, a cell's source for one."""


class Request(MutableRecord):
    """One accepted message of a client. ``parts`` begin with the signature (see wire.py)."""

    channel: str
    identities: list[Part]
    parts: list[Part]
    msg_id: str
    msg_type: str
    subshell_id: str
    source: int = -1
    """The connection that it came by (zmq_msg_get(3), ZMQ_SRCFD), of a cell; else -1."""

    @property
    def header(self) -> Part:
        """The header's frame, which is the parent header of every answer."""
        return self.parts[HEADER]

    def content(self) -> Json:
        """Return the content. Raises ProtocolError."""
        return decode(self.parts[CONTENT], CONTENT_BYTES)


def read_request(channel: str, frames: list[Part], session: Session) -> Request:
    """Return the request in a client's frames. Raises ProtocolError where it is malformed or not signed."""
    identities, parts = split(frames)
    if not session.accepts(parts):
        raise ProtocolError("A message has a wrong signature, or one that was seen before.")
    header = decode(parts[HEADER], HEADER_BYTES)
    msg_id, msg_type, subshell = header.get("msg_id"), header.get("msg_type"), header.get("subshell_id")
    if not isinstance(msg_id, str) or not isinstance(msg_type, str):
        raise ProtocolError("A header has no msg_id or no msg_type.")
    return Request(
        channel, identities, parts, msg_id, msg_type, subshell if isinstance(subshell, str) else ""
    )
