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
            discard(f"{place}/{name}", descriptor)
        os.close(descriptor)


def discard(work: str, held: int = -1) -> None:
    """Remove a work folder, ``held`` open where it is locked; the Linux kernel leaves one in it that nobody may enter.

    What is in it is reached by its descriptor: where cells may write the folder around it, another one may have its
    name by now, and that one stays unless it is empty.
    """
    import shutil  # noqa: PLC0415 - only for a folder that was written

    with contextlib.ExitStack() as opened, contextlib.suppress(OSError):
        if held < 0:
            held = os.open(work, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
            opened.callback(os.close, held)
        for name in os.listdir(held):
            with contextlib.suppress(OSError):
                inner = os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=held)
                try:
                    os.chmod(f"/proc/self/fd/{inner}", 0o700)
                finally:
                    os.close(inner)
            try:
                os.unlink(name, dir_fd=held)
            except OSError:
                shutil.rmtree(f"/proc/self/fd/{held}/{name}", ignore_errors=True)
        os.rmdir(work)


def _mount_id(path: str) -> str:
    """Return the number of the mount that ``path`` lies on (proc(5), /proc/PID/fdinfo)."""
    descriptor = os.open(path, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with open(f"/proc/self/fdinfo/{descriptor}", encoding="ascii") as file:
            return next(line.split()[1] for line in file if line.startswith("mnt_id:"))
    finally:
        os.close(descriptor)
