"""How much of a file system of the host stays free for others, whatever is saved, committed or exported."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from os import statvfs_result

LEFT_FREE_PERCENT = 5
LEFT_FREE_BYTES, LEFT_FREE_FILES = 1 << 30, 100_000
"""What stays free: 5 percent, and 1 GiB and so many files of a large file system."""


def room(space: statvfs_result) -> int:
    """Return how many bytes of a file system may be taken; below 0 where not even an empty file may; pure.

    A file system that has no number of files that it can hold has room for any.
    """
    files = min(space.f_files * LEFT_FREE_PERCENT // 100, LEFT_FREE_FILES)
    if space.f_files > 0 and space.f_favail <= files:
        return -1
    reserve = min(space.f_blocks * space.f_frsize * LEFT_FREE_PERCENT // 100, LEFT_FREE_BYTES)
    return space.f_bavail * space.f_frsize - reserve
