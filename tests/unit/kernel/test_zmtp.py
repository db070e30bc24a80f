"""The ZMTP reader keeps only what its limits allow, whatever bytes come, and speaks with libzmq."""

from __future__ import annotations

import contextlib
import gc
import socket
import threading
from typing import TYPE_CHECKING

import pytest
import zmq
from hypothesis import given, settings
from hypothesis import strategies as st

from sentinel_kernel.errors import ProtocolError
from sentinel_kernel.kernel.large_frame import Ledger
from sentinel_kernel.kernel.zmtp import COMMAND, LONG, MORE, Decoder, Limits, Stream

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

GREETING = b"\xff\0\0\0\0\0\0\0\1\x7f\x03\x01NULL" + bytes(48)
READY_BODY = b"\x05READY\x0bSocket-Type\0\0\0\x01X"
READY = bytes((COMMAND, len(READY_BODY))) + READY_BODY
SMALL = Limits(frames=8, message_bytes=1_000_000, command_bytes=64)


def frame(data: bytes, flags: int = 0) -> bytes:
    if len(data) < 256 and not flags & LONG:
        return bytes((flags, len(data))) + data
    return bytes((flags | LONG,)) + len(data).to_bytes(8, "big") + data


def message(frames: list[bytes]) -> bytes:
    return b"".join(frame(data, MORE) for data in frames[:-1]) + frame(frames[-1])


def feed(decoder: Decoder, data: bytes, chunk: int = 1 << 30) -> list[list[bytes]]:
    """Give ``data`` in chunks, as a socket would, and return what came out."""
    position = 0
    while position < len(data):
        room = decoder.room()
        count = min(len(room), chunk, len(data) - position)
        assert count > 0
        room[:count] = data[position : position + count]
        del room
        decoder.received(count)
        position += count
    return [[bytes(part) for part in parts] for parts in decoder.messages]


def decoder(limits: Limits = SMALL) -> Decoder:
    return Decoder(limits, Ledger(), lambda _name, _body: None)


@settings(deadline=None)
@given(
    st.lists(st.lists(st.binary(max_size=700) | st.sampled_from([b"a" * 40_000, b"b" * 70_000]), min_size=1,
                      max_size=8), max_size=4),
    st.integers(min_value=1, max_value=90_000),
)  # fmt: skip
def test_messages_come_out_as_they_went_in_however_they_are_cut(sent: list[list[bytes]], chunk: int) -> None:
    data = GREETING + READY + b"".join(map(message, sent))
    assert feed(decoder(), data, max(chunk, len(data) // 2000)) == sent


@given(st.binary(max_size=2000), st.sampled_from([b"", GREETING, GREETING + READY]))
def test_any_bytes_give_messages_or_a_protocol_error(data: bytes, start: bytes) -> None:
    with contextlib.suppress(ProtocolError):
        feed(decoder(), start + data)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"\0" * 64, "ZMTP 3"),
        (GREETING.replace(b"NULL", b"CURV"), "mechanism"),
        (GREETING + frame(b"early"), "before the handshake"),
        (GREETING + READY + READY, "twice"),
        (GREETING + frame(b"\4PINGxx", COMMAND), "not READY"),
        (GREETING + READY + b"\x08\x00", "flags 0x8"),
        (GREETING + READY + b"\x05\x00", "flags 0x5"),
        (GREETING + READY + frame(b"", COMMAND), "without a name"),
        (GREETING + READY + frame(b"\x09PING", COMMAND), "without a name"),
        (GREETING + READY + frame(b"\4PING" + bytes(80), COMMAND), "command of 85 bytes"),
        (GREETING + READY + frame(b"a", MORE) + frame(b"\4PING", COMMAND), "inside a message"),
        (GREETING + READY + frame(b"", MORE) * 9, "more than 8 frames"),
        (GREETING + READY + b"\x02" + b"\x7f" + b"\xff" * 7, "more than 1000000 bytes"),
        (GREETING + READY + (frame(b"x" * 300_000, MORE)) * 4, "more than 1000000 bytes"),
    ],
)
def test_a_breach_of_the_protocol_or_a_limit_is_named(data: bytes, reason: str) -> None:
    with pytest.raises(ProtocolError, match=reason):
        feed(decoder(), data)


def test_memory_grows_with_the_bytes_that_came_not_with_those_announced() -> None:
    reader = decoder(Limits())
    feed(reader, GREETING + READY + b"\x02" + (400 << 20).to_bytes(8, "big") + bytes(300_000))
    assert reader._block is not None
    assert (
        len(reader._block._memory) <= 8 * 300_000
    )  # of address space: no page of it exists before its bytes


