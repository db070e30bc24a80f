"""The worker's own publisher, heard by libzmq."""

from __future__ import annotations

import array
import os
import socket
import threading
from typing import TYPE_CHECKING, Any

import pytest
import zmq
from tornado.ioloop import IOLoop

from sentinel_kernel.worker.publication import PublicationSocket

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

SECONDS = 30
LARGE = 3_000_000


class Publishing:
    """A publisher with its loop in a thread, and one libzmq subscriber."""

    def __init__(self, folder: Path) -> None:
        path = folder / "iopub"
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(str(path))
        listener.listen(1)
        self.context: zmq.Context[Any] = zmq.Context()
        self.publisher = PublicationSocket(listener.detach(), self.context)
        self.subscribed = threading.Event()
        self._made = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()
        assert self._made.wait(SECONDS)
        self.subscriber = self.context.socket(zmq.SUB)
        self.subscriber.rcvhwm = 1  # what it does not read stays with the publisher
        self.subscriber.subscribe(b"")
        self.subscriber.connect(f"ipc://{path}")

    def _run(self) -> None:
        self.loop = IOLoop(make_current=False)
        self.publisher.watch(
            self.loop,
            lambda: self.loop.add_callback(self.publisher.drain),
            lambda _topic: self.subscribed.set(),
        )
        self._made.set()
        self.loop.start()
        self.loop.close(all_fds=True)

    def in_loop(self, call: Callable[[], None]) -> None:
        """Call in the loop's thread, and wait for it."""
        done = threading.Event()
        self.loop.add_callback(lambda: (call(), done.set()))
        assert done.wait(SECONDS)

    def receive(self) -> list[bytes]:
        """Return the next message."""
        assert self.subscriber.poll(SECONDS * 1000)
        return self.subscriber.recv_multipart()

    def stop_loop(self) -> None:
        """End the thread, as IOPub's is at the worker's end."""
        if self._thread.is_alive():
            self.loop.add_callback(self.loop.stop)
            self._thread.join(SECONDS)

    def close(self) -> None:
        """End everything."""
        self.stop_loop()
        self.publisher.close(linger=0)
        self.context.destroy(linger=0)


@pytest.fixture
def publishing(tmp_path: Path) -> Iterator[Publishing]:
    made = Publishing(tmp_path)
    yield made
    made.close()


def test_who_has_not_subscribed_gets_nothing_and_who_has_is_reported(publishing: Publishing) -> None:
    assert publishing.subscribed.wait(SECONDS)
    publishing.publisher.send_multipart([b"topic", b"heard"])
    assert publishing.receive() == [b"topic", b"heard"]


def test_frames_of_every_size_and_kind_arrive_whole_and_in_order(publishing: Publishing) -> None:
    assert publishing.subscribed.wait(SECONDS)
    data = os.urandom(LARGE)
    grid = memoryview(bytes(range(6))).cast("B", (2, 3))
    sent: list[list[Any]] = [
        [b"", b"x" * 255, b"y" * 256],
        [b"t", data],
        [b"t", data[:32_768], data[:32_769], b"", b"end"],
        [b"t", memoryview(array.array("d", [1.0, 2.0])), grid, memoryview(b"")],
        [b"t", zmq.Frame(b"frame")],
    ]
    for frames in sent:
        publishing.publisher.send_multipart(frames, copy=False)
    for frames in sent:
        expected = [frame.bytes if isinstance(frame, zmq.Frame) else bytes(frame) for frame in frames]
        assert publishing.receive() == expected


def test_what_nobody_reads_waits_and_threads_do_not_mix_their_messages(publishing: Publishing) -> None:
    assert publishing.subscribed.wait(SECONDS)
    count, threads = 400, 4

    def publish(name: int) -> None:
        for number in range(count):
            publishing.publisher.send_multipart([b"%d" % name, b"%d" % number, bytes([name]) * 9000])

    senders = [threading.Thread(target=publish, args=[name]) for name in range(threads)]
    for sender in senders:
        sender.start()
    for sender in senders:
        sender.join(SECONDS)
    assert not publishing.publisher.idle  # 14 MB are more than any buffer on the way
    seen: dict[bytes, list[int]] = {}
    for _ in range(count * threads):
        name, number, body = publishing.receive()
        assert body == bytes([int(name)]) * 9000
        seen.setdefault(name, []).append(int(number))
    assert list(seen.values()) == [list(range(count))] * threads


def test_closing_waits_for_a_reader_and_not_for_ever(publishing: Publishing) -> None:
    assert publishing.subscribed.wait(SECONDS)
    for _ in range(20):
        publishing.publisher.send_multipart([b"t", bytes(LARGE)])
    publishing.stop_loop()
    received: list[int] = []
    reader = threading.Thread(target=lambda: received.extend(len(publishing.receive()[1]) for _ in range(20)))
    reader.start()
    publishing.publisher.close(linger=SECONDS)
    reader.join(SECONDS)
    assert received == [LARGE] * 20


def test_a_reader_that_goes_away_leaves_nothing_behind(publishing: Publishing) -> None:
    assert publishing.subscribed.wait(SECONDS)
    publishing.publisher.send_multipart([b"t", bytes(LARGE)])
    publishing.subscriber.close(linger=0)
    while publishing.publisher.connected:
        publishing.in_loop(lambda: None)
    publishing.publisher.send_multipart([b"t", b"for nobody"])
    assert publishing.publisher.idle
