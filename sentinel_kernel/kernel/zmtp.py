"""The trusted end of the inner hop: a strict ZMTP 3.0 reader and writer over a connected unix stream socket.

libzmq can't bound one endless multipart message (its limits count whole messages or single frames), so the
host does not let libzmq read what the worker sends. Here frames, bytes and commands are counted before they
are kept, and memory grows as bytes arrive, never as they are announced.

Wire format: ZMTP 3.0 (rfc.zeromq.org/spec/23), mechanism NULL; the peer is libzmq in the worker.
"""

from __future__ import annotations

import mmap
import socket
from collections import deque
from typing import TYPE_CHECKING

from sentinel_kernel.errors import ProtocolError
from sentinel_kernel.kernel.large_frame import Block, fresh_memory
from sentinel_kernel.record import Record

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sentinel_kernel.kernel.large_frame import Ledger

    Buffer = bytes | bytearray | memoryview
    Message = list[bytes | memoryview]

MORE, LONG, COMMAND = 1, 2, 4

_GREETING_BYTES = 64
_GREETING = b"\xff\0\0\0\0\0\0\0\1\x7f" + b"\x03\x00" + b"NULL".ljust(20, b"\0") + b"\0" + bytes(31)
_RING_BYTES = 64 * 1024
_LARGE_BYTES = 32 * 1024
"""A longer frame gets memory of its own; a shorter one passes through the ring."""

_SEND_BUFFER_BYTES = 1024 * 1024
_SMALL_TOTAL_BYTES = 64 * 1024
_IOV_MAX = 1024  # limits.h: the most buffers of one sendmsg(2)


class Limits(Record):
    """What one peer may make the host keep; all in bytes save ``frames`` (a message's most frames)."""

    frames: int = 1024
    message_bytes: int = 512 * 1024 * 1024
    command_bytes: int = 512


