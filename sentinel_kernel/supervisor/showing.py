"""Shows one folder of the host in a running sandbox: what a process of its own does between two mount namespaces.

It is forked from the supervisor. A child of it builds the layer in user and mount namespaces of its own, where it has
no right outside and still sees the host's mounts; then it joins the sandbox's, and attaches there what the child has
handed over, detached. A folder is never bind-mounted: also one that may be written is the upper layer of an overlay,
which does not lead to the host's sockets, pipes, locks and leases.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import socket
import stat

from sentinel_kernel.abi.mount import MountAttributes, MountFlags
from sentinel_kernel.abi.sched import CloneFlags
from sentinel_kernel.linux import mounts, namespaces
from sentinel_kernel.linux.files import open_without_links
from sentinel_kernel.policy.plan import is_within
from sentinel_kernel.policy.shown_folder import PLACE, RUN_BY_THE_HOST, Surroundings, objection
from sentinel_kernel.record import MutableRecord, replace
from sentinel_kernel.supervisor.home_entries import covered_below, secrets_left
from sentinel_kernel.supervisor.mount_layers import Refused, Source, Task, built, join, owned_tree
from sentinel_kernel.supervisor.mount_work import discard, work_place

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn


_SAFE = MountFlags.NOSUID | MountFlags.NODEV
_SEALED = MountAttributes.RDONLY | MountAttributes.NOSUID | MountAttributes.NODEV
_EMPTY_OPTIONS = "size=4k,nr_inodes=2,mode=0555"
_ANSWER_BYTES = 4096
_LOOKED_AT = 20_000
"""So many entries of a folder that is to be written are looked at for what the host would run."""


class _Made(MutableRecord):
    """What has been made so far: it is undone where the rest fails."""

    work: str = ""
    lock: int = -1
    attached: str = ""


def run(sock: socket.socket, sandbox: int, place: int, task: Task) -> NoReturn:
    """Do ``task`` in the forked child, tell over ``sock``, and end.

    ``sandbox`` is the pidfd of its pid 1, ``place`` its root in a mount that can be written.
    """
    made = _Made()
    answer: dict[str, Any]
    descriptors: list[int] = []
    try:
        match task.kind:
            case "look":
                answer = _look(task)[0]
            case "show":
                answer = _show(sandbox, place, task, made, descriptors)
            case _:
                join(sandbox, task)
                namespaces.enter(sandbox, CloneFlags.NEWNS)
                mounts.detach(task.target)
                with contextlib.suppress(OSError):  # an empty folder is left behind
                    os.rmdir(task.target.lstrip("/"), dir_fd=place)
                answer = {}
        answer["ok"] = True
    except Refused as refusal:
        answer = {"ok": False, "code": refusal.code, "detail": refusal.detail}
    except Exception as error:  # noqa: BLE001 - whatever it is, the supervisor must hear of it, and we must end
        answer = {"ok": False, "code": "failed", "detail": f"{type(error).__name__}: {error}"[:300]}
    if not answer["ok"] and made.work:
        discard(made.work, made.lock)
    socket.send_fds(sock, [json.dumps(answer).encode("ascii")], descriptors)
    os._exit(0)


def _look(task: Task) -> tuple[dict[str, Any], Surroundings]:
    """Find out what the path leads to, and whether it may be shown; nothing is changed.

    Returns what is told of it, and what is covered there, entries of homes included.
    """
    path = task.path
    try:
        real = os.path.realpath(path, strict=True)
        status = os.stat(real)
    except OSError as error:
        code = {
            errno.ENOENT: "absent",
            errno.ENOTDIR: "absent",
            errno.ELOOP: "loop",
            errno.EACCES: "no_access",
        }
        raise Refused(code.get(error.errno or 0, "failed"), error.strerror or "") from None
    if not stat.S_ISDIR(status.st_mode):
        raise Refused("not_folder" if stat.S_ISREG(status.st_mode) else "special", real)
    wanted = os.R_OK | os.X_OK | (os.W_OK if task.mode == "rw" else 0)
    if not os.access(real, wanted, effective_ids=True):
        raise Refused("no_access" if task.mode == "ro" else "no_write", real)
    if task.around is not None and (why := objection(real, task.mode, task.around)) is not None:
        raise Refused(why.code, why.detail)
    below = [point for point in _mount_points() if point != real and is_within(point, real)]
    if below and not task.started_by_root:
        raise Refused("mounts_below", below[0])
    around = task.around or Surroundings("/", (), ())
    in_homes, looked_through = covered_below(real)
    around = replace(around, hidden=(*around.hidden, *in_homes))
    if task.mode == "rw":
        if any(os.path.dirname(path) == real for path in in_homes):
            raise Refused("host_runs", in_homes[0])
        looked_through = _look_through(real) and looked_through
        if work_place(real, task.work_folders, None, make=False) is None:
            raise Refused("no_work_folder", os.path.dirname(real))
    told = {
        "path": real,
        "identity": [status.st_dev, status.st_ino],
        "below": below[:1],
        "looked_through": looked_through,
        "homes": bool(in_homes),
        "secrets": secrets_left(real, around.hidden) if task.kind == "look" else [],
    }
    return told, around


def _look_through(real: str) -> bool:
    """Refuse a folder with something in it that programs of the host obey; False where not all was looked at."""
    left = _LOOKED_AT
    folders = [real]
    while folders:
        folder = folders.pop()
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    left -= 1
                    if left < 0:
                        return False
                    if entry.name in RUN_BY_THE_HOST:
                        raise Refused("host_runs", entry.path)
                    if entry.is_dir(follow_symlinks=False):
                        folders.append(entry.path)
        except OSError:
            continue  # a folder that this user can't read, or that is gone by now
    return True


def _show(sandbox: int, place: int, task: Task, made: _Made, descriptors: list[int]) -> dict[str, Any]:
    seen, around = _look(task)
    task = replace(task, around=around)
    real: str = seen["path"]
    if tuple(seen["identity"]) != task.identity_seen:
        raise Refused("changed", real)
    status = os.stat(real)
    if task.mode == "rw":
        owner = (status.st_uid, status.st_gid) if task.started_by_root else None
        made.work, made.lock = work_place(real, task.work_folders, owner, make=True) or ("", -1)
    top = max((point for point in _mount_points() if is_within(real, point)), key=len, default="/")
    tree = owned_tree(task, top, status) if task.started_by_root else -1
    layer, context = built(task, Source(real, top, tree, made.work, place))
    join(sandbox, task)
    namespaces.enter(sandbox, CloneFlags.NEWNS)
    target = _place(task.target)
    if task.target.startswith(PLACE + "/") and _is_mount_point(target):
        raise Refused("taken", task.target)
    mounts.attach_tree_at(layer, target)
    descriptors.append(context)
    if made.lock >= 0:
        descriptors.append(made.lock)
    return {"path": real, "work": made.work, "looked_through": seen["looked_through"]}


def _place(target: str) -> int:
    """Return the folder inside to mount on. No link is followed: cells can put one where their own folders are."""
    root = os.open("/", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    return open_without_links(root, target.lstrip("/"), os.O_PATH | os.O_DIRECTORY)


def _is_mount_point(place: int) -> bool:
    return os.fstat(place).st_dev != os.stat("/mnt").st_dev


def _mount_points() -> list[str]:
    from sentinel_kernel.supervisor.facts import mount_points  # noqa: PLC0415 - only in the child

    return list(mount_points())
