"""The control socket keeps messages and descriptors together and names every malformed packet."""

from __future__ import annotations

import array
import json
import os
import socket
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sentinel_kernel.errors import ProtocolError
from sentinel_kernel.supervisor import protocol

if TYPE_CHECKING:
    from collections.abc import Iterator

Pair = tuple[socket.socket, socket.socket]


@pytest.fixture
def pair() -> Iterator[Pair]:
    """Return a connected pair like the one between host and supervisor."""
    left, right = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with left, right:
        yield left, right


def _open_fds() -> int:
    return len(os.listdir("/proc/self/fd"))


def test_a_message_arrives_as_it_was_sent_with_its_descriptors(pair: Pair) -> None:
    """Message boundaries hold, and a passed descriptor is the same open file, close-on-exec."""
    reader, writer = os.pipe()
    protocol.send(pair[0], {"op": "start", "id": 1, "text": "日本 \x00"}, [writer])
    protocol.send(pair[0], {"op": "stop", "id": 2})
    os.close(writer)
    first = protocol.receive(pair[1])
    assert first is not None
    message, fds = first
    assert message == {"op": "start", "id": 1, "text": "日本 \x00"}
    assert len(fds) == 1
    assert not os.get_inheritable(fds[0])
    os.write(fds[0], b"same pipe")
    assert os.read(reader, 100) == b"same pipe"
    assert protocol.receive(pair[1]) == ({"op": "stop", "id": 2}, [])
    os.close(fds[0])
    os.close(reader)


def test_the_end_of_the_peer_is_none_and_a_send_to_it_is_an_error(pair: Pair) -> None:
    """EOF is told apart from a message; writing to a closed peer raises and sends no SIGPIPE."""
    protocol.send(pair[1], {"op": "unread", "id": 1})
    protocol.send(pair[0], {"event": "last words"})
    pair[0].close()
    assert protocol.receive(pair[1]) == ({"event": "last words"}, [])
    assert protocol.receive(pair[1]) is None
    assert protocol.receive(pair[1]) is None
    with pytest.raises(OSError, match=r"pipe|reset"):
        protocol.send(pair[1], {"op": "stop", "id": 1})


def test_a_non_blocking_socket_with_nothing_to_read_says_so(pair: Pair) -> None:
    """The host drains the socket until BlockingIOError."""
    pair[0].setblocking(False)
    with pytest.raises(BlockingIOError):
        protocol.receive(pair[0])


def test_the_longest_message_fits_and_a_longer_one_is_refused_before_sending(pair: Pair) -> None:
    """The bound is the same on both sides."""
    overhead = len(json.dumps({"t": ""}, separators=(",", ":")))
    text = "x" * (protocol.MAXIMUM_PACKET_BYTES - overhead)
    protocol.send(pair[0], {"t": text})
    assert protocol.receive(pair[1]) == ({"t": text}, [])
    with pytest.raises(ProtocolError):
        protocol.send(pair[0], {"t": text + "x"})
    with pytest.raises(ProtocolError):
        protocol.send(pair[0], {}, [0] * (protocol.MAXIMUM_DESCRIPTORS + 1))


@pytest.mark.parametrize(
    "packet",
    [
        b"{",
        b"[]",
        b"null",
        b"\xff\xfe",
        b"[" * 100_000,
        b" " * (protocol.MAXIMUM_PACKET_BYTES + 1),
        b'{"a":1}{}',
    ],
)
def test_a_malformed_packet_is_a_protocol_error_and_leaks_no_descriptor(pair: Pair, packet: bytes) -> None:
    """Descriptors of a packet that is refused are closed."""
    before = _open_fds()
    rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [0]))]
    pair[0].sendmsg([packet], rights)
    with pytest.raises(ProtocolError):
        protocol.receive(pair[1])
    assert _open_fds() == before


def test_more_descriptors_than_allowed_are_a_protocol_error_and_leak_none(pair: Pair) -> None:
    """The Linux kernel cuts the list; what it did install is closed."""
    before = _open_fds()
    rights = [
        (socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [0] * (protocol.MAXIMUM_DESCRIPTORS + 8)))
    ]
    pair[0].sendmsg([b"{}"], rights)
    with pytest.raises(ProtocolError):
        protocol.receive(pair[1])
    assert _open_fds() == before


@given(st.binary(max_size=400))
def test_any_packet_gives_a_message_or_a_protocol_error(packet: bytes) -> None:
    """Nothing else may leave receive(), whatever the bytes."""
    left, right = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with left, right:
        left.send(packet)
        try:
            answer = protocol.receive(right)
        except ProtocolError:
            return
        assert answer is None or isinstance(answer[0], dict)
