"""The control socket between host and supervisor: one JSON object a packet, file descriptors beside it.

The socket is AF_UNIX SOCK_SEQPACKET, so the Linux kernel keeps packet boundaries and the descriptors of a
packet come with that packet (unix(7), SCM_RIGHTS). Both ends are trusted; the checks show a fault early.

Host to supervisor: ``{"op": ..., "id": int, ...}``; each is answered by an event ``reply`` with that ``id``.
Supervisor to host: ``{"event": ..., ...}`` at any time.
"""

from __future__ import annotations

import array
import json
import os
import socket

from sentinel_kernel.errors import ProtocolError

TYPE_CHECKING = False  # importing typing costs the supervisor's start two milliseconds
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

MAXIMUM_PACKET_BYTES = 128 * 1024
"""The longest packet; it stays below the default send buffer (208 KiB), so one packet always fits."""

MAXIMUM_DESCRIPTORS = 64
"""The most file descriptors on one packet: one for each held folder, which the host keeps (leftovers.py)."""

OP_START = "start"
OP_TRY = "try"
"""Asks what a start (whose fields it has) would fail by, while the sandbox in use goes on: ``problem``, else empty."""
OP_BEGIN_CELL = "begin_cell"
OP_END_CELL = "end_cell"
OP_INTERRUPT = "interrupt"
"""Interrupts the worker; with ``leave`` that of ``generation`` is killed, which said that it leaves and has not."""
OP_PROFILE = "profile"
OP_SPARE = "spare"
OP_STOP = "stop"
OP_ANSWER = "answer"
"""The person's answer (``answer``: policy/asking.py) to the question ``ask``."""
OP_LIMIT = "limit"
"""Sets limits of the person's own (``limits``), or asks for those in force (without any)."""
OP_NETWORK = "network"
"""Asks for the hosts in force and what was tried (``do``: list), or allows a ``rule`` of hosts (``do``: allow)."""
OP_MOUNT = "mount"
"""Shows a folder of the host in the running sandbox (supervisor/live_mounts.py; ``do``: list, look, add, remove)."""
OP_PERSON = "person"
"""A cell (``msg_id``) waits for the person's answer, or (``waiting`` false) no longer."""
OP_EXPLAIN = "explain"
"""Asks whether the sandbox caused an error (``report``: policy/failure_report.py) of the cell ``msg_id``."""
OP_WATCH = "watch"
"""Whether the host wants EVENT_USAGE (``on``)."""
OP_AUDIT = "audit"
"""Asks for the audit's state, once all that was reported so far is written."""
OP_ANSWERED = "answered"
"""A cell that the host has answered itself, as where its magic fails (the fields of its begin and its end)."""
OP_WORDS = "words"
"""The words (``semantic_msg``, ``hint``, ``remedy`` ...) that the person was shown for the refusal ``violation``."""

OP_TOLD = "told"
"""The person was shown where the files of a sandbox that ended are (``path``, as of EVENT_ARTIFACTS)."""

OP_FILES = "files"
"""Lists, compares, commits, discards what cells wrote (``do``; its fields: workspace/request.py)."""

EVENT_REPLY = "reply"
EVENT_CHANNELS = "channels"
EVENT_READY = "ready"
EVENT_VIOLATION = "violation"
EVENT_WORKER_DIED = "worker_died"
EVENT_ARTIFACTS = "artifacts"
EVENT_UNAVAILABLE = "unavailable"
EVENT_LIMIT = "limit"
"""A limit was reached (``limit``: its name, stage, what is used and allowed, the profile and the back end)."""
EVENT_ASK = "ask"
"""A held call that the person is asked about (``ask``: a violation, ``why``, ``seconds``), or one that is not held
any more (``closed``: its id, ``why``)."""

EVENT_USAGE = "usage"
"""One sample of what the sandbox uses (``sample``), and its limits where they changed (``limits``)."""
EVENT_FILES = "files"
"""What a cell has left of changed files, or ``progress`` of long work on them (workspace/request.py)."""
EVENT_AUDIT = "audit"
"""The audit's state where it changed (``audit``: state, reason, remedy, path, and what was lost)."""

