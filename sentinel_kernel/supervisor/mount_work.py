"""The work folder that a layer which writes through needs: on the same mount as its upper layer (overlayfs.rst)."""

from __future__ import annotations

import contextlib
import os
import secrets

from sentinel_kernel.linux.locks import try_lock_whole
from sentinel_kernel.policy.plan import is_within

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

_PREFIX: Final = ".sentinel-work-"


def work_place(real: str, own: str, owner: tuple[int, int] | None, *, make: bool) -> tuple[str, int] | None:
    """Make the work folder of the folder ``real`` in ``own``, or else beside it, and lock it.

    Returns its path and the descriptor that holds the lock, None where there is no place for one. Without ``make`` it
    is only found out whether there is. ``owner`` is who it is given to, None where it stays ours.
    """
    for place in (own, os.path.dirname(real)):
        if make and place == own:
            os.makedirs(place, mode=0o700, exist_ok=True)
        holder = place
        while not os.path.isdir(holder):
            holder = os.path.dirname(holder)
        usable = os.access(holder, os.W_OK | os.X_OK, effective_ids=True)
        if is_within(holder, real) or _mount_id(holder) != _mount_id(real) or not usable:
            continue
        if not make:
            return "", -1
        work = f"{place}/{_PREFIX}{secrets.token_hex(6)}"
        os.mkdir(work, 0o700)
        lock = os.open(work, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try_lock_whole(lock)
        if owner is not None:
            os.fchown(lock, *owner)
        return work, lock
    return None


def sweep(place: str) -> None:
    """Remove the work folders in ``place`` whose supervisor is gone."""
    try:
        with os.scandir(place) as entries:  # what lies beside a folder of data may be very much
            names = [entry.name for entry in entries if entry.name.startswith(_PREFIX)]
    except OSError:
        return
    for name in names:
        try:
            descriptor = os.open(f"{place}/{name}", os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        except OSError:
            continue
        if try_lock_whole(descriptor):
            discard(f"{place}/{name}")
        os.close(descriptor)


def discard(work: str) -> None:
    """Remove a work folder; the Linux kernel leaves one folder in it that nobody may enter."""
    import shutil  # noqa: PLC0415 - only for a folder that was written

    for inner in ("work", "index"):
        # No link is followed: where cells may write the folder around it, one of that name may be a cell's.
        with contextlib.suppress(OSError):
            descriptor = os.open(f"{work}/{inner}", os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                os.chmod(f"/proc/self/fd/{descriptor}", 0o700)
            finally:
                os.close(descriptor)
    shutil.rmtree(work, ignore_errors=True)


def _mount_id(path: str) -> str:
    """Return the number of the mount that ``path`` lies on (proc(5), /proc/PID/fdinfo)."""
    descriptor = os.open(path, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with open(f"/proc/self/fdinfo/{descriptor}", encoding="ascii") as file:
            return next(line.split()[1] for line in file if line.startswith("mnt_id:"))
    finally:
        os.close(descriptor)
