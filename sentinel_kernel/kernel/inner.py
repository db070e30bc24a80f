"""The four channels to one worker: watched while they may be read, and closed together."""

from __future__ import annotations

import os
import socket
from typing import TYPE_CHECKING

from sentinel_kernel.errors import ProtocolError
from sentinel_kernel.kernel.loop import READ, WRITE
from sentinel_kernel.kernel.zmtp import Limits, Stream
from sentinel_kernel.record import replace

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sentinel_kernel.kernel.large_frame import Ledger
    from sentinel_kernel.kernel.loop import Loop

CHANNELS = ("shell", "control", "stdin", "iopub")

IDENTITY = b"host"
"""One identity on shell and stdin: ipykernel asks for input by the identities of the shell request."""

_MIB = 1024 * 1024
_MESSAGE_BYTES = {"shell": 512 * _MIB, "iopub": 512 * _MIB, "control": 64 * _MIB, "stdin": _MIB}
_REST_BYTES = 2 * _MIB
_REST_MESSAGES = 20_000
"""How much of a dead worker's channel is read once more: its last output lies in a socket's buffer of 416 KiB at most.
One that broke the protocol may be alive, and write on as fast as it is read."""


class Inner:
    """The channels of one generation of the worker.

    ``on_end`` is called once when the worker closed a channel, ``on_breach`` with the reason when it broke
    the protocol; the owner closes all channels then.
    """

    def __init__(
        self,
        loop: Loop,
        generation: int,
        fds: Sequence[int],
        ledger: Ledger,
        on_end: Callable[[], None],
        on_breach: Callable[[str], None],
    ) -> None:
        self.generation = generation
        self.answered = False
        """Whether the worker has confirmed the subscription: from then on no output is lost."""

        self._loop = loop
        self._on_end = on_end
        self._on_breach = on_breach
        self._watched: dict[str, int] = {}
        self._ended: set[str] = set()
        self._streams: dict[str, Stream] = {}
        for channel, fd in zip(CHANNELS, fds, strict=True):
            kind = "SUB" if channel == "iopub" else "DEALER"
            limits = replace(Limits(), message_bytes=_MESSAGE_BYTES[channel])
            identity = b"" if channel == "iopub" else IDENTITY
            self._streams[channel] = Stream(socket.socket(fileno=fd), kind, limits, ledger, identity)
        self._streams["iopub"].send([b"\x01"])  # subscribe to every topic, in ZMTP 3.0's way

    def __getitem__(self, channel: str) -> Stream:
        """Return one channel's stream."""
        return self._streams[channel]

    def watch(self, channel: str, *, reading: bool) -> None:
        """Wait for the channel to be readable, if ``reading``, and writable, if something is queued."""
        stream = self._streams[channel]
        if stream.is_deaf and channel not in self._ended:
            self._end(channel)  # what was sent is lost: a cell that was in it would be awaited for good
        events = 0
        if channel not in self._ended:
            events = (READ if reading else 0) | (WRITE if stream.wants_write else 0)
        before = self._watched.get(channel, 0)
        if events == before:
            return
        fd = stream.fileno()
        # A channel that is not to be read is not watched at all: epoll would report its end again and again.
        if not events:
            self._loop.forget(fd)
            del self._watched[channel]
            return
        self._watched[channel] = events
        if before:
            self._loop.change(fd, events)
        else:
            self._loop.watch(fd, lambda ready: self._serve(channel, ready), events)

    def _serve(self, channel: str, ready: int) -> None:
        if ready & WRITE:
            self._streams[channel].flush()
        if ready & ~WRITE:
            self._read(channel)

    def _read(self, channel: str) -> int:
        try:
            return self._streams[channel].receive()
        except EOFError:
            self._end(channel)
            self.watch(channel, reading=False)
        except ProtocolError as error:
            self._on_breach(str(error))
        return 0

    def _end(self, channel: str) -> None:
        first = not self._ended
        self._ended.add(channel)
        if first:
            self._on_end()

    def read_rest(self) -> None:
        """Read what a worker that is gone left in its channels."""
        self._on_end = self._on_breach = _ignore
        for channel in CHANNELS:
            left = _REST_BYTES
            while left > 0 and channel not in self._ended:
                count = self._read(channel)
                if not count or len(self._streams[channel].messages) > _REST_MESSAGES:
                    break
                left -= count

    def close(self) -> None:
        """Stop watching and close all four; what was read and not taken is dropped."""
        for channel in list(self._watched):
            self._loop.forget(self._streams[channel].fileno())
        self._watched.clear()
        for stream in self._streams.values():
            stream.close()


def _ignore(*_arguments: object) -> None:
    """Do nothing: a worker that is gone can't end or break anything more."""


def close_all(fds: Sequence[int]) -> None:
    """Close descriptors that came with an event and are of no use."""
    for fd in fds:
        os.close(fd)