HOST_MAGICS = (
    "sentinel_allow",
    "sentinel_audit",
    "sentinel_commit",
    "sentinel_discard",
    "sentinel_explain",
    "sentinel_export",
    "sentinel_files",
    "sentinel_gauge",
    "sentinel_help",
    "sentinel_limit",
    "sentinel_mount",
    "sentinel_net",
    "sentinel_preflight",
    "sentinel_profile",
    "sentinel_reset",
    "sentinel_status",
    "sentinel_trust_output",
    "sentinel_undo",
    "sentinel_violations",
)
"""The magics that the host runs; the worker gets inert ones of the same names."""

# One encoder: json.dumps makes a new one for each call that wants no spaces.
_ENCODE = json.JSONEncoder(separators=(",", ":"), ensure_ascii=True).encode
_INT_BYTES = array.array("i").itemsize
_ROOM = socket.CMSG_SPACE(MAXIMUM_DESCRIPTORS * _INT_BYTES)
# One for the whole process, which reads packets in one thread: a fresh buffer of this size is mapped and unmapped by
# the Linux kernel for every packet.
_BUFFER = bytearray(MAXIMUM_PACKET_BYTES + 1)


def send(sock: socket.socket, message: dict[str, Any], fds: Sequence[int] = ()) -> None:
    """Send one message, and duplicates of ``fds`` with it; the caller still owns and closes its own.

    Raises ProtocolError for a message that does not fit a packet, BlockingIOError on a non-blocking socket
    whose buffer is full (nothing was sent), and OSError when the peer is gone (EPIPE without a signal).
    """
    packet = _ENCODE(message).encode("ascii")
    if len(packet) > MAXIMUM_PACKET_BYTES:
        what = f"A control message of {len(packet)} bytes is longer than {MAXIMUM_PACKET_BYTES}."
        raise ProtocolError(what)
    if len(fds) > MAXIMUM_DESCRIPTORS:
        what = f"A control message with {len(fds)} descriptors has more than {MAXIMUM_DESCRIPTORS}."
        raise ProtocolError(what)
    ancillary = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
    sock.sendmsg([packet], ancillary, socket.MSG_NOSIGNAL)


def receive(sock: socket.socket) -> tuple[dict[str, Any], list[int]] | None:
    """Return the next message and the descriptors that came with it (close-on-exec, owned by the caller).

    Returns None once the peer has closed its end and all it said was read. Raises BlockingIOError on a
    non-blocking socket with nothing to read, and ProtocolError for a packet that is cut or is not one JSON
    object; its descriptors are closed then.
    """
    try:
        length, ancillary, flags, _ = sock.recvmsg_into([_BUFFER], _ROOM, socket.MSG_CMSG_CLOEXEC)
    except ConnectionResetError:
        # Linux reports a peer that closed with our packets unread once, ahead of what that peer still said.
        length, ancillary, flags, _ = sock.recvmsg_into([_BUFFER], _ROOM, socket.MSG_CMSG_CLOEXEC)
    packet = bytes(memoryview(_BUFFER)[:length])
    fds = _descriptors(ancillary)
    if not packet and not fds:
        return None
    try:
        return _decode(packet, flags), fds
    except ProtocolError:
        for fd in fds:
            os.close(fd)
        raise


def _descriptors(ancillary: list[tuple[int, int, bytes]]) -> list[int]:
    """Return every descriptor in the ancillary data; the Linux kernel never installs a part of one."""
    fds = array.array("i")
    for level, kind, data in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            fds.frombytes(data[: len(data) - len(data) % _INT_BYTES])
    return fds.tolist()


def _decode(packet: bytes, flags: int) -> dict[str, Any]:
    """Return the packet's JSON object. Raises ProtocolError where it is cut or not an object."""
    if flags & (socket.MSG_TRUNC | socket.MSG_CTRUNC) or len(packet) > MAXIMUM_PACKET_BYTES:
        what = "A control message was cut: longer, or with more descriptors, than the protocol allows."
        raise ProtocolError(what)
    try:
        message = json.loads(packet)
    except (ValueError, RecursionError) as error:
        what = f"A control message is not JSON: {error}."
        raise ProtocolError(what) from error
    if not isinstance(message, dict):
        what = f"A control message is a JSON {type(message).__name__}, not an object."
        raise ProtocolError(what)
    return message
