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
import secrets
import signal
import socket
import stat

from sentinel_kernel.abi.mount import MountAttributes, MountFlags
from sentinel_kernel.abi.prctl import SecureBits
from sentinel_kernel.abi.sched import CloneFlags
from sentinel_kernel.linux import mounts, namespaces, process
from sentinel_kernel.linux.files import open_beneath, open_without_links
from sentinel_kernel.linux.locks import try_lock_whole
from sentinel_kernel.policy.plan import is_within
from sentinel_kernel.policy.shown_folder import PLACE, RUN_BY_THE_HOST, Surroundings, covered, objection
from sentinel_kernel.record import MutableRecord, Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

    from sentinel_kernel.policy.plan import Identity

_SAFE = MountFlags.NOSUID | MountFlags.NODEV
_SEALED = MountAttributes.RDONLY | MountAttributes.NOSUID | MountAttributes.NODEV
_EMPTY_OPTIONS = "size=4k,nr_inodes=2,mode=0555"
_ANSWER_BYTES = 4096
_LOOKED_AT = 20_000
"""So many entries of a folder that is to be written are looked at for what the host would run."""


class Task(Record):
    """What is asked for. ``kind``: look (is it allowed), show, or hide (``target`` alone)."""

    kind: str
    path: str = ""
    mode: str = "ro"
    target: str = ""
    identity_seen: tuple[int, int] = (0, 0)
    """Device and inode of the folder that the person has agreed to."""
    around: Surroundings | None = None
    staging: str = ""
    started_by_root: bool = False
    identity: Identity | None = None
    work_folders: str = ""
    """Where the work folder of a writable layer is made, if it lies on the same mount; else beside the folder."""


class Refused(Exception):
    """The folder can't be shown; ``code`` and ``detail`` are told."""

    def __init__(self, code: str, detail: str = "") -> None:
        """Store why."""
        super().__init__(code)
        self.code, self.detail = code, detail


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
                answer = _look(task)
            case "show":
                answer = _show(sandbox, place, task, made, descriptors)
            case _:
                _join(sandbox, task)
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
        _discard(made.work)
    socket.send_fds(sock, [json.dumps(answer).encode("ascii")], descriptors)
    os._exit(0)


def _look(task: Task) -> dict[str, Any]:
    """Find out what the path leads to, and whether it may be shown; nothing is changed."""
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
    if not os.access(real, wanted):
        raise Refused("no_access" if task.mode == "ro" else "no_write", real)
    if task.around is not None and (why := objection(real, task.mode, task.around)) is not None:
        raise Refused(why.code, why.detail)
    below = [point for point in _mount_points() if point != real and is_within(point, real)]
    if below and not task.started_by_root:
        raise Refused("mounts_below", below[0])
    looked_through = True
    if task.mode == "rw":
        looked_through = _look_through(real)
        _work_place(real, task, status, make=False)
    return {
        "path": real,
        "identity": [status.st_dev, status.st_ino],
        "below": below[:1],
        "looked_through": looked_through,
    }


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
    seen = _look(task)
    real: str = seen["path"]
    if tuple(seen["identity"]) != task.identity_seen:
        raise Refused("changed", real)
    status = os.stat(real)
    if task.mode == "rw":
        made.work, made.lock = _work_place(real, task, status, make=True)
    top = _mount_point_of(real)
    tree = _owned_tree(task, top, status) if task.started_by_root else -1
    layer, context = _built(task, _Source(real, top, tree, made.work, place))
    _join(sandbox, task)
    namespaces.enter(sandbox, CloneFlags.NEWNS)
    target = _place(task.target)
    if task.target.startswith(PLACE + "/") and _is_mount_point(target):
        raise Refused("taken", task.target)
    mounts.attach_tree_at(layer, target)
    descriptors.append(context)
    if made.lock >= 0:
        descriptors.append(made.lock)
    return {"path": real, "work": made.work, "looked_through": seen["looked_through"]}


class _Source(Record):
    """What a layer is built of: the folder, its mount, an owner-mapped copy of that, the work folder, and the root."""

    real: str
    top: str
    tree: int
    work: str
    place: int


