"""Asking the user's systemd for a scope of our own: a group that it leaves to us (StartTransientUnit, Delegate=yes)."""

from __future__ import annotations

import os
import select
import signal
import time

from sentinel_kernel.errors import UnsupportedHost
from sentinel_kernel.linux.cgroup import own_place

TYPE_CHECKING = False
if TYPE_CHECKING:
    from sentinel_kernel.linux.cgroup import Place

_SECONDS = 10.0
"""The user's systemd answers in some ten milliseconds; one that hangs must not hang the kernel's start."""

_LOOK_SECONDS = 0.002
# By full path: the PATH may lead through folders of the notebook's.
_BUSCTL = ("/usr/bin/busctl", "/bin/busctl")
_CALL = (
    *("call", "org.freedesktop.systemd1", "/org/freedesktop/systemd1", "org.freedesktop.systemd1.Manager"),
    *("StartTransientUnit", "ssa(sv)a(sa(sv))"),
)


def enter_scope() -> Place:
    """Move this process into a new scope of the user manager's and return where that is.

    Raises:
        UnsupportedHost: there is no user manager, or it did not do so; the message says which.

    """
    runtime = os.environ.get("XDG_RUNTIME_DIR") or f"/run/user/{os.geteuid()}"
    bus = f"{runtime}/bus"
    if not os.path.exists(f"{runtime}/systemd/private"):
        raise UnsupportedHost(f"No systemd of this user runs ({runtime}/systemd/private is not there).")
    if not os.path.exists(bus):
        raise UnsupportedHost(f"The user's message bus is not there ({bus}).")
    busctl = next((path for path in _BUSCTL if os.access(path, os.X_OK)), None)
    if busctl is None:
        raise UnsupportedHost("The program busctl, which comes with systemd, is not installed.")
    before = own_place()
    deadline = time.monotonic() + _SECONDS
    status = _run(
        [
            *(busctl, "--user", "--quiet", f"--timeout={_SECONDS:.0f}", *_CALL),
            *(f"sentinel-kernel-{os.getpid()}-{time.monotonic_ns()}.scope", "fail"),
            *("4", "Description", "s", "Sentinel Kernel: sandboxes of one notebook"),
            *("PIDs", "au", "1", str(os.getpid())),
            *("Delegate", "b", "true", "CollectMode", "s", "inactive-or-failed"),
            "0",
        ],
        {"XDG_RUNTIME_DIR": runtime, "DBUS_SESSION_BUS_ADDRESS": f"unix:path={bus}", "LANG": "C"},
        deadline,
    )
    if status != 0:
        raise UnsupportedHost(
            f"The user's systemd made no scope: busctl {'took too long' if status is None else f'gave {status}'}."
        )
    while (place := own_place()).path == before.path:
        if time.monotonic() >= deadline:
            raise UnsupportedHost("The user's systemd did not move the supervisor into its scope in time.")
        time.sleep(_LOOK_SECONDS)  # it answers once the job is queued, and there is nothing to wait on
    return place


def _run(command: list[str], environment: dict[str, str], deadline: float) -> int | None:
    """Run a program without input and output; return its exit status, None where it was killed at the deadline."""
    pid = os.posix_spawn(
        command[0],
        command,
        environment,
        file_actions=[(os.POSIX_SPAWN_OPEN, number, os.devnull, os.O_RDWR, 0) for number in (0, 1, 2)],
    )
    pidfd = os.pidfd_open(pid)
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    ended = bool(poll.poll(max(0.0, deadline - time.monotonic()) * 1000))
    if not ended:
        signal.pidfd_send_signal(pidfd, signal.SIGKILL)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    os.close(pidfd)
    return status if ended else None
