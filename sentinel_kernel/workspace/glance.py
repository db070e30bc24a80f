"""Tells within some milliseconds whether anything in the upper layers is another than it was."""

from __future__ import annotations

import os
import stat

from sentinel_kernel.linux.files import open_beneath
from sentinel_kernel.workspace.layer import MAXIMUM_DEPTH

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

MOST_ENTRIES = 20_000
"""Beyond it a glance is none any more."""


def glance(uppers: Iterable[int]) -> int | None:
    """Return a number that is another one, but by a chance of 1 in 2^61, where any file or folder is.

    What counts is each one's name, inode, kind, permissions, size and both times, which nobody can put back together.
    None: there are too many, or they can't be looked at; cells may be running.
    """
    found, left = 0, MOST_ENTRIES
    try:
        for upper in uppers:
            found, left = _folder(upper, ".", found, left, MAXIMUM_DEPTH)
    except OSError:
        return None
    return found if left >= 0 else None


def _folder(above: int, name: str, found: int, left: int, deeper: int) -> tuple[int, int]:
    descriptor = open_beneath(above, name, os.O_RDONLY | os.O_DIRECTORY)
    try:
        status = os.fstat(descriptor)
        found = hash((found, status.st_mtime_ns, status.st_ctime_ns))
        with os.scandir(descriptor) as entries:
            for entry in entries:
                left -= 1
                if left < 0 or deeper < 0:
                    return found, -1
                seen = entry.stat(follow_symlinks=False)
                found = hash(
                    (
                        found,
                        entry.name,
                        seen.st_ino,
                        seen.st_mode,
                        seen.st_size,
                        seen.st_mtime_ns,
                        seen.st_ctime_ns,
                    )
                )
                if stat.S_ISDIR(seen.st_mode):
                    found, left = _folder(descriptor, entry.name, found, left, deeper - 1)
    finally:
        os.close(descriptor)
    return found, left
