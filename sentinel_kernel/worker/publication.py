"""The worker's end of IOPub: a ZMTP 3.0 publisher that any thread writes to, without a thread in between.

Under libzmq each message of a cell takes a turn of IOPub's thread (a socket belongs to one thread) and then one of
libzmq's own. Each turn fights with the cell for the interpreter's lock: together a third of an empty cell's time. There
is one subscriber, the host, on a stream that is connected before the worker exists; so a message can be
written to it by whoever has it.

Wire format: rfc.zeromq.org/spec/23, mechanism NULL.
"""

from __future__ import annotations

import itertools
import select
import socket
import threading
import time
from collections import deque
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import zmq

_MORE, _LONG, _COMMAND = 1, 2, 4
_GREETING_BYTES = 64
_GREETING = b"\xff\0\0\0\0\0\0\0\1\x7f" + b"\x03\x00" + b"NULL".ljust(20, b"\0") + b"\0" + bytes(31)
_READY = b"\x05READY" + b"\x0bSocket-Type" + (4).to_bytes(4, "big") + b"XPUB"

_WHOLE_BYTES = 32 * 1024
"""A message up to this size is one buffer of the Linux kernel (unix_stream_sendmsg in net/unix/af_unix.c): it is
written as a whole or not at all. So an interrupt, at whichever line it comes, leaves no half message behind."""

_BUFFERS = 64
_SEND_BUFFER_BYTES = 1024 * 1024
_PATIENCE_MS = 10
"""How long IOPub's thread waits for a reader before it sees to other things."""


