"""Makes the layer of an overlay that covers names of the folder below it, also those that nothing has there yet.

A mount needs something to lie on; a whiteout is a name alone (overlayfs.rst), and an ordinary user may make one
(mknod(2), Linux 5.8). It lies in a layer of its own, between what cells write and the host's folder: a cell that
removes or makes the name changes its own layer above it.
"""

from __future__ import annotations

import contextlib
import os
import stat

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

_WHITEOUT = stat.S_IFCHR
_ON_ITS_WAY = (FileExistsError, NotADirectoryError)


def cover_names(layer: str, below: str, names: Iterable[str]) -> None:
    """Fill the empty folder ``layer`` with what covers ``names`` (relative) of the folder ``below``.

    A name in a folder that is not there is covered with that folder. A link on the way to one is left as it is: what
    it leads to is covered by its own name.

    Raises:
        OSError: a whiteout could not be made: nothing may be shown then.

    """
    for name in names:
        part, done = "", False
        while not done:
            part = name[: name.index("/", len(part) + 1)] if "/" in name[len(part) + 1 :] else name
            try:
                status = os.lstat(f"{below}/{part}")
            except OSError:
                status = None
            if part == name or status is None or not stat.S_ISDIR(status.st_mode):
                done = True
                if part == name or status is None or not stat.S_ISLNK(status.st_mode):
                    with contextlib.suppress(*_ON_ITS_WAY):  # another name has covered it
                        os.mknod(f"{layer}/{part}", _WHITEOUT, 0)
                continue
            with contextlib.suppress(*_ON_ITS_WAY):
                os.mkdir(f"{layer}/{part}", 0o700)
                look_alike(f"{layer}/{part}", status)


def look_alike(folder: str, status: os.stat_result) -> None:
    """Give ``folder`` the mode, the owner and the times of the one that it lies above: cells see the upper one's."""
    with contextlib.suppress(OSError):  # nobody's here: it stays ours
        os.chown(folder, status.st_uid, status.st_gid)
    with contextlib.suppress(OSError):
        os.chmod(folder, stat.S_IMODE(status.st_mode) & 0o777)
        os.utime(folder, ns=(status.st_atime_ns, status.st_mtime_ns))
