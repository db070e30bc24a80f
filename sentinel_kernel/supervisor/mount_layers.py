"""Builds the layer that shows one folder of the host, in user and mount namespaces of its own.

The sandbox's own namespaces may make no further one. Here the host's mounts are still seen, no right is had outside,
and what is handed over is a detached mount.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import stat

from sentinel_kernel.abi.mount import MountAttributes, MountFlags
from sentinel_kernel.abi.prctl import SecureBits
from sentinel_kernel.abi.sched import CloneFlags
from sentinel_kernel.boot.hidden_names import cover_names, look_alike
from sentinel_kernel.linux import mounts, namespaces, process
from sentinel_kernel.linux.files import open_beneath
from sentinel_kernel.policy.shown_folder import PLACE, Surroundings, covered
from sentinel_kernel.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

    from sentinel_kernel.policy.plan import Identity

_SAFE = MountFlags.NOSUID | MountFlags.NODEV
_SEALED = MountAttributes.RDONLY | MountAttributes.NOSUID | MountAttributes.NODEV
_EMPTY_OPTIONS = "size=4k,nr_inodes=2,mode=0555"
_ANSWER_BYTES = 4096


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


class Source(Record):
    """What a layer is built of: the folder, its mount, an owner-mapped copy of that, the work folder, and the root."""

    real: str
    top: str
    tree: int
    work: str
    place: int


def built(task: Task, source: Source) -> tuple[int, int]:
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


def _build(sock: socket.socket, task: Task, source: Source) -> NoReturn:
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


def _layer(task: Task, source: Source) -> list[int]:
    """Return what :func:`_built` tells of."""
    real, top, tree, work = source.real, source.top, source.tree, source.work
    mounts.mount("none", "/", "", MountFlags.REC | MountFlags.PRIVATE)
    # Opened before anything is mounted: the staging place may lie above the folder.
    opened = [] if tree >= 0 else [_opened(one, "", top) for one in (real, work) if one]
    staging = task.staging
    mounts.mount("sentinel-live", staging, "tmpfs", _SAFE, "size=256k,nr_inodes=64k,mode=0700")
    for name in ("merged", "empty", "host", "hidden"):
        os.mkdir(f"{staging}/{name}", 0o755)
    if tree >= 0:
        mounts.attach_tree(tree, f"{staging}/host")
        opened = [_opened(one, f"{staging}/host", top) for one in (real, work) if one]
    merged = f"{staging}/merged"
    folder = opened[0]
    found = os.fstat(folder)
    if (found.st_dev, found.st_ino) != task.identity_seen:
        raise Refused("changed", real)
    secret = covered(real, task.around.hidden if task.around is not None else ())
    uncovered = [name for name in secret if not _can_be_covered(f"/proc/self/fd/{folder}/{name}")]
    if uncovered and task.mode == "rw":
        # The host's folder is the upper layer then: nothing lies above it, and a mask needs a place.
        raise Refused("secret_inside", f"{real}/{uncovered[0]}")
    # Named by descriptors: a path with a colon or comma would break the options.
    options = f"lowerdir=/proc/self/fd/{folder}:{staging}/empty,userxattr"
    if uncovered:
        look_alike(f"{staging}/hidden", found)
        cover_names(f"{staging}/hidden", f"/proc/self/fd/{folder}", uncovered)
        options = f"lowerdir={staging}/hidden:/proc/self/fd/{folder},userxattr"
    if task.mode == "rw":
        layers = f"upperdir=/proc/self/fd/{folder},workdir=/proc/self/fd/{opened[1]}"
        options = f"lowerdir={staging}/empty,{layers},userxattr"
    try:
        mounts.mount("sentinel-overlay", merged, "overlay", _SAFE, options)
    except OSError as error:
        raise Refused("no_layer", os.strerror(error.errno or 0)) from None
    if task.mode == "ro":
        mounts.set_path_attributes(merged, _SEALED)
    _cover(merged, secret)
    layer = [mounts.open_tree(merged, recursive=True), mounts.pick_file_system(merged)]
    if task.target.startswith(PLACE + "/"):
        with contextlib.suppress(FileExistsError):
            os.mkdir(task.target.lstrip("/"), 0o755, dir_fd=source.place)
    return layer


def join(sandbox: int, task: Task) -> None:
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


def owned_tree(task: Task, top: str, status: os.stat_result) -> int:
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


def _can_be_covered(place: str) -> bool:
    """Tell whether a mask can be mounted on ``place``: on no link, and on nothing that is not there."""
    try:
        mode = os.lstat(place).st_mode
    except OSError:
        return False
    return stat.S_ISDIR(mode) or stat.S_ISREG(mode)


def _cover(merged: str, names: list[str]) -> None:
    """Cover what is hidden and there: a mask stays where it is, whatever the host puts in that place."""
    for name in names:
        place = f"{merged}/{name}"
        try:
            mode = os.lstat(place).st_mode
        except OSError:
            continue  # its name is covered
        if stat.S_ISDIR(mode):
            mounts.mount("tmpfs", place, "tmpfs", _SAFE | MountFlags.RDONLY, _EMPTY_OPTIONS)
        elif stat.S_ISREG(mode):
            mounts.mount("/dev/null", place, "", MountFlags.BIND)
            mounts.set_path_attributes(place, MountAttributes.RDONLY | MountAttributes.NOSUID)
