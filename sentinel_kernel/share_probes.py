"""Tries of what shares a machine out among sandboxes: control groups, weights of sessions (probes.py runs them)."""

from __future__ import annotations

import contextlib
import os
import time
from typing import Final

from sentinel_kernel.abi.sched import CloneFlags
from sentinel_kernel.errors import UnsupportedHost
from sentinel_kernel.linux import autogroup, namespaces


def control_groups() -> str:
    """Have a process start in a control group of its own; return which controllers it has."""
    from sentinel_kernel.supervisor.backend import Backends  # noqa: PLC0415 - only this probe needs it

    backends = Backends()
    try:
        backend = backends.make("auto")
        if backend.group < 0:
            raise UnsupportedHost(backend.detail, groups_remedy(backend.remedy or DELEGATED))
        try:
            child, _ = namespaces.clone_into(CloneFlags(0), backend.group)
            if child == 0:
                os._exit(0)
            os.waitpid(child, 0)
        finally:
            backend.close()
        return f"{'a scope of systemd: ' if backend.name == 'systemd' else ''}{backend.detail}"
    finally:
        backends.close()


def autogroups() -> str:
    """Give a session a nice value of its own."""
    if obstacle := autogroup.obstacle():
        raise UnsupportedHost(*_NO_AUTOGROUP[obstacle])
    child = os.fork()
    if child == 0:
        try:
            os.setsid()
            os._exit(_weigh())
        finally:
            os._exit(0)
    if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) != 1:
        raise UnsupportedHost("A session's nice value was not set.", "")
    return "a session was given a nice value of its own"


def _weigh() -> int:
    """Return the nice value of a session that was given 1; somebody else may use up what is taken in a second."""
    until = time.monotonic() + _WEIGH_SECONDS
    while time.monotonic() < until:
        with contextlib.suppress(BlockingIOError):
            autogroup.set_nice("self", 1)
            break
        time.sleep(_WEIGH_SECONDS / 100)
    group = autogroup.group_of("self")
    return group[1] if group else 0


_WEIGH_SECONDS: Final = 5.0

_NO_AUTOGROUP: Final = {
    "absent": (
        "This Linux kernel was built without autogroups.",
        "It takes CONFIG_SCHED_AUTOGROUP, or a delegated control group with the controller cpu.",
    ),
    "off": ("Autogroups are off.", "As root: sysctl -w kernel.sched_autogroup_enabled=1"),
    "group": (
        "A control group of this process's shares out processors, so that its sessions have no weight of their own.",
        "Not needed where cgroup v2 delegation has the controller cpu; else start JupyterLab where it has.",
    ),
}

DELEGATED = (
    "start JupyterLab in a session of systemd's (loginctl enable-linger USER), or in a delegated control group "
    "(cgroups(7))"
)


def groups_remedy(what: str) -> str:
    """Return what to do where ``what`` leads to control groups."""
    return f"Not needed: rlimits, sizes of file systems and watching keep the limits. To have it: {what}."
