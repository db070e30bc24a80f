"""The name server inside the sandbox, answered from outside: it knows the names that may be reached, and no other."""

from __future__ import annotations

import contextlib
import time
import traceback
from functools import partial

from sentinel_kernel.record import MutableRecord
from sentinel_kernel.supervisor.network.dns_message import (
    FORMAT_ERROR,
    LONGEST_QUESTION,
    NO_ERROR,
    NO_SUCH_NAME,
    REFUSED,
    SERVER_FAILURE,
    TYPE_A,
    TYPE_AAAA,
    make_answer,
    parse_question,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Iterable
    from typing import Any

    from sentinel_kernel.policy.network import NetworkPolicy
    from sentinel_kernel.supervisor.network.dns_message import Question
    from sentinel_kernel.supervisor.network.names import Names

_A_TURN = 32
_SECONDS = 30
"""How long an answer may be kept inside."""

_STREAMS = 16
_STREAM_SECONDS = 10.0
_BUSY = 128


class _Stream(MutableRecord):
    """One connection of TCP: what has come of a question, and until when it may stay."""

    sock: socket.socket
    until: float
    said: bytes = b""


class NameStub:
    """Serves one sandbox. ``policy`` gives the hosts in force, ``refused`` is told of names that are none of them.

    ``unknown`` is told of names that are, and that could not be looked up.
    """

    def __init__(
        self,
        datagrams: socket.socket,
        streams: socket.socket | None,
        names: Names,
        policy: Callable[[], NetworkPolicy],
        refused: Callable[[str, str], None],
        unknown: Callable[[str], None],
    ) -> None:
        """Serve on sockets that were bound inside; they stay their owner's."""
        self._datagrams = datagrams
        self._listening = streams
        self._names = names
        self._policy = policy
        self._refused = refused
        self._unknown = unknown
        self._streams: list[_Stream] = []
        self._open = 0
        """Questions whose answer is not there yet."""
        datagrams.setblocking(False)
        if streams is not None:
            streams.setblocking(False)

    def descriptors(self) -> Iterable[int]:
        """Return what has to be watched for input."""
        yield self._datagrams.fileno()
        if self._listening is not None:
            yield self._listening.fileno()
        yield from (stream.sock.fileno() for stream in self._streams)

    def due_seconds(self) -> float | None:
        """Return when a connection has taken too long."""
        return min((max(0.0, one.until - time.monotonic()) for one in self._streams), default=None)

    def serve(self, ready: dict[int, int]) -> None:
        """Take questions; a bounded number at a time."""
        if self._datagrams.fileno() in ready:
            for _ in range(_A_TURN):
                try:
                    packet, sender = self._datagrams.recvfrom(LONGEST_QUESTION + 1)
                except OSError:
                    break
                self._answered(packet, partial(self._send, sender))
        for stream in [one for one in self._streams if one.sock.fileno() in ready]:
            self._read(stream)
        if self._listening is not None and self._listening.fileno() in ready:
            self._accept(self._listening)

    def catch_up(self) -> None:
        """Close connections that have taken too long."""
        now = time.monotonic()
        for stream in [one for one in self._streams if one.until <= now]:
            self._close(stream)

    def close(self) -> None:
        """Close every connection."""
        for stream in list(self._streams):
            self._close(stream)

    def _accept(self, listening: socket.socket) -> None:
        try:
            made, _ = listening.accept()
        except OSError:
            return
        made.setblocking(False)
        if len(self._streams) >= _STREAMS:
            made.close()
            return
        self._streams.append(_Stream(made, time.monotonic() + _STREAM_SECONDS))

    def _read(self, stream: _Stream) -> None:
        try:
            chunk = stream.sock.recv(LONGEST_QUESTION + 2 - len(stream.said))
        except BlockingIOError:
            return
        except OSError:
            chunk = b""
        stream.said += chunk
        if not chunk:
            self._close(stream)
        else:
            self._take(stream)

    def _take(self, stream: _Stream) -> None:
        """Answer each question that is whole: more than one may have come at once."""
        while len(stream.said) >= 2 and stream in self._streams:
            length = int.from_bytes(stream.said[:2], "big")
            if not 0 < length <= LONGEST_QUESTION:
                self._close(stream)
            elif len(stream.said) < length + 2:
                return
            else:
                packet, stream.said = stream.said[2 : length + 2], stream.said[length + 2 :]
                self._answered(packet, partial(self._send_stream, stream))

    def _close(self, stream: _Stream) -> None:
        if stream in self._streams:
            self._streams.remove(stream)
            stream.sock.close()

    def _send(self, sender: Any, packet: bytes) -> None:  # noqa: ANN401 - as recvfrom gave it
        with contextlib.suppress(OSError):
            self._datagrams.sendto(packet, sender)

    def _send_stream(self, stream: _Stream, packet: bytes) -> None:
        if stream in self._streams:
            with contextlib.suppress(OSError):
                stream.sock.send(len(packet).to_bytes(2, "big") + packet)

    def _answered(self, packet: bytes, send: Callable[[bytes], None]) -> None:
        """Answer a question; one that cannot be has no answer, and ends nothing else."""
        try:
            self._ask(packet, send)
        except Exception:  # noqa: BLE001 - fail closed: whatever went wrong here, nothing is looked up
            traceback.print_exc()

    def _ask(self, packet: bytes, send: Callable[[bytes], None]) -> None:
        question = parse_question(packet)
        if question is None:
            if len(packet) >= 12 and not packet[2] & 0x80:
                send(packet[:2] + bytes((0x80, FORMAT_ERROR)) + bytes(8))
            return
        name = question.name
        policy = self._policy()
        if not question.is_internet or not policy.resolves(name):
            if name and question.is_internet:
                self._refused(name, "not-listed")
            send(make_answer(question, REFUSED))
        elif question.kind not in (TYPE_A, TYPE_AAAA):
            send(make_answer(question, NO_ERROR))  # the name is there, and has nothing of that kind
        elif self._open >= _BUSY:
            send(make_answer(question, SERVER_FAILURE))
        else:
            self._open += 1
            self._names.look_up(name, policy, partial(self._answer, question, send))

    def _answer(
        self, question: Question, send: Callable[[bytes], None], addresses: tuple[bytes, ...] | None
    ) -> None:
        self._open -= 1
        if not addresses:
            self._unknown(question.name)
        if addresses is None:
            send(make_answer(question, SERVER_FAILURE))
        elif not addresses:
            send(make_answer(question, NO_SUCH_NAME))
        else:
            send(make_answer(question, NO_ERROR, addresses, _SECONDS))
