"""The first look at a worker's message: frames, type, header and the parent that it claims; no exception but one.

What a message is about, and in whose name it speaks, is not for the worker to say: types are those that a kernel sends
on that channel, the header is the host's where anything in it is out of the ordinary, and the parent header is the one
that the client wrote.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sentinel_kernel.errors import ProtocolError
from sentinel_kernel.kernel.failure_sign import METADATA_KEY
from sentinel_kernel.kernel.known_requests import STATES, KnownRequests
from sentinel_kernel.kernel.well_formed import check_header, read_parent
from sentinel_kernel.kernel.wire import (
    HEADER,
    HEADER_BYTES,
    PARENT,
    PROTOCOL_VERSION,
    decode,
    encode,
    split,
    text_of,
)

if TYPE_CHECKING:
    from sentinel_kernel.kernel.requests import Request
    from sentinel_kernel.kernel.wire import Json, Part

    Admitted = tuple[str, list[Part], list[Part]]

PUBLISHED = frozenset(
    {
        *("status", "execute_input", "execute_result", "stream", "error", "clear_output"),
        *("display_data", "update_display_data", "comm_open", "comm_msg", "comm_close", "debug_event"),
        *("iopub_welcome", "shutdown_reply"),  # not forwarded: they are the host's to say
        METADATA_KEY,  # as these: a report on an error
    }
)
"""All that a kernel publishes (Jupyter messaging 5.4, "Messages on the IOPub channel")."""

_PREFIX = "sentinel-carry-"
"""Of the host's own requests (carrying.py)."""

_VERSIONS = frozenset(f"5.{minor}" for minor in range(20))
_ID_CHARACTERS = 200
_NAME_CHARACTERS = 100
_FIELDS = frozenset({"msg_id", "msg_type", "username", "session", "date", "version"})
_MOST_IDENTITIES = 16


class Firewall:
    """Admits messages. ``session_id`` is what all messages of this kernel bear."""

    def __init__(self, session_id: str) -> None:
        self.known = KnownRequests(_PREFIX)
        self._session_id = session_id
        self._claimed: Part | None = None
        """The parent that was claimed last, and what it came to: a cell's outputs share one."""
        self._parent: Part = b""
        self._parent_id = ""

    def note(self, request: Request) -> None:
        """Take note of a client's request: the worker may answer it."""
        self.known.note(request)
        self._claimed = None

    def admit(self, channel: str, frames: list[Part]) -> Admitted:
        """Return type, identities and parts of a worker's message as it may go on.

        Raises ProtocolError where it may not.
        """
        identities, parts = split(frames)
        if len(identities) > _MOST_IDENTITIES:
            raise ProtocolError("A message has too many identities.")
        header = decode(parts[HEADER], HEADER_BYTES)
        check_header(header, own=True)
        msg_type = text_of(header, "msg_type", 100)
        if not _belongs(channel, msg_type):
            raise ProtocolError(f"No kernel sends {msg_type!r} on {channel}.")
        plain = self._plain(header)
        if plain is not header:
            parts[HEADER] = encode(plain)
        if parts[PARENT] != self._claimed:
            claimed = bytes(parts[PARENT])
            self._parent_id = text_of(read_parent(claimed), "msg_id", HEADER_BYTES)
            self._parent, self._claimed = self.known.parent(self._parent_id), claimed
        parts[PARENT] = self._parent
        return msg_type, identities, parts

    def repeats(self, state: str, generation: int) -> bool:
        """Tell whether the message that was admitted last, a status, says nothing new, or what is not its to say."""
        if state not in STATES:
            return True
        return not self.known.is_first(self._parent_id, state, generation)

    def _plain(self, header: Json) -> Json:
        """Return a header that every client reads: the same one where it is that, else one made of it."""
        if not _is_plain(header["msg_id"], _ID_CHARACTERS):
            raise ProtocolError("A message's id is none.")
        name, version = header.get("username"), header.get("version")
        good = (
            header["session"] == self._session_id
            and isinstance(name, str)
            and _is_plain(name, _NAME_CHARACTERS)
            and isinstance(version, str)
            and version in _VERSIONS
            and isinstance(header.get("date"), str)
            and header.keys() <= _FIELDS
        )
        if good:
            return header
        plain = {
            "msg_id": header["msg_id"],
            "msg_type": header["msg_type"],
            "username": name if isinstance(name, str) and _is_plain(name, _NAME_CHARACTERS) else "kernel",
            "session": self._session_id,
            # Clients take another version's messages apart by that one's rules (jupyter_client.adapter).
            "version": PROTOCOL_VERSION,
        }
        if isinstance(header.get("date"), str):
            plain["date"] = header["date"]
        return plain


def _is_plain(text: str, most: int) -> bool:
    return len(text) <= most and text.isascii() and text.isprintable()


def _belongs(channel: str, msg_type: str) -> bool:
    """Tell whether kernels send such messages on the channel."""
    if channel == "iopub":
        return msg_type in PUBLISHED
    if channel == "stdin":
        return msg_type == "input_request"
    return msg_type.endswith("_reply") and _is_plain(msg_type, _NAME_CHARACTERS)
