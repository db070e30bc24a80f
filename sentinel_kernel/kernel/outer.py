"""The sockets that Jupyter clients talk to: bound from the connection file, used by one thread."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import zmq

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sentinel_kernel.kernel.connection import Connection
    from sentinel_kernel.kernel.wire import Part

# Plain numbers: pyzmq's are enums, whose operators cost more than the calls they are for.
_EVENTS, _POLLIN = int(zmq.EVENTS), int(zmq.POLLIN)
_LAST_PART, _PART = int(zmq.NOBLOCK), int(zmq.NOBLOCK) | int(zmq.SNDMORE)

_FRAME_BYTES = 512 * 1024 * 1024
"""The longest frame of a client, as of the worker; libzmq hangs up on who sends a longer one (ZMQ_MAXMSGSIZE)."""

_WAITING_MESSAGES = 1000
"""How many messages libzmq keeps for one client in each direction before it stops reading, or drops an answer."""

_END_MS = 1000
"""So long beyond what sockets linger the end is waited for."""

_COPIED_BYTES = 64 * 1024
"""A received frame up to this size is copied out of libzmq at once; a longer one is used where it is."""


class Socket(zmq.Socket[bytes]):
    """A socket that knows whether it has to be asked for input: asking all, at each turn, is a tenth of the work."""

    stirred: list[bool]
    """Holds True from what may have brought input until ``has_input`` has found none."""

    last: list[zmq.Frame]
    """The first frame that was received last."""

    def __init__(self, *arguments: Any, **named: Any) -> None:  # noqa: ANN401 - pyzmq's
        super().__init__(*arguments, **named)
        self.__dict__["stirred"] = [True]
        self.__dict__["last"] = []


class Outer:
    """Binds shell, control, stdin, iopub and the heartbeat; the iopub socket reports subscriptions.

    Raises zmq.ZMQError where an address can't be bound.
    """

    def __init__(self, connection: Connection) -> None:
        self.context: zmq.Context[Any] = zmq.Context()
        self._connection = connection
        self.shell = self._bind(self.context, "shell", zmq.ROUTER)
        self.control = self._bind(self.context, "control", zmq.ROUTER)
        self.stdin = self._bind(self.context, "stdin", zmq.ROUTER)
        self.iopub = self._bind(self.context, "iopub", zmq.XPUB)
        # A thread and context of its own, so that a busy loop never looks like a dead kernel.
        self._heartbeat = self._bind(zmq.Context(), "hb", zmq.ROUTER)
        threading.Thread(target=self._beat, name="heartbeat", daemon=True).start()

    def _bind(self, context: zmq.Context[Any], channel: str, kind: int) -> Socket:
        socket: Socket = context.socket(kind, socket_class=Socket)
        socket.linger = 1000
        socket.maxmsgsize = _FRAME_BYTES
        socket.rcvhwm = _WAITING_MESSAGES
        socket.sndhwm = _WAITING_MESSAGES  # iopub's is the publisher's
        if kind == zmq.ROUTER:
            socket.router_handover = 1  # a client that reconnects under its identity is the same client
        if self._connection.curve_secretkey is not None:
            socket.curve_secretkey = self._connection.curve_secretkey
            socket.curve_publickey = self._connection.curve_publickey
            socket.curve_server = 1
        socket.bind(self._connection.address(channel))
        return socket

    def _beat(self) -> None:
        zmq.proxy(self._heartbeat, self._heartbeat)

    def close(self, linger_ms: int) -> None:
        """Close all but the heartbeat; clients get at most ``linger_ms`` to take what was sent to them.

        Precondition: the process ends without its interpreter's own end, which would wait for the context too.
        """
        for socket in (self.shell, self.control, self.stdin, self.iopub):
            socket.close(linger=linger_ms)
        # zmq_ctx_term(3) has waited for good for a client that was killed, long past what its sockets linger.
        ends = threading.Thread(target=self.context.term, name="end of the sockets", daemon=True)
        ends.start()
        ends.join((linger_ms + _END_MS) / 1000)


def has_input(socket: Socket) -> bool:
    """Tell whether a message waits.

    Input comes to light only when the socket is used, or when its descriptor has become ready
    (zmq_getsockopt(3), ZMQ_FD): without either, what was found last still holds.
    """
    stirred = socket.stirred
    if stirred[0]:
        stirred[0] = bool(int(socket.getsockopt(_EVENTS)) & _POLLIN)
    return stirred[0]


def receive(socket: Socket) -> list[Part] | None:
    """Return the next message's frames, or None where there is none now."""
    socket.stirred[0] = True
    try:
        frames = socket.recv_multipart(_LAST_PART, copy=False)
    except zmq.Again:
        return None
    socket.last[:] = frames[:1]
    return [frame.bytes if len(frame) <= _COPIED_BYTES else frame.buffer for frame in frames]


def source(socket: Socket) -> int:
    """Return the connection that the last message came by, -1 where that is unknown."""
    try:
        return int(socket.last[0].get(int(zmq.SRCFD)))
    except (IndexError, zmq.ZMQError, ValueError, TypeError):
        return -1


def deliver(socket: Socket, parts: Sequence[Part]) -> bool:
    """Send one message to a client that must be there; False where it is not, or takes nothing now."""
    socket.stirred[0] = True
    socket.router_mandatory = 1
    try:
        socket.send_multipart([bytes(part) for part in parts], _LAST_PART)
    except zmq.ZMQError:
        return False  # EHOSTUNREACH: the client is gone. EAGAIN: it has stopped reading
    finally:
        socket.router_mandatory = 0
    return True


def send(socket: Socket, parts: Sequence[Part]) -> bool:
    """Send one message; False where the socket takes none now (nothing was sent then).

    Large frames are handed to libzmq without a copy: their memory is alive until the last client has them.
    """
    socket.stirred[0] = True
    last = len(parts) - 1
    for index, part in enumerate(parts):
        flags = _LAST_PART if index == last else _PART
        try:
            if isinstance(part, bytes):
                socket.send(part, flags)
            else:
                socket.send(zmq.Frame(part, copy=False, copy_threshold=0), flags, copy=False)
        except zmq.Again:
            # Only the first frame can meet a full queue: libzmq counts whole messages (pipe.cpp, check_hwm).
            return False
        except zmq.ZMQError:
            return True  # EHOSTUNREACH: the client is gone; nobody is left to tell
    return True