class Decoder:
    """Turns bytes into messages: fill ``room()``, say how much by ``received()``, then take ``messages``.

    ``on_command`` gets each command's name and body; the first must be READY. Every breach of the protocol
    or of the limits is a ProtocolError, after which the decoder is of no use.
    """

    def __init__(self, limits: Limits, ledger: Ledger, on_command: Callable[[bytes, bytes], None]) -> None:
        self.messages: deque[Message] = deque()
        self._limits = limits
        self._ledger = ledger
        self._on_command = on_command
        self._ring = bytearray(_RING_BYTES)
        self._view = memoryview(self._ring)
        self._start = self._end = 0
        self._greeted = self._ready = False
        self._frames: Message = []
        self._message_bytes = self._small_bytes = 0
        self._block: Block | None = None
        self._block_more = False

    def discard(self) -> None:
        """Drop what was read: half a message may hold hundreds of megabytes, and is part of a reference cycle."""
        self.messages.clear()
        self._frames, self._block = [], None

    def room(self) -> memoryview:
        """Return where the next bytes go (never empty)."""
        if self._block is not None:
            return self._block.room[self._block.filled :]
        if self._start:
            # What is left is less than a whole small frame: moving it is cheap and keeps the ring contiguous.
            left = self._end - self._start
            self._ring[:left] = self._ring[self._start : self._end]
            self._start, self._end = 0, left
        return self._view[self._end :]

    def received(self, count: int) -> None:
        """Decode after ``count`` bytes were written to ``room()``. Raises ProtocolError."""
        if self._block is None:
            self._end += count
            self._parse()
        elif self._block.received(count):
            frame, self._block = self._block.room, None
            self._frame(frame, more=self._block_more)

    def _parse(self) -> None:
        if not self._greeted and not self._take_greeting():
            return
        ring = self._ring
        while (left := self._end - self._start) >= 2:
            start = self._start
            flags = ring[start]
            if flags & ~(MORE | LONG | COMMAND) or flags & (COMMAND | MORE) == COMMAND | MORE:
                raise ProtocolError(f"The worker sent a frame with the flags {flags:#x}.")
            if flags & LONG:
                if left < 9:
                    return
                size, body = int.from_bytes(ring[start + 1 : start + 9], "big"), start + 9
            else:
                size, body = ring[start + 1], start + 2
            self._check(flags, size)
            if size > _LARGE_BYTES:
                self._begin_block(size, body, more=bool(flags & MORE))
                if self._block is not None:
                    return
                continue
            if self._end - body < size:
                return
            self._start = body + size
            data = bytes(self._view[body : body + size])
            if flags & COMMAND:
                self._command(data)
            else:
                self._small_bytes += size
                self._frame(data, more=bool(flags & MORE))

    def _take_greeting(self) -> bool:
        if self._end < _GREETING_BYTES:
            return False
        greeting = self._ring[:_GREETING_BYTES]
        if greeting[0] != 0xFF or greeting[9] != 0x7F or greeting[10] < 3:
            raise ProtocolError("The worker's side does not speak ZMTP 3.")
        if greeting[12:32] != _GREETING[12:32]:
            raise ProtocolError("The worker's side asks for another ZMTP mechanism than NULL.")
        self._start, self._greeted = _GREETING_BYTES, True
        return True

    def _check(self, flags: int, size: int) -> None:
        """Hold a frame against the limits before a byte of it is kept."""
        if flags & COMMAND:
            if size > self._limits.command_bytes:
                raise ProtocolError(f"The worker sent a command of {size} bytes.")
            if self._frames:
                raise ProtocolError("The worker sent a command inside a message.")
            return
        if not self._ready:
            raise ProtocolError("The worker sent a message before the handshake was done.")
        if len(self._frames) >= self._limits.frames:
            raise ProtocolError(f"The worker sent a message of more than {self._limits.frames} frames.")
        if self._message_bytes + size > self._limits.message_bytes:
            raise ProtocolError(f"The worker sent a message of more than {self._limits.message_bytes} bytes.")

    def _begin_block(self, size: int, body: int, *, more: bool) -> None:
        """Start a large frame with what the ring already holds of it."""
        block = Block(size)
        have = min(self._end - body, size)
        block.room[:have] = self._view[body : body + have]
        self._start = body + have
        if block.received(have):
            self._frame(block.room, more=more)
        else:
            self._block, self._block_more = block, more

    def _frame(self, data: bytes | memoryview, *, more: bool) -> None:
        self._frames.append(data)
        self._message_bytes += len(data)
        if more:
            return
        if self._small_bytes > _SMALL_TOTAL_BYTES:
            self._gather()
        owners = {id(part.obj): part.obj for part in self._frames if isinstance(part, memoryview)}
        for memory in owners.values():
            if isinstance(memory, mmap.mmap):
                self._ledger.track(memory)
        self.messages.append(self._frames)
        self._frames, self._message_bytes, self._small_bytes = [], 0, 0

    def _gather(self) -> None:
        """Move the many small frames of a large message into tracked memory, so that the ledger sees them."""
        memory = memoryview(fresh_memory(self._small_bytes))
        position = 0
        for index, frame in enumerate(self._frames):
            if isinstance(frame, bytes):
                memory[position : position + len(frame)] = frame
                self._frames[index] = memory[position : position + len(frame)]
                position += len(frame)

    def _command(self, data: bytes) -> None:
        length = data[0] if data else 0
        name, body = data[1 : 1 + length], data[1 + length :]
        if not length or len(name) < length:
            raise ProtocolError("The worker sent a command without a name.")
        if not self._ready and name != b"READY":
            raise ProtocolError("The worker's first command is not READY.")
        if self._ready and name == b"READY":
            raise ProtocolError("The worker sent READY twice.")
        self._ready = True
        self._on_command(name, body)


