"""What the overlay, and commits of ours, note at files and folders of the upper layer (extended attributes).

Cells can't: ``user.overlay.*`` that they set through the overlay gets another name (overlayfs.rst, "Nesting").
"""

from __future__ import annotations

import contextlib
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    Key = tuple[int, int, int, int]

_OPAQUE = "user.overlay.opaque"
_WHITEOUT = "user.overlay.whiteout"
_COMMITTED = "user.overlay.sentinel"


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


def is_white_file(folder: int, name: str) -> bool:
    """Tell whether an empty file stands for a deleted one (Linux 6.7), which is so in marked folders alone."""
    if _read(folder, _OPAQUE) != b"x":
        return False
    return _read(f"/proc/self/fd/{folder}/{name}", _WHITEOUT) is not None


def mark(file: int, committed: Key) -> None:
    """Note at an open file which file of the host it was committed as."""
    with contextlib.suppress(
        OSError
    ):  # no room, or not ours: the next commit asks once more than it needed to
        os.setxattr(file, _COMMITTED, ":".join(map(str, committed)).encode("ascii"))


def is_marked(folder: int, name: str, host: Key) -> bool:
    """Tell whether the host's file of this state is what was committed from the cell's."""
    noted = _read(f"/proc/self/fd/{folder}/{name}", _COMMITTED)
    return noted == ":".join(map(str, host)).encode("ascii")


def _read(of: int | str, name: str) -> bytes | None:
    try:
        if isinstance(of, int):
            return os.getxattr(of, name)
        return os.getxattr(of, name, follow_symlinks=False)
    except OSError:
        return None
