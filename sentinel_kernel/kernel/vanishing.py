"""Hearing that a client is gone while it is asked something: libzmq's monitor tells which connection was closed."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import zmq

if TYPE_CHECKING:
    from collections.abc import Callable

    from sentinel_kernel.kernel.loop import Loop
    from sentinel_kernel.kernel.outer import Socket

_EVENT = struct.Struct("=Hi")  # zmq_socket_monitor(3): a 16-bit event, a 32-bit value


class Vanishing:
    """Watches one outer socket; ``gone`` is told the connection (zmq_msg_get(3), ZMQ_SRCFD) that was closed."""

    def __init__(self, loop: Loop, socket: Socket, gone: Callable[[int], None]) -> None:
        self._loop = loop
        self._socket = socket
        self._gone = gone
        self._monitor: zmq.Socket[bytes] | None = None

    def watch(self, source: int) -> None:
        """Watch from here on, to the end; a request without a known connection (-1) can't be watched for.

        A monitor that is taken away and made anew at once may find its name still taken (libzmq frees it in another
        thread): it stays, as disconnections are rare.
        """
        if source < 0 or self._monitor is not None:
            return
        self._monitor = self._socket.get_monitor_socket(int(zmq.Event.DISCONNECTED))
        self._socket.stirred[0] = True  # it may have read its mailbox meanwhile (outer.has_input)
        self._loop.watch(int(self._monitor.getsockopt(zmq.FD)), self._told)
        self._told(0)  # what came before the descriptor was watched is not announced by it

    def _told(self, _events: int) -> None:
        while self._monitor is not None:
            try:
                frames = self._monitor.recv_multipart(int(zmq.NOBLOCK))
            except zmq.Again:
                return
            if len(frames[0]) == _EVENT.size:
                event, source = _EVENT.unpack(frames[0])
                if event == int(zmq.Event.DISCONNECTED):
                    self._gone(source)