class Stream:
    """One channel to the worker: non-blocking, owned by the event loop, closed by ``close()``.

    Preconditions: ``sock`` is connected. Messages sent before the worker has answered wait here.
    """

    def __init__(
        self, sock: socket.socket, socket_type: str, limits: Limits, ledger: Ledger, identity: bytes = b""
    ) -> None:
        sock.setblocking(False)
        # Each filling of the buffer takes a turn of the loop and a switch to the worker. Where the machine allows less,
        # it takes what it allows.
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BUFFER_BYTES)
        self.established = False
        self._socket = sock
        self._outgoing: deque[memoryview] = deque()
        self._waiting: list[Sequence[Buffer]] = []
        self.pending_bytes = 0
        """Bytes that wait for the worker to read them."""

        self.is_deaf = False
        """The worker's end takes nothing any more; it may still be there, and speak."""

        self._decoder = Decoder(limits, ledger, self._on_command)
        self.messages = self._decoder.messages
        properties = _property(b"Socket-Type", socket_type.encode("ascii"))
        if identity:
            properties += _property(b"Identity", identity)
        self._queue([_GREETING + _command(b"READY", properties)])

    def fileno(self) -> int:
        """Return the descriptor to watch."""
        return self._socket.fileno()

    @property
    def wants_write(self) -> bool:
        """Whether bytes wait for the worker to read."""
        return bool(self._outgoing)

    def close(self) -> None:
        """Close the socket; what is queued, and what was read and not taken, is dropped."""
        self._socket.close()
        self._outgoing.clear()
        self._waiting.clear()
        self._decoder.discard()

    def receive(self) -> int:
        """Read once; whole messages are added to ``messages``. Returns how many bytes came, 0 for none now.

        Raises EOFError at the end of the stream, ProtocolError when the worker breaks the protocol or its
        limits.
        """
        try:
            count = self._socket.recv_into(self._decoder.room())
        except BlockingIOError:
            return 0
        except OSError as error:  # ECONNRESET: the worker's end went away with bytes of ours unread
            raise EOFError from error
        if count == 0:
            raise EOFError
        self._decoder.received(count)
        return count

    def send(self, frames: Sequence[Buffer]) -> None:
        """Send one message, in part or whole later if the worker does not read now (see ``wants_write``)."""
        if self.established:
            self._queue(_encode(frames))
        else:
            self.pending_bytes += sum(map(len, frames))
            self._waiting.append(frames)

    def flush(self) -> None:
        """Write what the socket takes now. A worker that takes nothing any more is found by ``is_deaf``."""
        outgoing = self._outgoing
        while outgoing:
            buffers = [outgoing[index] for index in range(min(len(outgoing), _IOV_MAX))]
            try:
                count = self._socket.sendmsg(buffers, (), socket.MSG_NOSIGNAL)
            except BlockingIOError:
                return
            except OSError:
                outgoing.clear()
                self.is_deaf = True
                return
            self.pending_bytes -= count
            while count:
                head = outgoing[0]
                if count < len(head):
                    outgoing[0] = head[count:]
                    break
                count -= len(head)
                outgoing.popleft()

    def _queue(self, buffers: list[Buffer]) -> None:
        self.pending_bytes += sum(map(len, buffers))
        self._outgoing.extend(map(memoryview, buffers))
        self.flush()

    def _on_command(self, name: bytes, body: bytes) -> None:
        if name == b"READY":
            # libzmq takes a message only after it has sent its own READY (null_mechanism.cpp), so ours wait
            # for it.
            self.established = True
            waiting, self._waiting = self._waiting, []
            for frames in waiting:
                self.pending_bytes -= sum(map(len, frames))
                self._queue(_encode(frames))
        elif name == b"PING":
            # Two bytes of time to live, then a context to send back. A worker that does not read gets no more
            # than one answer queued.
            if len(body) < 2:
                raise ProtocolError("The worker sent a PING that is too short.")
            if not self._outgoing:
                self._queue([_command(b"PONG", body[2:18])])
        elif name != b"PONG":
            raise ProtocolError(f"The worker sent the ZMTP command {name[:20]!r}.")


def _encode(frames: Sequence[Buffer]) -> list[Buffer]:
    """Return a message's frames with their headers; small ones joined, large ones as they are."""
    buffers: list[Buffer] = []
    joined = bytearray()
    last = len(frames) - 1
    for index, frame in enumerate(frames):
        size, flags = len(frame), MORE if index != last else 0
        joined += bytes((flags, size)) if size < 256 else bytes((flags | LONG,)) + size.to_bytes(8, "big")
        if size <= _LARGE_BYTES:
            joined += frame
        else:
            buffers += (joined, frame)
            joined = bytearray()
    if joined:
        buffers.append(joined)
    return buffers


def _command(name: bytes, body: bytes) -> bytes:
    data = bytes((len(name),)) + name + body
    return bytes((COMMAND, len(data))) + data


def _property(name: bytes, value: bytes) -> bytes:
    return bytes((len(name),)) + name + len(value).to_bytes(4, "big") + value
