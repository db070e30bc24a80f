"""Constants and layout of ``<linux/openat2.h>``."""

from __future__ import annotations

from enum import IntFlag

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

# struct open_how { u64 flags, mode, resolve; }
OPEN_HOW_FORMAT: Final = "=QQQ"


class Resolve(IntFlag):
    """``RESOLVE_*`` of openat2(2), Linux 5.6."""

    NO_XDEV = 0x01
    NO_MAGICLINKS = 0x02
    NO_SYMLINKS = 0x04
    BENEATH = 0x08
    IN_ROOT = 0x10
