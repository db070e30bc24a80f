"""The four connections between host and worker, made before the sandbox exists so that nobody can dial in later."""

from __future__ import annotations

import contextlib
import os
import socket

from sentinel_kernel.errors import BootError
from sentinel_kernel.record import MutableRecord
from sentinel_kernel.supervisor.meeting_place import base_directory, is_private
from sentinel_kernel.supervisor.rendezvous import sweep

CHANNEL_NAMES = ("shell", "control", "stdin", "iopub")
_PREFIX = "run-"
LESSER = "landlock-rung"
"""A file of this name beside the run folders tells that a sandbox on that rung was there, which may have left something
(supervisor/rung_sandbox.py)."""


class Channels(MutableRecord):
    """Listening sockets for the worker and the connected other ends for the host, in CHANNEL_NAMES order."""

    listening: list[socket.socket]
    connected: list[socket.socket]

    def close_connected(self) -> None:
        """Close this process's copies of the host's ends."""
        while self.connected:
            self.connected.pop().close()

    def close(self) -> None:
        """Close this process's copies; the descriptors that were sent live on with their receivers."""
        for sock in (*self.listening, *self.connected):
            sock.close()


class RunDirectory:
    """A private folder that exists only while a sandbox is being set up.

    It is also the proof of the root change: it exists on the host and must not be visible inside.
    """

    def __init__(self) -> None:
        """Create it below the user's runtime directory, and sweep what killed supervisors left there.

        Raises:
            BootError: no such folder can be made, or the place belongs to somebody else.

        """
        base = _make_base_directory()
        _sweep(base)
        sweep(base)
        if os.path.exists(os.path.join(base, LESSER)):
            from sentinel_kernel.supervisor.rung_sandbox import sweep_lesser  # noqa: PLC0415 - few users have any

            sweep_lesser(base)
        try:
            self.path = os.path.join(base, f"{_PREFIX}{os.getpid()}-{os.urandom(6).hex()}")
            os.mkdir(self.path, 0o700)
        except OSError as error:
            raise BootError(
                "make_run_directory",
                error.errno or 0,
                f"No private folder can be made below {base}: {error.strerror}.",
                "Free some disk space, or set XDG_RUNTIME_DIR to a folder of yours.",
            ) from None

    def make_channels(self) -> Channels:
        """Bind, listen and connect four stream sockets, then remove their names."""
        listening: list[socket.socket] = []
        connected: list[socket.socket] = []
        # Through the folder's descriptor: a socket's name has at most 107 bytes (unix(7)), a path may be longer.
        directory = os.open(self.path, os.O_PATH | os.O_CLOEXEC)
        try:
            for name in CHANNEL_NAMES:
                path = f"/proc/self/fd/{directory}/{name}"
                server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
                listening.append(server)
                server.bind(path)
                server.listen(1)
                client = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
                connected.append(client)
                client.connect(path)
                os.unlink(path)
        except OSError:
            Channels(listening, connected).close()
            raise
        finally:
            os.close(directory)
        return Channels(listening, connected)

    def close(self) -> None:
        """Remove the folder; idempotent. Where that fails it is swept once this process is gone.

        Who closes it has a sandbox, which must not end over a folder that the disk does not let go.
        """
        with contextlib.suppress(OSError):
            _remove(self.path)


def _make_base_directory() -> str:
    base = base_directory()
    os.makedirs(base, 0o700, exist_ok=True)
    if not is_private(base):
        raise BootError(
            "make_run_directory",
            1,
            f"The folder {base} is not a private folder of yours.",
            "Remove it, or set XDG_RUNTIME_DIR to a folder of yours.",
        )
    return base


def _sweep(base: str) -> None:
    for name in os.listdir(base):
        owner = name.removeprefix(_PREFIX).split("-")[0]
        if name.startswith(_PREFIX) and owner.isdigit() and not os.path.exists(f"/proc/{owner}"):
            with contextlib.suppress(OSError):
                _remove(os.path.join(base, name))


def _remove(directory: str) -> None:
    """Remove a run directory: it holds sockets and nothing else."""
    for name in os.listdir(directory):
        os.unlink(os.path.join(directory, name))
    os.rmdir(directory)
