"""Constants of ``<linux/prctl.h>``, ``<linux/securebits.h>`` and ``<linux/capability.h>``."""

from __future__ import annotations

from enum import IntFlag

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

PR_SET_PDEATHSIG: Final = 1
PR_GET_DUMPABLE: Final = 3
PR_SET_DUMPABLE: Final = 4
PR_CAPBSET_DROP: Final = 24
PR_SET_SECUREBITS: Final = 28
PR_SET_NO_NEW_PRIVS: Final = 38
PR_SET_CHILD_SUBREAPER: Final = 36
PR_CAP_AMBIENT: Final = 47
PR_CAP_AMBIENT_CLEAR_ALL: Final = 4


class SecureBits(IntFlag):
    """``SECBIT_*`` of capabilities(7)."""

    NOROOT = 1 << 0
    NOROOT_LOCKED = 1 << 1
    NO_SETUID_FIXUP = 1 << 2
    NO_SETUID_FIXUP_LOCKED = 1 << 3
    KEEP_CAPS_LOCKED = 1 << 5
    NO_CAP_AMBIENT_RAISE = 1 << 6
    NO_CAP_AMBIENT_RAISE_LOCKED = 1 << 7


LINUX_CAPABILITY_VERSION_3: Final = 0x20080522
CAP_SYS_ADMIN: Final = 21
KEYCTL_JOIN_SESSION_KEYRING: Final = 1
