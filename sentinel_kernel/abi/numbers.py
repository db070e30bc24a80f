"""Numbers of the system calls that Sentinel itself makes, for each machine it runs on.

Source: ``arch/x86/entry/syscalls/syscall_64.tbl`` and ``include/uapi/asm-generic/unistd.h``. Calls added since
Linux 5.1 have one number everywhere.
"""

from __future__ import annotations

import os

from sentinel_kernel.errors import UnsupportedHost

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

_COMMON: Final = {
    "open_tree": 428,
    "move_mount": 429,
    "fsconfig": 431,
    "fspick": 433,
    "pidfd_open": 434,
    "clone3": 435,
    "close_range": 436,
    "openat2": 437,
    "pidfd_getfd": 438,
    "mount_setattr": 442,
    "landlock_create_ruleset": 444,
    "landlock_add_rule": 445,
    "landlock_restrict_self": 446,
}
_BY_MACHINE: Final = {
    "x86_64": {
        "clone": 56,
        "capset": 126,
        "personality": 135,
        "setfsuid": 122,
        "setfsgid": 123,
        "fstatfs": 138,
        "pivot_root": 155,
        "tgkill": 234,
        "keyctl": 250,
        "ioprio_get": 252,
        "unshare": 272,
        "utimensat": 280,
        "syncfs": 306,
        "setns": 308,
        "process_vm_readv": 310,
        "process_vm_writev": 311,
        "kcmp": 312,
        "renameat2": 316,
        "statx": 332,
        "seccomp": 317,
        **_COMMON,
    },
    "aarch64": {
        "clone": 220,
        "fstatfs": 44,
        "capset": 91,
        "personality": 92,
        "pivot_root": 41,
        "tgkill": 131,
        "keyctl": 219,
        "ioprio_get": 31,
        "unshare": 97,
        "utimensat": 88,
        "setfsuid": 151,
        "setfsgid": 152,
        "syncfs": 267,
        "setns": 268,
        "process_vm_readv": 270,
        "process_vm_writev": 271,
        "kcmp": 272,
        "renameat2": 276,
        "statx": 291,
        "seccomp": 277,
        **_COMMON,
    },
}


def own_calls(machine: str | None = None) -> dict[str, int]:
    """Return the numbers for ``machine`` (default: this one, as uname(2) names it).

    Raises:
        UnsupportedHost: the machine has no table here; a guess would call something else.

    """
    name = machine if machine is not None else os.uname().machine
    try:
        return dict(_BY_MACHINE[name])
    except KeyError:
        raise UnsupportedHost(
            f"Sentinel has no system call table for the machine '{name}'.",
            "It runs on x86_64 and aarch64.",
        ) from None
