"""Sending events to the host without ever letting a slow host hold up the sandbox for long."""

from __future__ import annotations

import select
import socket
import struct

from sentinel_kernel.errors import ProtocolError
from sentinel_kernel.supervisor import protocol

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

_CREDENTIALS = struct.Struct("3i")
_EVENT_MILLISECONDS = 5000
_VIOLATION_MILLISECONDS = 50


class HostLink:
    """The supervisor's end of the control socket."""

    def __init__(self, sock: socket.socket) -> None:
        """Take over ``sock`` and make it non-blocking."""
        self.sock = sock
        sock.setblocking(False)
        self.gone = False
        self._poll = select.poll()
        self._poll.register(sock, select.POLLOUT)

    @property
    def pid(self) -> int:
        """Return the process that made the connection: the host (SO_PEERCRED, unix(7))."""
        credentials = self.sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        return int(_CREDENTIALS.unpack(credentials)[0])

    def event(self, name: str, fields: dict[str, Any] | None = None, descriptors: Sequence[int] = ()) -> None:
        """Send one event; a host that takes nothing for 5 s counts as gone."""
        if not self._send({"event": name, **(fields or {})}, descriptors, _EVENT_MILLISECONDS):
            self.gone = True

    def reply(self, identifier: object, *, ok: bool, fields: dict[str, Any] | None = None) -> None:
        """Answer one request."""
        self.event(protocol.EVENT_REPLY, {"id": identifier, "ok": ok, **(fields or {})})

    def violation(self, fields: dict[str, Any]) -> bool:
        """Send a violation; False where the host does not take it within 50 ms: a held call must not wait longer."""
        return self._send({"event": protocol.EVENT_VIOLATION, **fields}, (), _VIOLATION_MILLISECONDS)

    def receive(self) -> dict[str, Any] | None:
        """Return the next request, or None when there is none now; sets ``gone`` at the end."""
        try:
            packet = protocol.receive(self.sock)
        except BlockingIOError:
            return None
        except OSError:
            packet = None
        if packet is None:
            self.gone = True
            return None
        message, descriptors = packet
        if message.get("op") == protocol.OP_START and descriptors:
            message["descriptors"] = descriptors
        else:
            for descriptor in descriptors:
                socket.close(descriptor)
        return message

    def _send(self, message: dict[str, Any], descriptors: Sequence[int], milliseconds: int) -> bool:
        if self.gone:
            return False
        while True:
            try:
                protocol.send(self.sock, message, descriptors)
            except ProtocolError as error:
                if message["event"] != protocol.EVENT_REPLY:
                    return bool(
                        message["event"] != protocol.EVENT_VIOLATION
                    )  # what nobody waits for is not told
                short = {"code": "failed", "message": str(error)}
                message = {"event": protocol.EVENT_REPLY, "id": message["id"], "ok": False, **short}
                descriptors = ()
            except BlockingIOError:
                if not self._poll.poll(milliseconds):
                    return False
            except OSError:
                self.gone = True
                return False
            else:
                return True
