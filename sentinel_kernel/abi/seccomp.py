"""Constants and layouts of ``<linux/seccomp.h>`` and its user-space notification (seccomp_unotify(2))."""

from __future__ import annotations

from enum import IntFlag

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

SECCOMP_SET_MODE_FILTER: Final = 1
SECCOMP_GET_NOTIF_SIZES: Final = 3


class FilterFlags(IntFlag):
    """``SECCOMP_FILTER_FLAG_*`` of seccomp(2)."""

    NEW_LISTENER = 1 << 3
    WAIT_KILLABLE_RECV = 1 << 5  # Linux 5.19


USER_NOTIF_FLAG_CONTINUE: Final = 1
# struct seccomp_notif { u64 id; u32 pid, flags; struct seccomp_data { int nr; u32 arch; u64 ip, args[6]; } data; }
NOTIFICATION_FORMAT: Final = "=QIIiIQ6Q"
NOTIFICATION_SIZE: Final = 80
# struct seccomp_notif_resp { u64 id; s64 val; s32 error; u32 flags; }
RESPONSE_FORMAT: Final = "=QqiI"
RESPONSE_SIZE: Final = 24
# struct seccomp_notif_sizes { u16 seccomp_notif, seccomp_notif_resp, seccomp_data; }
SIZES_FORMAT: Final = "=HHH"

IOCTL_NOTIF_RECV: Final = 0xC0502100
IOCTL_NOTIF_SEND: Final = 0xC0182101
IOCTL_NOTIF_ID_VALID: Final = 0x40082102
IOCTL_NOTIF_SET_FLAGS: Final = 0x40082104  # Linux 6.6
IOCTL_NOTIF_ADDFD: Final = 0x40182103
# struct seccomp_notif_addfd { u64 id; u32 flags, srcfd, newfd, newfd_flags; }
ADDFD_FORMAT: Final = "=QIIII"
ADDFD_FLAG_SETFD: Final = 1
ADDFD_FLAG_SEND: Final = 2  # Linux 5.14
USER_NOTIF_FD_SYNC_WAKE_UP: Final = 1
BPF_INSTRUCTION_SIZE: Final = 8
BPF_MAXIMUM_INSTRUCTIONS: Final = 4096
