"""Whether a path fails because of the sandbox: what lies there inside is held against what the host has there; pure."""

from __future__ import annotations

import errno
import os.path
import stat

from sentinel_kernel.policy.plan import PROC_MASKED, MountKind, is_within
from sentinel_kernel.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from sentinel_kernel.policy.plan import BootPlan, MountEntry, PathLists

HIDDEN, READ_ONLY, DENIED = "path_hidden", "path_read_only", "path_denied"
RENAME, BUSY = "folder_rename", "path_busy"
ON_RUNG = "landlock rung: "
"""What the rule begins with where a path is refused because the sandbox is on that rung."""

_MASKS = (MountKind.MASK_DIRECTORY, MountKind.MASK_FILE)
_IN_MEMORY = (MountKind.TMPFS,)


class Look(Record):
    """What was found at a path on one side; ``real`` is the path without links, on the host alone."""

    mode: int
    uid: int
    gid: int
    no_exec: bool
    readable: bool
    real: str


class Seen(Record):
    """A path on both sides, and the folder that it lies in; None: not there, or not to be reached."""

    inside: Look | None
    outside: Look | None
    folder_inside: Look | None
    folder_outside: Look | None


class Found(Record):
    """The cause, the rule that said no, how sure that is, and which variant of the cause's words is meant."""

    cause: str
    rule: str
    confidence: str = "certain"
    does: str = ""


def read_look(value: object) -> Look | None:
    """Return the look that a process of ours wrote down (supervisor/lookups.py)."""
    if not isinstance(value, dict):
        return None
    return Look(
        int(value["mode"]),
        int(value["uid"]),
        int(value["gid"]),
        bool(value["no_exec"]),
        bool(value["readable"]),
        str(value["real"]),
    )


def normal(path: str) -> str:
    """Return an absolute path without ``.``, ``..`` and repeated slashes, as the mounts of a plan are named."""
    return "/" + os.path.normpath(path).lstrip("/")


def asks_host(path: str) -> bool:
    """Tell whether a path means the same thing on the host: processes, and a process's own, are never looked up."""
    return (
        not any(is_within(path, place) for place in ("/proc", "/dev/fd", "/dev/pts", "/dev/shm"))
        and path != "/"
    )


def why_not_renamed(old: str, new: str, seen: Seen, plan: BootPlan) -> Found | None:
    """Return why ``old`` could not be renamed to ``new`` (EXDEV; both normal), if the layer that holds changes is why.

    Such a layer can't rename a folder that lies in the host's own (overlayfs.rst, redirect_dir); a file it can.
    """
    mount = mount_of(old, plan)
    if mount is None or mount.kind is not MountKind.OVERLAY or mount_of(new, plan) is not mount:
        return None
    if seen.inside is None or seen.outside is None:
        return None
    if not (stat.S_ISDIR(seen.inside.mode) and stat.S_ISDIR(seen.outside.mode)):
        return None
    return Found(RENAME, f"changes are held: {mount.target}")


def why_path(  # noqa: PLR0911 - one return a way to fail
    number: int, path: str, seen: Seen, plan: BootPlan, *, program: bool, writes: bool
) -> Found | None:
    """Return why ``path`` (normal) failed with errno ``number``, if the sandbox is why."""
    if plan.lists is not None:
        return _why_not_listed(number, path, seen, plan, plan.lists, writes=writes)
    mount = mount_of(path, plan)
    # Where the folder around a place is read-only, that is said first.
    in_place = number == errno.EROFS and mount is not None and mount.target == path
    if number == errno.EBUSY or (in_place and is_writable(path, mount, plan)):
        return _busy(path, mount, plan)
    if number in (errno.ENOENT, errno.ENOTDIR):
        return _covered(path, seen, mount) or _absent(path, seen, mount, plan, writes=writes)
    if is_within(path, "/proc"):
        return _in_proc(number, path)
    if mount is not None and mount.kind in _MASKS:
        return Found(DENIED, f"hidden: {mount.target}")
    if number == errno.EROFS:
        if mount is not None and mount.kind is MountKind.BIND_WRITABLE:
            return None  # the host's own file system is read-only
        return Found(READ_ONLY, _shown(mount))
    return _refused(path, seen, mount, plan, program=program)


def numbers_untold(path: str, seen: Seen, plan: BootPlan, *, makes: bool) -> tuple[int, ...]:
    """Return what ``path`` may have failed with, where the error has no errno; ``makes``: the call would have made it.

    Only such numbers as go with what lies there: a path that is there inside failed for some other reason.
    """
    if seen.inside is not None:
        return ()
    if plan.lists is not None:
        return (errno.EACCES,)
    may_not = makes and seen.folder_inside is not None and not is_writable(path, mount_of(path, plan), plan)
    return (errno.ENOENT, errno.EROFS) if may_not else (errno.ENOENT,)


def _why_not_listed(  # noqa: PLR0911 - as above
    number: int, path: str, seen: Seen, plan: BootPlan, lists: PathLists, *, writes: bool
) -> Found | None:
    """Return why ``path`` failed on the landlock rung: what is not listed there is there all the same, and refused."""
    if number not in (errno.EACCES, errno.EPERM):
        return None
    if not asks_host(path):
        return None if lists.is_readable(path) else Found(DENIED, f"{ON_RUNG}path shown: no")
    look, folder = seen.outside, seen.folder_outside
    if look is not None:
        real = look.real
    elif folder is not None:
        real = f"{folder.real}/{os.path.basename(path)}"
    else:
        return None
    if lists.is_writable(real):
        return None
    if look is not None and not lists.is_readable(real):
        return Found(DENIED, f"{ON_RUNG}path shown: no") if look.readable else None
    changed = folder if look is None else look
    if changed is None or not (plan.started_by_root or _may(changed, plan, 0o2)):
        return None
    return Found(READ_ONLY, f"{ON_RUNG}read-only", "certain" if writes else "likely")


