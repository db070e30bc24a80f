"""Gives a supervisor its first request, before anything heavy is imported."""

from __future__ import annotations

import os
import pwd
import socket
import sys

from sentinel_kernel.audit.place import REQUIRED
from sentinel_kernel.kernel.settings import DEFAULT_CEILING, DEFAULT_PROFILE, session_id
from sentinel_kernel.kernel.spawning import spawn
from sentinel_kernel.record import Record, fresh
from sentinel_kernel.supervisor import protocol, rendezvous

TYPE_CHECKING = False  # nothing slow may be imported before the supervisor is started
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from sentinel_kernel.kernel.kept import Kept
    from sentinel_kernel.kernel.settings import Settings
    from sentinel_kernel.kernel.spawning import EarlySupervisor

_FIRST_REQUEST = 1
_RUN = os.urandom(8).hex()
"""What the audit calls this kernel, from the host's start to its end."""


class SupervisorProcess(Record):
    """A started supervisor: its pid, the host's end of the control socket, the first request's id.

    ``pidfd`` stands for one that is no child of this process: its pid may be another's once it has ended.
    """

    pid: int
    control: socket.socket
    first_request: int
    pidfd: int = -1


class PersonsOwn(Record):
    """What the person has set or allowed, and every sandbox gets.

    ``limits`` are theirs (policy/own_limits.py), ``granted_limits`` those of them that may go beyond the ceiling,
    ``hosts`` the rules of hosts (policy/network.py) that it can reach besides its profile's.
    """

    limits: Mapping[str, float | None] = fresh(default_factory=dict)
    granted_limits: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()


def start_request(
    settings: Settings,
    request_id: int,
    profile: str,
    reason: str,
    extra_arguments: tuple[str, ...] = (),
    *,
    own: PersonsOwn | None = None,
    generation: int = 0,
) -> dict[str, Any]:
    """Return the request that makes a sandbox (``reason``: start, reset, profile or restart).

    ``generation`` is the number of the last worker that the host has had; the next one's is higher.
    """
    own = own or PersonsOwn()
    return {
        "op": protocol.OP_START,
        "id": request_id,
        "profile": profile,
        "profile_directories": list(settings.profile_directories),
        # What a magic may change to without a fresh sandbox; what lies between the two is found out when asked for.
        "reachable": [settings.ceiling or DEFAULT_CEILING, DEFAULT_PROFILE],
        "workspace": settings.workspace,
        "python": settings.python,
        "python_facts": _own_facts() if settings.python == sys.executable else None,
        "magics": list(protocol.HOST_MAGICS),
        # The key in it speaks for the person; it may lie in the notebook's folder.
        "kernel": os.path.realpath(settings.connection_file),
        "hidden": [os.path.realpath(settings.connection_file)],
        "argv": [*settings.worker_arguments, f"--Session.session={session_id(settings.connection_file)}"],
        "argv_once": list(extra_arguments),
        "environment": settings.environment,
        "commit": settings.commit,
        "words": list(settings.mapping_files),
        "language": settings.language,
        "run": _RUN,
        "audit": _audit(settings),
        "ask_seconds": settings.ask_seconds,
        # Under a lab's configuration, what a user could have put there beforehand is not heeded.
        "cached": settings.lab is None,
        "reason": reason,
        "generation": generation,
        "limits": dict(own.limits),
        "granted_limits": list(own.granted_limits),
        "hosts": list(own.hosts),
        # Where a lab keeps every kernel under one profile, its limits bound those of the person, too.
        "limit_ceiling": [settings.profile]
        if settings.lab is not None and settings.lab.locked
        else [settings.ceiling or DEFAULT_CEILING, settings.profile],
    }


def _audit(settings: Settings) -> dict[str, str]:
    """Return the audit's variables (audit/place.py), of which a lab may leave the user none."""
    if settings.lab is not None and settings.lab.audit:
        names = ("SENTINEL_AUDIT", "SENTINEL_AUDIT_BYTES", "SENTINEL_AUDIT_DAYS", "XDG_STATE_HOME")
        return {
            **dict.fromkeys(names, ""),
            "HOME": _home(),
            "SENTINEL_AUDIT_ALERT": settings.lab.audit_alert,
            REQUIRED: "on",
        }
    return {name: value for name, value in os.environ.items() if name.startswith("SENTINEL_AUDIT")}


def _home() -> str:
    """Return the user's home as the machine knows it, whatever the user's HOME says."""
    try:
        return pwd.getpwuid(os.getuid()).pw_dir
    except KeyError:
        return ""


def _own_facts() -> dict[str, Any]:
    """Return what this process knows of its own interpreter: it saves the supervisor from asking it (some 40 ms)."""
    return {
        "prefix": sys.prefix,
        "base_prefix": sys.base_prefix,
        "module_directories": [path for path in sys.path if path],
    }


def start_supervisor(
    settings: Settings,
    profile: str,
    reason: str,
    extra_arguments: tuple[str, ...] = (),
    *,
    orphans: Kept | None = None,
    own: PersonsOwn | None = None,
    early: EarlySupervisor | None = None,
    generation: int = 0,
) -> SupervisorProcess:
    """Start a supervisor that makes a sandbox for ``profile`` at once, or have ``early`` do it, which is there.

    The one that this kernel's last host left, if it is still there, is taken instead.
    ``orphans`` are the folders of changed files that a killed supervisor left: this one saves them first.
    Raises OSError where no process can be started, ProtocolError where the request does not fit, SentinelError where a
    lab's configuration forbids every sandbox.
    """
    if settings.fault is not None:
        raise settings.fault
    request = start_request(
        settings, _FIRST_REQUEST, profile, reason, extra_arguments, own=own, generation=generation
    )
    kept = rendezvous.connect(request["kernel"]) if reason == "start" else None
    if kept is not None and (taken := _take_over(*kept, request)) is not None:
        if early is not None:
            early.drop()
        return taken
    if early is not None and (asked := _ask(early, request)) is not None:
        return asked
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        try:
            if orphans is not None and orphans.descriptors:
                request["orphans"] = orphans.named
            protocol.send(ours, request, orphans.descriptors if orphans is not None else ())
            pid = spawn(theirs.fileno())
        except BaseException:
            ours.close()
            raise
    ours.setblocking(False)
    return SupervisorProcess(pid, ours, _FIRST_REQUEST)


def _ask(early: EarlySupervisor, request: dict[str, Any]) -> SupervisorProcess | None:
    """Give the request to the supervisor that was started early; None where it was killed meanwhile."""
    ours = socket.socket(fileno=early.control.detach())
    try:
        protocol.send(ours, request)
    except OSError:
        early.drop()
        ours.close()
        return None
    ours.setblocking(False)
    return SupervisorProcess(early.pid, ours, request["id"])


def _take_over(control: socket.socket, pid: int, request: dict[str, Any]) -> SupervisorProcess | None:
    """Give the request to a supervisor that waits for it; None where it is gone."""
    pidfd = -1
    try:
        pidfd = os.pidfd_open(pid)
        protocol.send(control, request)  # it is there to be sent to, so the pid was still its own
    except OSError:
        if pidfd >= 0:
            os.close(pidfd)
        control.close()
        return None
    control.setblocking(False)
    return SupervisorProcess(pid, control, request["id"], pidfd)
