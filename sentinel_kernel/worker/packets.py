"""Packets on init's control socket: one JSON object each, file descriptors beside it (unix(7), SCM_RIGHTS)."""

from __future__ import annotations

import json
import socket
from typing import Any

_MAXIMUM_BYTES = 65536
_MAXIMUM_DESCRIPTORS = 8


def send(control: socket.socket, event: str, **fields: Any) -> None:  # noqa: ANN401 - JSON
    """Send one event to the supervisor."""
    control.send(json.dumps({"event": event, **fields}).encode(), socket.MSG_NOSIGNAL)


def receive(control: socket.socket) -> tuple[dict[str, Any], list[int]] | None:
    """Return the supervisor's next request and its descriptors; None where the supervisor is gone."""
    try:
        packet, descriptors, _, _ = socket.recv_fds(
            control, _MAXIMUM_BYTES, _MAXIMUM_DESCRIPTORS, socket.MSG_CMSG_CLOEXEC
        )
    except ConnectionResetError:  # gone with packets of ours unread
        return None
    return (json.loads(packet), list(descriptors)) if packet else None
