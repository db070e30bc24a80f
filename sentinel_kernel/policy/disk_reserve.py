"""How much of a file system of the host stays free for others, whatever is saved, committed or exported."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from os import statvfs_result

LEFT_FREE_PERCENT = 5
LEFT_FREE_BYTES = 1 << 30
"""What stays free: 5 percent, and 1 GiB of a large file system."""


def reserve(space: statvfs_result) -> int:
    """Return how many bytes of a file system are left free for others; pure."""
    return min(space.f_blocks * space.f_frsize * LEFT_FREE_PERCENT // 100, LEFT_FREE_BYTES)
