"""The first look at a worker's message: what it claims as its parent is read, also where nothing was claimed before."""

from __future__ import annotations

import pytest

from sentinel_kernel.errors import ProtocolError
from sentinel_kernel.kernel.firewall import Firewall
from sentinel_kernel.kernel.requests import Request
from sentinel_kernel.kernel.wire import DELIMITER, encode

REQUEST = Request("shell", [], [b"", b'{"msg_id":"r"}', b"{}", b"{}", b"{}"], "r", "execute_request", "")


def stream(parent: bytes) -> list[bytes]:
    header = encode({"msg_id": "m", "msg_type": "stream", "session": "s", "version": "5.4"})
    return [b"stream", DELIMITER, b"", header, parent, b"{}", b"{}"]


def test_an_empty_parent_frame_is_none() -> None:
    firewall = Firewall("s")
    with pytest.raises(ProtocolError):
        firewall.admit("iopub", stream(b""))
    firewall.note(REQUEST)
    with pytest.raises(ProtocolError):
        firewall.admit("iopub", stream(b""))
    _, _, parts = firewall.admit("iopub", stream(b'{"msg_id":"r"}'))  # positive control
    assert parts[2] == b'{"msg_id":"r"}'
    firewall.note(REQUEST)
    with pytest.raises(ProtocolError):
        firewall.admit("iopub", stream(b""))