class PublicationSocket:
    """Stands where ipykernel has a ZMQ socket, on the listening socket ``descriptor``.

    IOPub's thread is the only one that ever writes a message in parts: what others can't write whole they leave to it.
    """

    def __init__(self, descriptor: int, context: zmq.Context[Any]) -> None:
        self.context = context
        self.closed = False
        self._wake: Callable[[], None] = _nothing
        self._subscribed: Callable[[bytes], None] = _nothing
        self._loop: Any = None
        self._listener = socket.socket(fileno=descriptor)
        self._stream: socket.socket | None = None
        self._listening = False
        """Whether the host has subscribed; before that a publisher's messages go nowhere."""

        # Held while the stream or the backlog changes. A signal's handler may publish while its thread is in here.
        self._lock = threading.RLock()
        self._backlog: deque[memoryview] = deque()
        self._held: memoryview | None = None
        self._waits_for_reader = False
        self._received = b""
        self._greeted = False

    # --- any thread

    def hold(self, frames: Sequence[Any]) -> None:
        """Publish a short message together with the next one, or at ``release``, whichever is first."""
        with self._lock:
            self.release()
            self._held = _encode(frames)[0]

    def release(self) -> None:
        """Publish what is held."""
        if self._held is not None:
            self._publish([])

    def send_multipart(self, frames: Sequence[Any], *_options: object, **_named: object) -> None:
        """Publish one message. What the host does not take now is kept, and sent by IOPub's thread."""
        self._publish(_encode(frames))

    def _publish(self, buffers: list[memoryview]) -> None:
        with self._lock:
            held, self._held = self._held, None
            if held is not None:
                buffers = _joined(held, buffers)
            stream = self._stream
            if stream is None or not self._listening:
                return
            if not self._backlog and len(buffers) == 1 and len(buffers[0]) <= _WHOLE_BYTES:
                try:
                    count = stream.send(buffers[0], socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)
                except BlockingIOError:
                    count = 0
                except OSError:  # the host is gone: its end is found where it is read
                    return
                if count == len(buffers[0]):
                    return
                buffers[0] = buffers[0][count:]
            self._backlog.extend(buffers)
        if not self._waits_for_reader:
            self._wake()

    @property
    def idle(self) -> bool:
        """Whether all that was published is on its way to the host."""
        return not self._backlog

    @property
    def connected(self) -> bool:
        """Whether there is a host."""
        return self._stream is not None

    # --- IOPub's thread

    def watch(
        self,
        loop: Any,  # noqa: ANN401 - tornado's, untyped
        wake: Callable[[], None],
        subscribed: Callable[[bytes], None],
    ) -> None:
        """Take the host's connection, and what it says, in ``loop``, which does not run yet.

        ``wake`` has ``drain`` called in the loop's thread; ``subscribed`` is called there with each topic.
        """
        self._loop, self._wake, self._subscribed = loop, wake, subscribed
        loop.add_handler(_Watched(self._listener), self._accept, loop.READ)

    def drain(self) -> None:
        """Write what waits, for as long as the host reads."""
        stream = self._stream
        poll = select.poll()
        if stream is not None:
            poll.register(stream, select.POLLOUT)
        while stream is not None and self._backlog:
            if not self._write_some(stream) and not poll.poll(_PATIENCE_MS):
                self._wait_for_reader(stream, waits=True)
                return
        if stream is not None:
            self._wait_for_reader(stream, waits=False)

    def _write_some(self, stream: socket.socket) -> bool:
        """Write the head of the backlog; False where the host takes nothing now."""
        with self._lock:
            backlog = self._backlog
            buffers = list(itertools.islice(backlog, _BUFFERS))
            try:
                count = stream.sendmsg(buffers, (), socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)
            except BlockingIOError:
                return False
            except OSError:  # the host is gone, and with it whoever would read this
                backlog.clear()
                return True
            for buffer in buffers:
                if count < len(buffer):
                    backlog[0] = buffer[count:]
                    break
                count -= len(buffer)
                backlog.popleft()
            return True

    def _wait_for_reader(self, stream: socket.socket, *, waits: bool) -> None:
        if waits != self._waits_for_reader:
            self._waits_for_reader = waits
            events = self._loop.READ | self._loop.WRITE if waits else self._loop.READ
            self._loop.update_handler(stream.fileno(), events)

    def _accept(self, *_event: object) -> None:
        if self._stream is not None:
            return
        stream, _ = self._listener.accept()
        # Where the machine allows less, it takes what it allows.
        stream.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BUFFER_BYTES)
        stream.send(_GREETING + bytes((_COMMAND, len(_READY))) + _READY)
        self._stream = stream
        self._received, self._greeted = b"", False
        self._loop.add_handler(_Watched(stream), self._ready, self._loop.READ)

    def _ready(self, _descriptor: object, events: int) -> None:
        if events & self._loop.WRITE:
            self.drain()
        if events & ~self._loop.WRITE and self._stream is not None:
            self._read(self._stream)

    def _read(self, stream: socket.socket) -> None:
        try:
            data = stream.recv(65536, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._end(stream)
            return
        self._received += data
        if not self._greeted:
            if len(self._received) < _GREETING_BYTES:
                return
            self._received, self._greeted = self._received[_GREETING_BYTES:], True
        while (frame := self._take_frame()) is not None:
            if frame[0] & _COMMAND:
                continue  # READY; the host asks for nothing by commands
            if frame[1][:1] == b"\x01":
                self._listening = True
                self._subscribed(frame[1][1:])

    def _take_frame(self) -> tuple[int, bytes] | None:
        received = self._received
        long = bool(received and received[0] & _LONG)
        start = 9 if long else 2
        if len(received) < start:
            return None
        end = start + int.from_bytes(received[1:start], "big")
        if len(received) < end:
            return None
        self._received = received[end:]
        return received[0], received[start:end]

    def _end(self, stream: socket.socket) -> None:
        """Forget a connection that ended; another may be made."""
        self._loop.remove_handler(stream.fileno())
        with self._lock:
            self._listening = self._waits_for_reader = False
            self._stream = None
            self._backlog.clear()
            stream.close()

    # --- the end

    def close(self, linger: float = 1.0) -> None:
        """Close, after what waits was taken or ``linger`` seconds have passed. IOPub's thread must have ended."""
        self.closed = True
        deadline = time.monotonic() + linger
        stream, self._stream = self._stream, None
        if stream is not None:
            poll = select.poll()
            poll.register(stream, select.POLLOUT)
            while self._backlog and (left := deadline - time.monotonic()) > 0:
                if poll.poll(left * 1000):
                    self._write_some(stream)
            stream.close()
        self._backlog.clear()
        self._listener.close()


def _joined(first: memoryview, rest: list[memoryview]) -> list[memoryview]:
    """Return the buffers of two messages, in one piece where both are short."""
    if len(rest) == 1 and len(first) + len(rest[0]) <= _WHOLE_BYTES:
        return [memoryview(bytes(first) + bytes(rest[0]))]
    return [first, *rest]


def _nothing(*_arguments: object) -> None:
    """Stand in until ``watch`` is called."""


def _flat(view: memoryview) -> memoryview:
    """Return the bytes of ``view`` in the order of memory, which for an array of Fortran's is not that of its items."""
    return view.cast("B") if view.c_contiguous and view.nbytes else memoryview(view.tobytes("A"))


class _Watched:
    """A socket as the event loop sees it: at its end the loop would close it, with messages still to be sent."""

    def __init__(self, watched: socket.socket) -> None:
        self.fileno = watched.fileno

    def close(self) -> None:
        """Leave it open: PublicationSocket.close does it."""


def _encode(frames: Sequence[Any]) -> list[memoryview]:
    """Return a message's frames with their headers: in one piece where it is short, else large frames as they are."""
    pieces: list[memoryview] = []
    joined = bytearray()
    last = len(frames) - 1
    for index, frame in enumerate(frames):
        data = frame if isinstance(frame, bytes) else _flat(memoryview(getattr(frame, "buffer", frame)))
        size, flags = len(data), _MORE if index != last else 0
        joined += bytes((flags, size)) if size < 256 else bytes((flags | _LONG,)) + size.to_bytes(8, "big")
        if size <= _WHOLE_BYTES:
            joined += data
        else:
            pieces += (memoryview(joined), memoryview(data))
            joined = bytearray()
    if joined:
        pieces.append(memoryview(joined))
    return pieces