def _built(task: Task, source: _Source) -> tuple[int, int]:
    """Have the layer built in namespaces of its own, as the sandbox's may make none; return it and its context."""
    identity = task.identity
    if identity is None:
        raise Refused("failed", "no identity")
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    pid, pidfd = namespaces.clone(CloneFlags.NEWUSER | CloneFlags.NEWNS)
    if pid == 0:
        ours.close()
        _build(theirs, task, source)
    theirs.close()
    try:
        namespaces.write_identity_maps(
            pid,
            f"{identity.inside_uid} {identity.host_uid} 1",
            f"{identity.inside_gid} {identity.host_gid} 1",
        )
        ours.send(b"go")
        packet, descriptors, _, _ = socket.recv_fds(ours, _ANSWER_BYTES, 2, socket.MSG_CMSG_CLOEXEC)
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        os.close(pidfd)
    told = json.loads(packet) if packet else {"code": "failed", "detail": "the building process died"}
    if len(descriptors) != 2:
        raise Refused(str(told.get("code")), str(told.get("detail")))
    return descriptors[0], descriptors[1]


def _build(sock: socket.socket, task: Task, source: _Source) -> NoReturn:
    """Build the layer in the cloned child, send it, and end."""
    answer: dict[str, Any] = {}
    made: list[int] = []
    try:
        process.die_with_parent()
        if sock.recv(4) == b"go":
            _become(task)
            made = _layer(task, source)
    except Refused as refusal:
        answer = {"code": refusal.code, "detail": refusal.detail}
    except BaseException as error:  # noqa: BLE001 - as in run
        answer = {"code": "failed", "detail": f"{type(error).__name__}: {error}"[:300]}
    try:
        socket.send_fds(sock, [json.dumps(answer).encode("ascii")], made)
    finally:
        os._exit(0)


def _layer(task: Task, source: _Source) -> list[int]:
    """Return what :func:`_built` tells of."""
    real, top, tree, work = source.real, source.top, source.tree, source.work
    mounts.mount("none", "/", "", MountFlags.REC | MountFlags.PRIVATE)
    # Opened before anything is mounted: the staging place may lie above the folder.
    opened = [] if tree >= 0 else [_opened(one, "", top) for one in (real, work) if one]
    staging = task.staging
    mounts.mount("sentinel-live", staging, "tmpfs", _SAFE, "size=64k,nr_inodes=16,mode=0700")
    for name in ("merged", "empty", "host"):
        os.mkdir(f"{staging}/{name}", 0o755)
    if tree >= 0:
        mounts.attach_tree(tree, f"{staging}/host")
        opened = [_opened(one, f"{staging}/host", top) for one in (real, work) if one]
    merged = f"{staging}/merged"
    folder = opened[0]
    found = os.fstat(folder)
    if (found.st_dev, found.st_ino) != task.identity_seen:
        raise Refused("changed", real)
    # Named by descriptors: a path with a colon or comma would break the options.
    options = f"lowerdir=/proc/self/fd/{folder}:{staging}/empty,userxattr"
    if task.mode == "rw":
        layers = f"upperdir=/proc/self/fd/{folder},workdir=/proc/self/fd/{opened[1]}"
        options = f"lowerdir={staging}/empty,{layers},userxattr"
    try:
        mounts.mount("sentinel-overlay", merged, "overlay", _SAFE, options)
    except OSError as error:
        raise Refused("no_layer", os.strerror(error.errno or 0)) from None
    if task.mode == "ro":
        mounts.set_path_attributes(merged, _SEALED)
    _cover(merged, covered(real, task.around.hidden if task.around is not None else ()))
    layer = [mounts.open_tree(merged, recursive=True), mounts.pick_file_system(merged)]
    if task.target.startswith(PLACE + "/"):
        with contextlib.suppress(FileExistsError):
            os.mkdir(task.target.lstrip("/"), 0o755, dir_fd=source.place)
    return layer


def _join(sandbox: int, task: Task) -> None:
    """Become the sandbox's one user, with every right over its namespaces and none outside."""
    namespaces.enter(sandbox, CloneFlags.NEWUSER)
    _become(task)


def _become(task: Task) -> None:
    identity = task.identity
    if identity is not None:
        process.set_secure_bits(SecureBits.NO_SETUID_FIXUP)
        os.setresgid(identity.inside_gid, identity.inside_gid, identity.inside_gid)
        os.setresuid(identity.inside_uid, identity.inside_uid, identity.inside_uid)
        process.set_dumpable(dumpable=True)
    process.die_with_parent()


def _owned_tree(task: Task, top: str, status: os.stat_result) -> int:
    """Return a detached copy of the mount ``top`` in which the folder's owner is the sandbox's user."""
    identity = task.identity
    if identity is None:
        raise Refused("failed", "no identity")
    owner = namespaces.mapped_user_namespace(
        f"{status.st_uid} {identity.host_uid} 1", f"{status.st_gid} {identity.host_gid} 1"
    )
    tree = mounts.open_tree(top, recursive=False)
    attributes = MountAttributes.IDMAP | MountAttributes.NOSUID | MountAttributes.NODEV
    try:
        mounts.set_mount_attributes(tree, attributes, user_namespace=owner)
    except OSError as error:
        raise Refused("no_owner_map", os.strerror(error.errno or 0)) from None
    return tree


