"""The audit's writer process as the supervisor sees it: forked late, fed without waiting, outlived by it.

It is a fork, not a program of its own: the interpreter and the modules are pages that both share.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import time
from collections import deque

from sentinel_kernel.linux.process import close_descriptors
from sentinel_kernel.supervisor.forked_word import read_word

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from sentinel_kernel.audit.place import AuditSettings

_PACKET_BYTES = 96 * 1024
"""Reports are put together up to about this size: one more always fits a packet (audit/writer.py)."""
_OUTBOX_PACKETS = 32
_CONTROL = 3
_LINGER_SECONDS = 2.0

_ENCODE = json.JSONEncoder(separators=(",", ":"), ensure_ascii=True).encode


class AuditProcess:
    """One writer process."""

    def __init__(self, settings: AuditSettings) -> None:
        """Fork it. Raises OSError where that can't be done."""
        self.sock, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            self.pid = os.fork()
        except OSError:
            self.sock.close()
            theirs.close()
            raise
        if self.pid == 0:
            _be_writer(theirs, settings)
        theirs.close()
        self.sock.setblocking(False)
        self._outbox: deque[bytes] = deque()
        self._poll = select.poll()
        self._poll.register(self.sock, select.POLLIN)
        self.gone = False

    @property
    def full(self) -> bool:
        """Whether as much waits for the writer as may: nothing more should be given to it now."""
        return len(self._outbox) >= _OUTBOX_PACKETS

    @property
    def waits(self) -> bool:
        """Whether something waits for the writer to read."""
        return bool(self._outbox)

    def give(self, reports: Iterable[tuple[str, dict[str, Any]]], token: int = 0) -> bool:
        """Hand over reports in order; ``token`` asks for an answer once they are on the disk.

        Returns False where something has to wait: :meth:`push` goes on with it.
        """
        parts: list[str] = []
        size = 0
        for report in reports:
            part = _ENCODE(report)
            if size and size + len(part) > _PACKET_BYTES:
                self._outbox.append(_packet(0, parts))
                parts, size = [], 0
            parts.append(part)
            size += len(part)
        if parts or token:
            self._outbox.append(_packet(token, parts))
        return self.push()

    def push(self) -> bool:
        """Send what waits, as far as the writer takes it; True when nothing is left."""
        while self._outbox and not self.gone:
            try:
                self.sock.send(self._outbox[0], socket.MSG_NOSIGNAL)
            except BlockingIOError:
                return False
            except OSError:
                self.gone = True
                return False
            self._outbox.popleft()
        return not self._outbox

    def left(self) -> list[tuple[str, dict[str, Any]]]:
        """Return, and forget, the reports that the writer has not taken."""
        packets, self._outbox = self._outbox, deque()
        return [
            (kind, values)
            for packet in packets
            for kind, values in json.loads(packet)[1]
            if kind not in ("rest", "run")  # the next writer is told of the run first
        ]

    def receive(self) -> list[dict[str, Any]]:
        """Return what the writer has said since; sets ``gone`` at its end."""
        said: list[dict[str, Any]] = []
        while not self.gone:
            try:
                packet = self.sock.recv(_PACKET_BYTES)
            except BlockingIOError:
                break
            except OSError:
                packet = b""
            word = read_word(packet, _PACKET_BYTES)
            if word is not None:
                said.append(word)
            else:
                self.gone = True
        return said

    def wait(self, seconds: float) -> bool:
        """Wait until the writer says something, or ``seconds`` have passed; False for the latter."""
        return bool(self._poll.poll(max(0.0, seconds) * 1000))

    def rest(self) -> None:
        """Let the writer end, as there is nothing to write; :meth:`reap` it later."""
        self.give([("rest", {})])
        with contextlib.suppress(OSError):  # it is gone already, which is heard
            self.sock.shutdown(socket.SHUT_WR)

    def reap(self) -> bool:
        """Take note of the process's end; False where it still lives."""
        with contextlib.suppress(ChildProcessError):
            if os.waitpid(self.pid, os.WNOHANG)[0] == 0:
                return False
        self.sock.close()
        return True

    def close(self, seconds: float = _LINGER_SECONDS, *, meant: bool = False) -> None:
        """Let the writer write the rest and end; wait for that a little, else leave it to it.

        ``meant`` says that the supervisor ends as it should, and whatever still runs in the rows was ended by it.
        """
        end = time.monotonic() + seconds
        if meant:
            self.give([("rest", {})])
        while not self.push() and not self.gone and time.monotonic() < end:
            poll = select.poll()
            poll.register(self.sock, select.POLLOUT)
            poll.poll(100)
        self.sock.close()
        if self.reap():
            return
        with contextlib.suppress(ProcessLookupError, ChildProcessError):
            descriptor = os.pidfd_open(self.pid)
            try:
                poll = select.poll()
                poll.register(descriptor, select.POLLIN)
                if poll.poll(max(0.0, end - time.monotonic()) * 1000):
                    os.waitpid(self.pid, 0)
            finally:
                os.close(descriptor)


def _packet(token: int, parts: list[str]) -> bytes:
    return f"[{token},[{','.join(parts)}]]".encode("ascii")


def _be_writer(sock: socket.socket, settings: AuditSettings) -> None:
    """Serve the supervisor in the forked process; never returns."""
    status = 1
    try:
        # It outlives the supervisor until all is written, so it does not end with it by a signal.
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        sock = _alone(sock)
        from sentinel_kernel.audit.writer import Writer  # noqa: PLC0415 - the supervisor never needs it

        Writer(sock, settings).run()
        status = 0
    except BaseException as error:  # noqa: BLE001 - nothing may return into the supervisor's code
        with contextlib.suppress(OSError, ValueError):
            sock.send(
                _ENCODE({"state": "failing", "reason": repr(error)[:500], "remedy": ""}).encode("ascii")
            )
    finally:
        os._exit(status)


def _alone(sock: socket.socket) -> socket.socket:
    """Keep ``sock`` alone: whoever waits for the end of one of the supervisor's descriptors must not wait for us."""
    import gc  # noqa: PLC0415 - the supervisor's start needs it not

    gc.freeze()
    null = os.open(os.devnull, os.O_RDWR)
    moved = os.dup(sock.fileno()) if sock.fileno() == _CONTROL else -1
    os.dup2(moved if moved >= 0 else sock.fileno(), _CONTROL, inheritable=False)
    for descriptor in (0, 1, 2):
        os.dup2(null, descriptor, inheritable=False)
    close_descriptors(_CONTROL + 1, (1 << 31) - 1)
    alone = socket.socket(fileno=_CONTROL)
    alone.setblocking(False)
    return alone
