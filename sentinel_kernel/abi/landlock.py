"""Constants and layouts of ``<linux/landlock.h>`` (landlock(7))."""

from __future__ import annotations

from enum import IntFlag

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

LANDLOCK_CREATE_RULESET_VERSION: Final = 1
LANDLOCK_RULE_PATH_BENEATH: Final = 1
SCOPES_FROM: Final = 6
"""The version that brought :class:`Scope` (Linux 6.12)."""
# struct landlock_ruleset_attr { u64 handled_access_fs, handled_access_net, scoped; }
RULESET_FORMAT: Final = "=QQQ"
RULESET_SIZE_BY_ABI: Final = {1: 8, 2: 8, 3: 8, 4: 16, 5: 16, 6: 24}
# struct landlock_path_beneath_attr { u64 allowed_access; s32 parent_fd; } packed
PATH_BENEATH_FORMAT: Final = "=Qi"


class AccessFs(IntFlag):
    """``LANDLOCK_ACCESS_FS_*``; the comment gives the ABI that brought it, where it is not 1."""

    EXECUTE = 1 << 0
    WRITE_FILE = 1 << 1
    READ_FILE = 1 << 2
    READ_DIR = 1 << 3
    REMOVE_DIR = 1 << 4
    REMOVE_FILE = 1 << 5
    MAKE_CHAR = 1 << 6
    MAKE_DIR = 1 << 7
    MAKE_REG = 1 << 8
    MAKE_SOCK = 1 << 9
    MAKE_FIFO = 1 << 10
    MAKE_BLOCK = 1 << 11
    MAKE_SYM = 1 << 12
    REFER = 1 << 13  # 2
    TRUNCATE = 1 << 14  # 3
    IOCTL_DEV = 1 << 15  # 5


class AccessNet(IntFlag):
    """``LANDLOCK_ACCESS_NET_*``, ABI 4."""

    BIND_TCP = 1 << 0
    CONNECT_TCP = 1 << 1


class Scope(IntFlag):
    """``LANDLOCK_SCOPE_*``, ABI 6."""

    ABSTRACT_UNIX_SOCKET = 1 << 0
    SIGNAL = 1 << 1
