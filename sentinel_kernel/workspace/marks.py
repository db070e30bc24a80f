"""What the overlay, and commits of ours, note at files and folders of the upper layer (extended attributes).

Cells can't: ``user.overlay.*`` that they set through the overlay gets another name (overlayfs.rst, "Nesting").
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import time

from sentinel_kernel.record import Record

Key = tuple[int, int, int, int]

_OPAQUE = "user.overlay.opaque"
_WHITEOUT = "user.overlay.whiteout"
_COMMITTED = "user.overlay.sentinel"
_NOTED_WITHIN_NS = 20_000_000


def key_of(status: os.stat_result) -> Key:
    """Return what tells one state of a file from another: inode, size, mtime and ctime."""
    return (status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


def is_opaque(folder: int) -> bool:
    """Tell whether nothing of the folder below is seen in this one of the upper layer."""
    return _read(folder, _OPAQUE) == b"y"


def uncover(folder: int) -> None:
    """Let the folder below be seen again, once the overlay is reconfigured."""
    with contextlib.suppress(OSError):  # it has no such mark, or is not ours to change: it stays as it is
        os.removexattr(folder, _OPAQUE)


def may_hold_white_files(folder: int) -> bool:
    """Tell whether an empty file with a mark of its own stands for a deleted one here (Linux 6.7)."""
    return _read(folder, _OPAQUE) == b"x"


def is_white_file(folder: int, name: str) -> bool:
    """Tell whether an empty file of such a folder stands for a deleted one."""
    return _read(f"/proc/self/fd/{folder}/{name}", _WHITEOUT) is not None


def mark(file: int, path: str, host: Key, cell: Key) -> None:
    """Note at an open file of the upper layer as which file of the host it was committed, from where, in which state.

    A file may have further names: what was noted for ``path`` (within its layer) is not so of them.
    """
    same = key_of(os.fstat(file)) == cell
    # The note is a change of ctime itself: what changes a file within these milliseconds changes its size or time too.
    until = time.time_ns() + _NOTED_WITHIN_NS if same else 0
    words = (*host, cell[1], cell[2], until, _number_of(path))
    with contextlib.suppress(
        OSError
    ):  # no room, or not ours: the next commit asks once more than it needed to
        os.setxattr(file, _COMMITTED, ":".join(map(str, words)).encode("ascii"))


def committed_as(folder: int, name: str) -> Mark | None:
    """Return what is noted at a file of the upper layer; None where nothing is."""
    noted = _read(f"/proc/self/fd/{folder}/{name}", _COMMITTED)
    try:
        words = [int(word) for word in (noted or b"").split(b":")]
        inode, size, mtime_ns, ctime_ns, own_size, own_mtime_ns, until, path = words
    except ValueError:
        return None
    return Mark((inode, size, mtime_ns, ctime_ns), own_size, own_mtime_ns, until, path)


class Mark(Record):
    """What was noted when a file was committed and stayed in the upper layer, as somebody had it open."""

    host: Key
    """The host's file as it was committed."""
    size: int
    mtime_ns: int
    until: int
    path: int
    """Of which name of the file this is so, as a number."""

    def is_of(self, path: str, status: os.stat_result) -> bool:
        """Tell whether the cell's file is still what was committed from ``path``."""
        if self.path != _number_of(path):
            return False
        same = (status.st_size, status.st_mtime_ns) == (self.size, self.mtime_ns)
        return same and status.st_ctime_ns <= self.until


def _number_of(path: str) -> int:
    return int.from_bytes(hashlib.blake2b(os.fsencode(path), digest_size=8).digest(), "big")


def _read(of: int | str, name: str) -> bytes | None:
    try:
        if isinstance(of, int):
            return os.getxattr(of, name)
        return os.getxattr(of, name, follow_symlinks=False)
    except OSError:
        return None