def _busy(path: str, mount: MountEntry | None, plan: BootPlan) -> Found | None:
    """Return why what lies at ``path`` can't be removed or renamed, if something of the sandbox's is mounted there."""
    if path == plan.workspace:
        return Found(BUSY, f"the notebook's folder: {path}", does="workspace")
    if mount is None or mount.target != path:
        shown = path.startswith("/mnt/") and path.count("/") == 2
        return Found(BUSY, f"shown there: {path}", "likely") if shown else None
    if mount.kind in _MASKS:
        return Found(BUSY, f"hidden: {path}", does="covered")
    return Found(BUSY, f"the sandbox's own: {path}")


def _covered(path: str, seen: Seen, mount: MountEntry | None) -> Found | None:
    """Return the name that covers ``path`` in the layer above the host's folder, if something is there by now."""
    if mount is None or seen.inside is not None or seen.outside is None:
        return None
    places = (f"{mount.target}/{name}" for name in mount.hidden)
    return next((Found(HIDDEN, f"hidden: {place}") for place in places if is_within(path, place)), None)


def _absent(path: str, seen: Seen, mount: MountEntry | None, plan: BootPlan, *, writes: bool) -> Found | None:
    if seen.inside is not None:
        return None
    if mount is not None and mount.kind in _MASKS:
        return Found(DENIED, f"hidden: {mount.target}") if seen.outside is not None else None
    look = seen.outside
    confidence = "certain"
    if look is None:
        # A new file in a folder that is there on the host alone.
        look = seen.folder_outside
        if not writes or seen.folder_inside is not None or look is None or not stat.S_ISDIR(look.mode):
            return None
        path, confidence = os.path.dirname(path), "likely"
    if path == "/":
        return None
    if mount is not None and mount.kind not in _IN_MEMORY:
        # A folder that both sides have: what is not there inside was removed inside, unless a link led out of it.
        real = mount_of(look.real, plan)
        if is_within(look.real, mount.target) or (
            real is not None and real.kind not in (*_IN_MEMORY, *_MASKS)
        ):
            return None
    return Found(HIDDEN, "path shown: no", confidence)


def _in_proc(number: int, path: str) -> Found | None:
    name = path.split("/")[2] if path.count("/") >= 2 else ""
    if name in PROC_MASKED:
        return Found(DENIED, f"/proc/{name} is covered, in every profile", does="machine")
    if name == "1" and number == errno.EACCES:
        rule = "the sandbox's first process is closed to cells, in every profile"
        return Found(DENIED, rule, does="process")
    return Found(READ_ONLY, f"/proc/{name} is read-only, in every profile") if number == errno.EROFS else None


def _refused(
    path: str, seen: Seen, mount: MountEntry | None, plan: BootPlan, *, program: bool
) -> Found | None:
    """Judge EACCES and EPERM."""
    inside, outside = seen.inside, seen.outside
    writable = is_writable(path, mount, plan)
    if inside is None:
        shown = seen.folder_inside
        may = shown is not None and _may(shown, plan, 0o1)
        return Found(READ_ONLY, _shown(mount)) if may and not writable else None
    if program:
        runs = bool(inside.mode & 0o111) and stat.S_ISREG(inside.mode)
        return Found(DENIED, "programs can't be run from there") if runs and inside.no_exec else None
    if not _may(inside, plan, 0o4):
        same = outside is not None and stat.S_IMODE(outside.mode) == stat.S_IMODE(inside.mode)
        if same and outside is not None and outside.readable:
            return Found(DENIED, "cells run as a user of their own")
        return None
    return None if writable else Found(READ_ONLY, _shown(mount))


def _may(look: Look, plan: BootPlan, want: int) -> bool:
    """Tell whether the sandbox's user has a right by the mode's bits (path_resolution(7))."""
    identity = plan.identity
    shift = 6 if look.uid == identity.host_uid else 3 if look.gid == identity.host_gid else 0
    return bool(look.mode >> shift & want)


def mount_of(path: str, plan: BootPlan) -> MountEntry | None:
    """Return the deepest mount of the plan that ``path`` lies in; None: in the root, which holds nothing else."""
    # The last of the same depth wins: masks stand behind the tree that they cover.
    return max(
        (entry for entry in plan.mounts if is_within(path, entry.target)),
        key=lambda entry: len(entry.target),
        default=None,
    )


def is_writable(path: str, mount: MountEntry | None, plan: BootPlan) -> bool:
    """Tell whether cells may write there, as far as the sandbox is concerned."""
    if mount is None:
        return any(is_within(path, place) for place in ("/dev/shm", "/dev/pts"))
    if mount.kind in (MountKind.BIND, *_MASKS) or mount.sealed:
        return False
    return any(is_within(path, place) for place in plan.writable)


def _shown(mount: MountEntry | None) -> str:
    return "path shown: no" if mount is None else f"{mount.target}: read-only"


def read_seen(found: Mapping[str, Any]) -> Seen:
    """Return a path's looks as they were written down."""
    return Seen(
        *(read_look(found.get(name)) for name in ("inside", "outside", "folder_inside", "folder_outside"))
    )
