"""The conversation with init, pid 1 of the sandbox: fork a worker, learn its process id, hear of its end."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import struct

from sentinel_kernel.errors import ProtocolError
from sentinel_kernel.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

_PACKET_BYTES = 65536
STACK_SIGNAL = 63
"""SIGRTMAX - 1: the worker's handler for it writes the stack of the thread that gets it (signal(7), real-time)."""

STACKS_SIGNAL = STACK_SIGNAL - 1
"""Likewise, for the stacks of all of its threads."""

MEMORY_SIGNAL = STACK_SIGNAL - 2
"""Its handler raises MemoryError in the running cell, with the text that is in the pipe for words."""

_CREDENTIALS = struct.Struct("3i")  # struct ucred: pid, uid, gid
# Not -P: the worker's flags are what cells and the processes they spawn see. With -c the first entry of the path is
# the current folder; it is replaced before anything is imported, and init takes the library out again.
_PAYLOAD = (
    "import sys; sys.path[0] = '/run/sentinel/lib'; from sentinel_kernel.worker.init import main; main(3)"
)


class InitEvent(Record):
    """One packet from init; ``sender_pid`` is who sent it, in the host's numbers, vouched for by the Linux kernel."""

    name: str
    sender_pid: int
    body: dict[str, Any]


def init_argv(python: str) -> tuple[str, ...]:
    """Return the command that boot executes as pid 1."""
    return (python, "-c", _PAYLOAD)


class WorkerLink:
    """Speaks to init over its control socket."""

    def __init__(self, control: socket.socket) -> None:
        """Use ``control``, whose owner stays the sandbox."""
        self._control = control
        control.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)

    def fork_worker(  # noqa: PLR0913, PLR0917 - each is one field of the packet
        self,
        listening: Sequence[socket.socket],
        stack_pipe: int,
        word_pipe: int,
        started: int,
        size_pipe: int,
        argv: Sequence[str],
        cwd: str,
        preload: Sequence[str],
        magics: Sequence[str],
    ) -> None:
        """Ask for a worker on the four listening sockets.

        STACK_SIGNAL makes it write its stack to ``stack_pipe``; at MEMORY_SIGNAL it reads ``word_pipe``. What it starts
        it notes in ``started`` (supervisor/started.py). A write beyond RLIMIT_FSIZE makes it write its stack to
        ``size_pipe``.
        """
        message = {
            "op": "fork",
            "argv": list(argv),
            "cwd": cwd,
            "preload": list(preload),
            "magics": list(magics),
            "stack_signal": STACK_SIGNAL,
            "stacks_signal": STACKS_SIGNAL,
            "memory_signal": MEMORY_SIGNAL,
        }
        descriptors = [*(sock.fileno() for sock in listening), stack_pipe, word_pipe, started, size_pipe]
        socket.send_fds(self._control, [json.dumps(message).encode()], descriptors)

    def kill_all(self) -> None:
        """Ask init to kill every process in the sandbox but itself."""
        self._control.send(b'{"op":"kill_all"}')

    def receive(self) -> InitEvent | None:
        """Return the next packet, or None at the end.

        Raises:
            ProtocolError: it is not one of init's packets; before the first fork only trusted code runs there,
                afterwards nothing but init holds the socket, so this is a fault and ends the sandbox.

        """
        try:
            packet, ancillary, flags, _ = self._control.recvmsg(
                _PACKET_BYTES, socket.CMSG_SPACE(_CREDENTIALS.size), socket.MSG_CMSG_CLOEXEC
            )
        except ConnectionResetError:
            return None
        if not packet:
            return None
        pid = 0
        for level, kind, data in ancillary:
            if level == socket.SOL_SOCKET and kind == socket.SCM_CREDENTIALS:
                pid = _CREDENTIALS.unpack_from(data)[0]
            elif level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                for offset in range(0, len(data) - 3, 4):
                    with contextlib.suppress(OSError):
                        os.close(struct.unpack_from("i", data, offset)[0])
        if flags & socket.MSG_TRUNC:
            raise ProtocolError("A packet from init is too long.")
        try:
            body = json.loads(packet)
            return InitEvent(str(body["event"]), pid, body)
        except (ValueError, KeyError, TypeError, RecursionError):
            raise ProtocolError("A packet from init is not an event.") from None
