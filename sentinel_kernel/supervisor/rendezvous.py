"""Where a supervisor that outlives its host waits for the next host of the same kernel.

A server restarts a kernel by ending the host process and starting another with the same connection file. The supervisor
that was left may then have a warm interpreter ready; the next host connects to a socket whose name both can work out.
The folder is the user's alone (mode 0700), so that nobody else can stand on either end.
"""

from __future__ import annotations

import contextlib
import os
import select
import socket
import struct
import sys
import time

from sentinel_kernel import __version__
from sentinel_kernel.supervisor import protocol
from sentinel_kernel.supervisor.meeting_place import PREFIX, base_directory, is_private, own_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

_CREDENTIALS = struct.Struct("3i")  # struct ucred: pid, uid, gid
KEEP_SECONDS = 5.0
"""A server starts the next host within a fraction of a second, and the one of a kernel that was killed within three."""


def socket_name(kernel: str) -> str:
    """Return the name that stands for one kernel (its connection file) served by this very version of the program."""
    stamp = os.stat(protocol.__file__).st_mtime_ns
    return f"{PREFIX}{__version__}-{stamp:x}-{sys.version_info[0]}.{sys.version_info[1]}-{own_name(kernel)}"


def connect(kernel: str) -> tuple[socket.socket, int] | None:
    """Return a connection to the supervisor that waits for the next host of ``kernel``, and its pid; None if none does.

    The supervisor belongs to this user: the Linux kernel says so (unix(7), SO_PEERCRED).
    """
    base = base_directory()
    if not is_private(base):
        return None
    path = os.path.join(base, socket_name(kernel))
    if not os.path.exists(path):
        return None
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        with _short(base) as directory:
            sock.connect(f"{directory}/{os.path.basename(path)}")
        pid = _peer(sock)
    except OSError:
        sock.close()
        return None
    if pid is None:
        sock.close()
        return None
    return sock, pid


class Door:
    """A listening socket under the kernel's name; at most one host comes in."""

    def __init__(self, kernel: str) -> None:
        """Listen. Raises OSError where no such socket can be made."""
        base = base_directory()
        if not is_private(base):
            raise OSError(1, "not a private folder", base)
        self._path = os.path.join(base, socket_name(kernel))
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_NONBLOCK)
        try:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self._path)
            with _short(base) as directory:
                self.sock.bind(f"{directory}/{os.path.basename(self._path)}")
            self.sock.listen(1)
            self._inode = os.lstat(self._path).st_ino
        except OSError:
            self.sock.close()
            raise

    def accept(self) -> socket.socket | None:
        """Return the next host's socket; None where nobody of this user came."""
        try:
            sock = self.sock.accept()[0]
        except OSError:
            return None
        if _peer(sock) is None:
            sock.close()
            return None
        return sock

    def close(self) -> None:
        """Stop listening and remove the name, if it is still this door's."""
        with contextlib.suppress(OSError):
            if os.lstat(self._path).st_ino == self._inode:
                os.unlink(self._path)
        self.sock.close()


def sweep(base: str) -> None:
    """Remove the names that killed supervisors left in ``base``: those where nobody listens."""
    for name in os.listdir(base):
        if not name.startswith(PREFIX):
            continue
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock, _short(base) as directory:
            try:
                # The type is another on purpose: a door that is in use answers EPROTOTYPE and is left alone.
                sock.connect(f"{directory}/{name}")
            except ConnectionRefusedError:
                with contextlib.suppress(OSError):
                    os.unlink(os.path.join(base, name))
            except OSError:
                continue


@contextlib.contextmanager
def _short(directory: str) -> Iterator[str]:
    """Give a short name of ``directory``: a socket's name has at most 107 bytes (unix(7)), a path may be longer."""
    descriptor = os.open(directory, os.O_PATH | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)


def _peer(sock: socket.socket) -> int | None:
    """Return the process at the other end, if it is this user's."""
    pid, uid, _ = _CREDENTIALS.unpack(
        sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    )
    return pid if uid == os.geteuid() else None


class Succession:
    """Keeps a door open for the next host, for some seconds after the last one has left."""

    def __init__(self, poll: select.poll) -> None:
        """Start with the door closed; ``poll`` is told of it while it is open."""
        self._poll = poll
        self._door: Door | None = None
        self._closes = 0.0

    @property
    def waiting(self) -> bool:
        """Whether the next host may still come."""
        return self._door is not None and time.monotonic() < self._closes

    def open(self, kernel: str) -> None:
        """Wait for the next host of ``kernel`` from now on; where no door can be made, there is none."""
        self.close()
        try:
            self._door = Door(kernel)
        except OSError:
            return  # the next host starts a supervisor of its own
        self._poll.register(self._door.sock, select.POLLIN)
        self._closes = time.monotonic() + KEEP_SECONDS

    def next_host(self) -> socket.socket | None:
        """Return the next host's socket once it has come; the door is closed then."""
        sock = self._door.accept() if self._door is not None else None
        if sock is not None:
            self.close()
        return sock

    def due_seconds(self) -> float | None:
        """Return for how many seconds the door stays open, or None where it is closed."""
        return max(0.0, self._closes - time.monotonic()) if self._door is not None else None

    def close(self) -> None:
        """Close the door; idempotent."""
        if self._door is not None:
            self._poll.unregister(self._door.sock)
            self._door.close()
            self._door = None