def test_the_ledger_counts_large_frames_until_the_last_user_lets_go() -> None:
    ledger = Ledger()
    reader = Decoder(Limits(), ledger, lambda _name, _body: None)
    feed(reader, GREETING + READY + message([b"id", b"z" * 2_000_000]))
    kept = reader.messages.popleft()[1]
    assert ledger.live_bytes == 2_000_000
    del kept
    gc.collect()
    assert ledger.live_bytes == 0


def test_many_small_frames_of_one_large_message_are_counted_too() -> None:
    ledger = Ledger()
    reader = Decoder(Limits(), ledger, lambda _name, _body: None)
    sent = [bytes([n % 251]) * 1000 for n in range(500)] + [b""]
    assert feed(reader, GREETING + READY + message(sent)) == [sent]
    assert ledger.live_bytes == 500_000


@pytest.fixture
def context() -> Iterator[zmq.Context[zmq.Socket[bytes]]]:
    context = zmq.Context()
    yield context
    context.destroy(linger=0)


def connect(path: Path) -> socket.socket:
    sock = socket.socket(socket.AF_UNIX)
    sock.connect(str(path))
    return sock


def listen(context: zmq.Context[zmq.Socket[bytes]], kind: int, path: Path) -> zmq.Socket[bytes]:
    """Return a libzmq socket that takes over a listening unix socket, as the worker's do."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    listener.listen(4)
    sock = context.socket(kind)
    sock.setsockopt(zmq.USE_FD, listener.detach())
    sock.bind("ipc:///not/used")
    return sock


def pump(stream: Stream, want: int = 1) -> list[list[bytes]]:
    """Read until ``want`` messages are there (or forever: the test's timeout ends it)."""
    stream._socket.settimeout(20)
    while len(stream.messages) < want:
        assert stream.receive()
    stream._socket.setblocking(False)
    return [[bytes(part) for part in parts] for parts in stream.messages]


def test_a_dealer_talks_with_a_router_of_libzmq(
    context: zmq.Context[zmq.Socket[bytes]], tmp_path: Path
) -> None:
    router = listen(context, zmq.ROUTER, tmp_path / "s")
    stream = Stream(connect(tmp_path / "s"), "DEALER", Limits(), Ledger(), b"host")
    stream.send([b"early", b""])
    echo = threading.Thread(target=lambda: [router.send_multipart(router.recv_multipart()) for _ in range(3)])
    echo.start()
    assert pump(stream) == [[b"early", b""]]
    stream.messages.clear()
    big = [b"x" * 255, b"y" * 256, b"z" * 3_000_000]
    stream.send(big)
    stream.send([b"last"])
    while stream.wants_write:
        stream.flush()
    assert pump(stream, 2) == [big, [b"last"]]
    echo.join()
    router.close()
    assert stream.pending_bytes == 0
    stream.close()


def test_a_subscriber_gets_what_libzmq_publishes(
    context: zmq.Context[zmq.Socket[bytes]], tmp_path: Path
) -> None:
    publisher = listen(context, zmq.XPUB, tmp_path / "s")
    stream = Stream(connect(tmp_path / "s"), "SUB", Limits(), Ledger())
    stream.send([b"\x01"])
    while not stream.established:
        stream.receive()
    assert publisher.recv() == b"\x01"
    publisher.send_multipart([b"topic", b"text"])
    assert pump(stream) == [[b"topic", b"text"]]
    publisher.close()
    stream.close()


def test_a_ping_is_answered_once_and_a_flood_of_them_keeps_nothing() -> None:
    left, right = socket.socketpair()
    stream = Stream(left, "DEALER", SMALL, Ledger())
    right.sendall(GREETING + READY + frame(b"\4PING\0\0context", COMMAND))
    assert stream.receive()
    assert right.recv(1000).endswith(frame(b"\4PONGcontext", COMMAND))
    for _ in range(300):
        right.send(frame(b"\4PING\0\0", COMMAND) * 500)
        while stream.receive():
            pass
    assert stream.pending_bytes < 100
    stream.close()
    right.close()


def test_a_peer_that_does_not_read_blocks_nothing_and_the_end_is_seen() -> None:
    left, right = socket.socketpair()
    stream = Stream(left, "DEALER", SMALL, Ledger())
    right.sendall(GREETING + READY)
    assert stream.receive()
    for _ in range(100):
        stream.send([b"x" * 100_000])
    assert stream.wants_write
    assert stream.pending_bytes > 7_000_000
    right.close()
    stream.flush()
    with pytest.raises(EOFError):
        stream.receive()
    assert not stream.wants_write
    stream.close()