def _opened(path: str, base: str, top: str) -> int:
    """Return a descriptor of ``path`` in this mount namespace; below ``base``, where ``top`` is attached, if given."""
    if not base:
        return os.open(path, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    relative = os.path.relpath(path, top)
    root = os.open(base, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    return root if relative == "." else open_beneath(root, relative, os.O_PATH | os.O_DIRECTORY)


def _cover(merged: str, names: list[str]) -> None:
    """Cover what is hidden wherever it would be seen."""
    for name in names:
        place = f"{merged}/{name}"
        try:
            mode = os.lstat(place).st_mode
        except OSError:
            continue
        if stat.S_ISDIR(mode):
            mounts.mount("tmpfs", place, "tmpfs", _SAFE | MountFlags.RDONLY, _EMPTY_OPTIONS)
        elif stat.S_ISREG(mode):
            mounts.mount("/dev/null", place, "", MountFlags.BIND)
            mounts.set_path_attributes(place, MountAttributes.RDONLY | MountAttributes.NOSUID)


def _place(target: str) -> int:
    """Return the folder inside to mount on. No link is followed: cells can put one where their own folders are."""
    root = os.open("/", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    return open_without_links(root, target.lstrip("/"), os.O_PATH | os.O_DIRECTORY)


def _is_mount_point(place: int) -> bool:
    return os.fstat(place).st_dev != os.stat("/mnt").st_dev


# --- the work folder of a layer that writes through (overlayfs.rst: on the same mount as the upper layer)


def _work_place(real: str, task: Task, status: os.stat_result, *, make: bool) -> tuple[str, int]:
    """Make the work folder of the folder ``real`` (or find out whether there is a place for one), and lock it."""
    parent = os.path.dirname(real)
    for place in (task.work_folders, parent):
        if make and place == task.work_folders:
            os.makedirs(place, mode=0o700, exist_ok=True)
        holder = place
        while not os.path.isdir(holder):
            holder = os.path.dirname(holder)
        if (
            is_within(holder, real)
            or _mount_id(holder) != _mount_id(real)
            or not os.access(holder, os.W_OK | os.X_OK)
        ):
            continue
        if not make:
            return "", -1
        work = f"{place}/.sentinel-work-{secrets.token_hex(6)}"
        os.mkdir(work, 0o700)
        lock = os.open(work, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try_lock_whole(lock)
        if task.started_by_root:
            os.fchown(lock, status.st_uid, status.st_gid)
        return work, lock
    raise Refused("no_work_folder", parent)


def sweep(place: str) -> None:
    """Remove the work folders in ``place`` whose supervisor is gone."""
    try:
        names = os.listdir(place)
    except OSError:
        return
    for name in names:
        if name.startswith(".sentinel-work-"):
            try:
                descriptor = os.open(f"{place}/{name}", os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            except OSError:
                continue
            if try_lock_whole(descriptor):
                _discard(f"{place}/{name}")
            os.close(descriptor)


def _discard(work: str) -> None:
    """Remove a work folder; the Linux kernel leaves one folder in it that nobody may enter."""
    import shutil  # noqa: PLC0415 - only for a folder that was written

    inner = f"{work}/work"
    try:
        if stat.S_ISDIR(os.lstat(inner).st_mode):
            os.chmod(inner, 0o700, follow_symlinks=False)
    except (OSError, NotImplementedError):
        pass
    shutil.rmtree(work, ignore_errors=True)


# --- the host's mounts


def _mount_points() -> list[str]:
    from sentinel_kernel.supervisor.facts import mount_points  # noqa: PLC0415 - only in the child

    return list(mount_points())


def _mount_point_of(path: str) -> str:
    return max((point for point in _mount_points() if is_within(path, point)), key=len, default="/")


def _mount_id(path: str) -> str:
    """Return the number of the mount that ``path`` lies on (proc(5), /proc/PID/fdinfo)."""
    descriptor = os.open(path, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with open(f"/proc/self/fdinfo/{descriptor}", encoding="ascii") as file:
            return next(line.split()[1] for line in file if line.startswith("mnt_id:"))
    finally:
        os.close(descriptor)


def discard_all(works: list[str]) -> None:
    """Remove work folders of layers that are gone."""
    for work in works:
        _discard(work)
