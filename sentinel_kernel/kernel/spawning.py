"""Starts the supervisor's process; at the kernel's start, before the host has imported anything.

Its interpreter takes as long to start as the host needs for finding out what to ask of it: both are done side by side.
"""

from __future__ import annotations

import _socket  # the plain one: importing socket, for its enumerations, takes as long as all that is done here
import os
import sys

from sentinel_kernel.supervisor.meeting_place import is_awaited

TYPE_CHECKING = False  # nothing slow may be imported before the supervisor is started
if TYPE_CHECKING:
    from collections.abc import Sequence

CONTROL_FD = 3
"""Where the supervisor finds its end of the control socket."""

_SECRETS = ("TOKEN", "PASSWORD", "SECRET", "API_KEY")
# signal(7): the same on every architecture that there is a table for.
_SIGINT, _SIGPIPE, _SIGTERM = 2, 13, 15
_SIGKILL = 9


class EarlySupervisor:
    """A supervisor that waits for its first request: its process id, and the host's end of its control socket."""

    def __init__(self, pid: int, control: _socket.socket) -> None:
        """Take over both."""
        self.pid = pid
        self.control = control

    def drop(self) -> None:
        """End it: another one was found, or there is nothing to ask of it. It has made nothing yet. Idempotent."""
        self.control.close()
        if self.pid > 0:
            os.kill(self.pid, _SIGKILL)
            os.waitpid(self.pid, 0)
            self.pid = -1


def start_early(arguments: Sequence[str]) -> EarlySupervisor | None:
    """Start the supervisor of the kernel with these command line arguments.

    None where one may be waiting already, where the arguments don't tell, or where it can't be started: what
    supervisor_process.py does then says what is wrong.
    """
    if "-f" not in arguments[:-1]:
        return None
    if is_awaited(os.path.realpath(arguments[arguments.index("-f") + 1])):
        return None
    try:
        ours, theirs = _socket.socketpair(_socket.AF_UNIX, _socket.SOCK_SEQPACKET | _socket.SOCK_CLOEXEC)
    except OSError:
        return None
    try:
        return EarlySupervisor(spawn(theirs.fileno()), ours)
    except OSError:
        ours.close()
        return None
    finally:
        theirs.close()


def spawn(control_fd: int) -> int:
    """Start a supervisor whose control socket is ``control_fd`` here, and return its process id."""
    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    script = os.path.join(package, "supervisor", "__main__.py")
    # A session of its own: the client's SIGKILL for the host's process group must not take the supervisor,
    # which saves files first. Its standard streams stay the server's log, save the input.
    # Where the socket is that number already, a copy is used: dup2 onto itself would keep close-on-exec.
    spare = os.dup(control_fd) if control_fd == CONTROL_FD else -1
    try:
        return os.posix_spawn(
            sys.executable,
            # It runs without site; the folders are for pyseccomp, behind the standard library.
            [sys.executable, "-I", "-S", script, *(path for path in sys.path if path.endswith("-packages"))],
            supervisor_environment(dict(os.environ)),
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                (os.POSIX_SPAWN_DUP2, spare if spare >= 0 else control_fd, CONTROL_FD),
            ],
            setsid=True,
            setsigmask=[],
            setsigdef=[_SIGINT, _SIGPIPE, _SIGTERM],
        )
    finally:
        if spare >= 0:
            os.close(spare)


def supervisor_environment(environment: dict[str, str]) -> dict[str, str]:
    """Return the environment without what looks like a secret: the supervisor has no use for one."""
    # Saved files may go to a place that wants one (SENTINEL_ARTIFACTS=URL).
    uploads = "://" in environment.get("SENTINEL_ARTIFACTS", "")
    return {
        name: value
        for name, value in environment.items()
        if (uploads or not any(mark in name.upper() for mark in _SECRETS)) and not name.startswith("PYTHON")
    }
