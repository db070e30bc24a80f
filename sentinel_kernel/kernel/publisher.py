"""Publishes on iopub without losing a message and without keeping more of them than the clients can take.

A client that stalls first holds everybody up: the loop stops reading from the worker, whose own memory then
keeps the backlog. After a deadline libzmq drops messages for that client alone, until it reads again.
"""

from __future__ import annotations

import time
from collections import deque
from typing import TYPE_CHECKING

import zmq

from sentinel_kernel.kernel import outer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sentinel_kernel.kernel.large_frame import Ledger
    from sentinel_kernel.kernel.loop import Loop, Timer
    from sentinel_kernel.kernel.wire import Part

QUEUE_MESSAGES = 2000
"""How many messages libzmq may keep for one client (each below 64 KiB, or counted by the ledger)."""

LIVE_BYTES = 256 * 1024 * 1024
"""How many bytes of large frames may be alive before no more is read from the worker."""

STALL_SECONDS = 10.0
"""How long a client that does not read may hold up the others."""

_STALLED_MESSAGES = 2
"""Past the byte budget and the deadline, a client with this many messages waiting counts as stalled."""

_RETRY_SECONDS = 0.002


class Publisher:
    """Owns the iopub socket's sending side. ``ready`` tells whether more may be read from the worker."""

    def __init__(
        self, loop: Loop, socket: outer.Socket, ledger: Ledger, stall_seconds: float = STALL_SECONDS
    ) -> None:
        socket.sndhwm = QUEUE_MESSAGES
        socket.setsockopt(zmq.XPUB_NODROP, 1)
        self._loop = loop
        self._socket = socket
        self._ledger = ledger
        self._stall_seconds = stall_seconds
        self._waiting: deque[Sequence[Part]] = deque()
        self._stalled_since: float | None = None
        self._timer: Timer | None = None

    @property
    def ready(self) -> bool:
        """Whether there is room for more; if not, a timer makes sure that the loop asks again."""
        if self._waiting:
            return False
        if self._ledger.live_bytes <= LIVE_BYTES:
            return True
        self._retry_later()
        return self._patience_is_over()

    @property
    def takes_replies(self) -> bool:
        """Whether there is room for answers on another channel: they are few, but may be large."""
        return self._ledger.live_bytes <= 2 * LIVE_BYTES

    def publish(self, parts: Sequence[Part]) -> None:
        """Send a message behind all that wait (topic, delimiter, signature, JSON frames, buffers)."""
        self._waiting.append(parts)
        if len(self._waiting) == 1:
            self._drain()

    def _drain(self) -> None:
        while self._waiting:
            parts = self._waiting[0]
            large = any(isinstance(part, memoryview) for part in parts)
            if large and self._ledger.live_bytes > LIVE_BYTES and self._patience_is_over():
                self._send_past_the_stalled(parts, _STALLED_MESSAGES)
            elif outer.send(self._socket, parts):
                if not large or self._ledger.live_bytes <= LIVE_BYTES:
                    self._stalled_since = None
            elif self._patience_is_over():
                self._send_past_the_stalled(parts, QUEUE_MESSAGES)
            else:
                self._retry_later()
                return
            self._waiting.popleft()

    def _send_past_the_stalled(self, parts: Sequence[Part], queue_messages: int) -> None:
        """Send to every client that has fewer than ``queue_messages`` waiting; the others miss this one."""
        self._socket.sndhwm = queue_messages
        self._socket.setsockopt(zmq.XPUB_NODROP, 0)
        outer.send(self._socket, parts)
        self._socket.setsockopt(zmq.XPUB_NODROP, 1)
        self._socket.sndhwm = QUEUE_MESSAGES

    def _patience_is_over(self) -> bool:
        now = time.monotonic()
        if self._stalled_since is None:
            self._stalled_since = now
        return now - self._stalled_since > self._stall_seconds

    def _retry_later(self) -> None:
        if self._timer is None:
            self._timer = self._loop.call_later(_RETRY_SECONDS, self._retry)

    def _retry(self) -> None:
        self._timer = None
        self._drain()
