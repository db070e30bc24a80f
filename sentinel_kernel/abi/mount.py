"""Constants of ``<linux/mount.h>``: mount(2), open_tree(2), move_mount(2), mount_setattr(2), fspick(2)."""

from __future__ import annotations

from enum import IntFlag

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final


class MountFlags(IntFlag):
    """Flags of mount(2)."""

    RDONLY = 1
    NOSUID = 2
    NODEV = 4
    NOEXEC = 8
    REMOUNT = 32
    NOSYMFOLLOW = 256
    NOATIME = 1024
    NODIRATIME = 2048
    BIND = 4096
    MOVE = 8192
    REC = 16384
    PRIVATE = 1 << 18
    RELATIME = 1 << 21


class MountAttributes(IntFlag):
    """``MOUNT_ATTR_*`` of mount_setattr(2), Linux 5.12."""

    RDONLY = 0x00000001
    NOSUID = 0x00000002
    NODEV = 0x00000004
    NOEXEC = 0x00000008
    IDMAP = 0x00100000
    NOSYMFOLLOW = 0x00200000


MNT_DETACH: Final = 2
OPEN_TREE_CLONE: Final = 1
OPEN_TREE_CLOEXEC: Final = 0o2000000
MOVE_MOUNT_F_EMPTY_PATH: Final = 0x00000004
MOVE_MOUNT_T_EMPTY_PATH: Final = 0x00000040
FSPICK_CLOEXEC: Final = 0x00000001
FSCONFIG_SET_FLAG: Final = 0
FSCONFIG_SET_STRING: Final = 1
FSCONFIG_CMD_RECONFIGURE: Final = 7
AT_FDCWD: Final = -100
AT_EMPTY_PATH: Final = 0x1000
AT_RECURSIVE: Final = 0x8000
# struct mount_attr { __u64 attr_set, attr_clr, propagation, userns_fd; }
MOUNT_ATTR_FORMAT: Final = "=QQQQ"
