"""Constants of ``<linux/sched.h>``."""

from __future__ import annotations

from enum import IntFlag


class CloneFlags(IntFlag):
    """Flags of clone(2)."""

    NEWTIME = 0x00000080
    PIDFD = 0x00001000
    NEWNS = 0x00020000
    NEWCGROUP = 0x02000000
    NEWUTS = 0x04000000
    NEWIPC = 0x08000000
    NEWUSER = 0x10000000
    NEWPID = 0x20000000
    NEWNET = 0x40000000


SANDBOX_NAMESPACES = (
    CloneFlags.NEWUSER
    | CloneFlags.NEWPID
    | CloneFlags.NEWNS
    | CloneFlags.NEWNET
    | CloneFlags.NEWUTS
    | CloneFlags.NEWIPC
    | CloneFlags.NEWCGROUP
)
