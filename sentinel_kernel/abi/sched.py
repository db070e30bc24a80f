"""Constants of ``<linux/sched.h>``."""

from __future__ import annotations

import ctypes
from enum import IntFlag


class CloneFlags(IntFlag):
    """Flags of clone(2)."""

    NEWTIME = 0x00000080
    THREAD = 0x00010000
    PIDFD = 0x00001000
    NEWNS = 0x00020000
    NEWCGROUP = 0x02000000
    NEWUTS = 0x04000000
    NEWIPC = 0x08000000
    NEWUSER = 0x10000000
    NEWPID = 0x20000000
    NEWNET = 0x40000000
    INTO_CGROUP = 0x200000000
    """clone3(2) alone knows it."""


class CloneArguments(ctypes.Structure):
    """``struct clone_args``."""

    _fields_ = (
        ("flags", ctypes.c_uint64),
        ("pidfd", ctypes.c_uint64),
        ("child_tid", ctypes.c_uint64),
        ("parent_tid", ctypes.c_uint64),
        ("exit_signal", ctypes.c_uint64),
        ("stack", ctypes.c_uint64),
        ("stack_size", ctypes.c_uint64),
        ("tls", ctypes.c_uint64),
        ("set_tid", ctypes.c_uint64),
        ("set_tid_size", ctypes.c_uint64),
        ("cgroup", ctypes.c_uint64),
    )


SANDBOX_NAMESPACES = (
    CloneFlags.NEWUSER
    | CloneFlags.NEWPID
    | CloneFlags.NEWNS
    | CloneFlags.NEWNET
    | CloneFlags.NEWUTS
    | CloneFlags.NEWIPC
)
"""Those of clone(2). The control group namespace is left to the boot: its root is the group that it is made in."""
