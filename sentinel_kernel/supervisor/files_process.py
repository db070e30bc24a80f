"""The files process as the supervisor sees it: forked when it is needed, asked without waiting, outlived by it.

It is a fork, not a program of its own: the interpreter and the modules are pages that both share. Of the sandbox it
has descriptors of folders, and of the supervisor one socket. What it was given it finishes, whoever else is killed.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import signal
import socket
from collections import deque

from sentinel_kernel.linux.process import close_descriptors
from sentinel_kernel.supervisor.forked_word import read_word

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from sentinel_kernel.supervisor.held_folders import HeldFolders
    from sentinel_kernel.workspace.setup import FilesSetup

MEMORY_BYTES = 200 * 1024 * 1024
"""Of its own (RLIMIT_DATA): what a cell wrote can't make it take more."""

_PACKET_BYTES = 208 * 1024
"""More than one of its packets may have (workspace/serving.py)."""

_CONTROL = 3
_LAST = (1 << 31) - 1
_ENCODE = json.JSONEncoder(separators=(",", ":"), ensure_ascii=True).encode


class FilesProcess:
    """One files process, for the folders of one sandbox."""

    def __init__(self, held: HeldFolders, setup: FilesSetup) -> None:
        """Fork it. Raises OSError where that can't be done."""
        self.sock, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            self.pid = os.fork()
        except OSError:
            self.sock.close()
            theirs.close()
            raise
        if self.pid == 0:
            _be_files_process(theirs, held, setup)
        theirs.close()
        self.sock.setblocking(False)
        self._outbox: deque[bytes] = deque()
        self.gone = False

    def give(self, packet: dict[str, Any]) -> None:
        """Hand over one packet (workspace/serving.py); what is not taken yet waits."""
        self._outbox.append(_ENCODE(packet).encode("ascii"))
        self.push()

    def push(self) -> None:
        """Send what waits, as far as it is taken."""
        while self._outbox and not self.gone:
            try:
                self.sock.send(self._outbox[0], socket.MSG_NOSIGNAL)
            except BlockingIOError:
                return
            except OSError:
                self.gone = True
                return
            self._outbox.popleft()

    def receive(self) -> list[dict[str, Any]]:
        """Return what the process has said since; sets ``gone`` at its end."""
        self.push()
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

    def rest(self) -> None:
        """Let it end, as there is nothing more to do."""
        self.give({"do": "rest"})

    def reap(self) -> bool:
        """Take note of the process's end; False where it still lives."""
        with contextlib.suppress(ChildProcessError):
            if os.waitpid(self.pid, os.WNOHANG)[0] == 0:
                return False
        self.close()
        return True

    def close(self) -> None:
        """Let go of it: it finishes what it was given and ends."""
        self.gone = True
        self.sock.close()


def _be_files_process(sock: socket.socket, held: HeldFolders, setup: FilesSetup) -> None:
    """Serve the supervisor in the forked process; never returns."""
    status = 1
    try:
        # It outlives the supervisor until all is done, so that it does not end with it by a signal.
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGIO):
            signal.signal(number, signal.SIG_IGN)
        sock = _alone(sock, [*held.descriptors(), *([setup.pidfd] if setup.pidfd >= 0 else [])])
        # The soft limit: what uploads, later and as a program of its own, raises it again (cli_artifacts.py).
        resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_BYTES, resource.getrlimit(resource.RLIMIT_DATA)[1]))
        from sentinel_kernel.workspace.serving import serve  # noqa: PLC0415 - the supervisor never needs it

        serve(sock, held, setup)
        status = 0
    except BaseException as error:  # noqa: BLE001 - nothing may return into the supervisor's code
        with contextlib.suppress(OSError, ValueError):
            sock.send(_ENCODE({"fault": repr(error)[:500]}).encode("ascii"), socket.MSG_NOSIGNAL)
    finally:
        os._exit(status)


def _alone(sock: socket.socket, kept: list[int]) -> socket.socket:
    """Keep ``sock`` and ``kept`` alone: the supervisor's other descriptors are none of its business."""
    import gc  # noqa: PLC0415 - the supervisor's start needs it not

    gc.freeze()
    number = sock.detach()
    first = _CONTROL
    for descriptor in sorted({number, *kept}):
        if descriptor > first:
            close_descriptors(first, descriptor - 1)
        first = max(first, descriptor + 1)
    close_descriptors(first, _LAST)
    null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    for descriptor in (0, 1, 2):
        os.dup2(null, descriptor, inheritable=False)
    os.close(null)
    alone = socket.socket(fileno=number)
    alone.setblocking(True)
    return alone
