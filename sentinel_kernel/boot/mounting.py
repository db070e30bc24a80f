"""Boot steps that build the sandbox's file tree out of the plan."""

from __future__ import annotations

import os
import stat

from sentinel_kernel.abi.mount import MountAttributes, MountFlags
from sentinel_kernel.boot.hidden_names import cover_names
from sentinel_kernel.linux import mounts
from sentinel_kernel.policy.plan import (
    DEVICES,
    PROC_MASKED,
    PROC_READ_ONLY,
    MountKind,
    inodes_for,
    is_within,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from sentinel_kernel.boot.context import BootContext
    from sentinel_kernel.policy.plan import MountEntry

_SKELETON_BYTES = 32 * 1024 * 1024
_MANY_HIDDEN = 1000
"""With more covered names (many homes in one folder) they lie apart: cells need the inodes of their own layer."""
_MOST_TERMINALS = 64
"""Linux counts those of all sandboxes and containers together (kernel.pty.max without kernel.pty.reserve: 3,072)."""
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_SAFE = MountFlags.NOSUID | MountFlags.NODEV
_SEALED = MountAttributes.RDONLY | MountAttributes.NOSUID | MountAttributes.NODEV


def make_mounts_private(context: BootContext) -> None:  # noqa: ARG001 - every step has the same form
    """Cut the propagation of mounts: nothing mounted from here on reaches the host (mount_namespaces(7))."""
    mounts.mount("none", "/", "", MountFlags.REC | MountFlags.PRIVATE)


def stage_root(context: BootContext) -> None:
    """Mount the new root and the layer for held writes on the staging place, and check that they are ours."""
    staging = context.plan.staging
    before = os.stat(staging).st_dev
    mounts.mount("sentinel", staging, "tmpfs", _SAFE, "size=1m,nr_inodes=256,mode=0700")
    if os.stat(staging).st_dev == before:
        raise OSError(5, f"mounting on {staging} had no effect")
    root, uppers, lowers = _staged(context)
    for directory in (root, uppers, lowers):
        os.mkdir(directory, 0o755)
    mounts.mount("sentinel-root", root, "tmpfs", _SAFE, f"size={_SKELETON_BYTES},nr_inodes=4096,mode=0755")
    context.root_device = os.stat(root).st_dev
    # The root is sealed, and a mount over its /mnt would hide Landlock's rule: this copy of it stays writable.
    context.layers.append(("place", mounts.open_tree(root, recursive=False)))
    size = context.plan.sizes.disk_bytes
    mounts.mount(
        "sentinel-held", uppers, "tmpfs", _SAFE, f"size={size},nr_inodes={inodes_for(size)},mode=0755"
    )
    context.sized.append(("disk_bytes", mounts.pick_file_system(uppers)))
    # Former versions of what cells wrote, and what is on its way: where no path of the sandbox leads.
    for name in ("history", "parked"):
        os.mkdir(f"{uppers}/{name}", 0o700)
        context.layers.append((name, os.open(f"{uppers}/{name}", _FOLDER)))


def make_skeleton(context: BootContext) -> None:
    """Create the folders, links and generated files of the new root."""
    root = _staged(context)[0]
    for directory in context.plan.directories:
        _make_directory(root + directory)
    for path, content in context.plan.files:
        _make_directory(os.path.dirname(root + path))
        file = os.open(root + path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
        os.write(file, content)
        os.close(file)
    for path, target in context.plan.links:
        _make_directory(os.path.dirname(root + path))
        os.symlink(target, root + path)


def mount_tree(context: BootContext) -> None:
    """Carry out the plan's mounts, shallow before deep."""
    root = _staged(context)[0]
    for entry in context.plan.mounts:
        target = root + entry.target
        _make_mount_point(target, is_directory=entry.is_directory)
        match entry.kind:
            case MountKind.TMPFS:
                options = (
                    f"size={entry.size_bytes},nr_inodes={inodes_for(entry.size_bytes)},mode={entry.mode:o}"
                )
                mounts.mount("tmpfs", target, "tmpfs", _SAFE, options)
                if entry.sized_by:
                    context.sized.append((entry.sized_by, mounts.pick_file_system(target)))
            case MountKind.BIND | MountKind.BIND_WRITABLE:
                _bind(context, entry, target)
                attributes = MountAttributes.NOSUID | MountAttributes.NODEV
                if entry.kind is MountKind.BIND:
                    attributes |= MountAttributes.RDONLY
                mounts.set_path_attributes(target, attributes, recursive=True)
            case MountKind.OVERLAY:
                _overlay(context, entry, target)
                if entry.sealed:
                    mounts.set_path_attributes(target, _SEALED)
            case MountKind.MASK_DIRECTORY:
                mounts.mount(
                    "tmpfs", target, "tmpfs", _SAFE | MountFlags.RDONLY, "size=4k,nr_inodes=2,mode=0555"
                )
            case MountKind.MASK_FILE:
                mounts.mount("/dev/null", target, "", MountFlags.BIND)
                mounts.set_path_attributes(target, MountAttributes.RDONLY | MountAttributes.NOSUID)
    home = os.open(root + context.plan.home, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    context.layers.append(("home", home))


def mount_devices(context: BootContext) -> None:
    """Give /dev the harmless character devices, pseudo-terminals of its own, and shared memory."""
    root = _staged(context)[0]
    for name in DEVICES:
        target = f"{root}/dev/{name}"
        _make_mount_point(target, is_directory=False)
        mounts.mount(f"/dev/{name}", target, "", MountFlags.BIND)
        mounts.set_path_attributes(target, MountAttributes.NOSUID | MountAttributes.NOEXEC)
    os.mkdir(f"{root}/dev/shm", 0o755)
    size = context.plan.sizes.shm_bytes
    flags = _SAFE | MountFlags.NOEXEC
    mounts.mount(
        "shm", f"{root}/dev/shm", "tmpfs", flags, f"size={size},nr_inodes={inodes_for(size)},mode=1777"
    )
    context.sized.append(("shm_bytes", mounts.pick_file_system(f"{root}/dev/shm")))
    os.mkdir(f"{root}/dev/pts", 0o755)
    options = f"newinstance,ptmxmode=0666,mode=0620,max={_MOST_TERMINALS}"
    mounts.mount("devpts", f"{root}/dev/pts", "devpts", MountFlags.NOSUID | MountFlags.NOEXEC, options)


def mount_proc(context: BootContext) -> None:
    """Mount a fresh /proc of the new process namespace.

    It must happen while the old /proc is still in sight: afterwards the Linux kernel answers EPERM, as it does
    where the old one is masked (as in a container).
    """
    mounts.mount("proc", f"{_staged(context)[0]}/proc", "proc", _SAFE | MountFlags.NOEXEC)


def mount_shown(context: BootContext) -> None:
    """Put files of the sandbox's own over those that tell how much memory and how many processors the machine has.

    They lie outside the root, where nothing seals them; the supervisor writes them, as the profile's sizes change.
    """
    root, uppers, _ = _staged(context)
    for name, place in (("meminfo", "/proc/meminfo"), ("online", "/sys/devices/system/cpu/online")):
        if not os.path.exists(root + place):
            continue
        file = f"{uppers}/{name}"
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        descriptor = os.open(file, flags, 0o444)
        os.fchmod(descriptor, 0o444)
        context.shown.append((name, descriptor))
        with open(root + place, "rb") as machine:
            os.write(descriptor, machine.read())
        mounts.mount(file, root + place, "", MountFlags.BIND)
        attributes = MountAttributes.RDONLY | MountAttributes.NOSUID | MountAttributes.NODEV
        mounts.set_path_attributes(root + place, attributes | MountAttributes.NOEXEC)


def mask_proc(context: BootContext) -> None:  # noqa: ARG001
    """Hide what /proc tells about the machine, and make the parts that change it read-only."""
    for name in PROC_MASKED:
        path = f"/proc/{name}"
        try:
            mode = os.lstat(path).st_mode
        except FileNotFoundError:
            continue
        if stat.S_ISDIR(mode):
            mounts.mount("tmpfs", path, "tmpfs", _SAFE | MountFlags.RDONLY, "size=4k,nr_inodes=2,mode=0555")
        else:
            mounts.mount("/dev/null", path, "", MountFlags.BIND)
    for name in PROC_READ_ONLY:
        path = f"/proc/{name}"
        if os.path.exists(path):
            mounts.mount(path, path, "", MountFlags.BIND | MountFlags.REC)
            mounts.set_path_attributes(path, MountAttributes.RDONLY, recursive=True)


def seal_root(context: BootContext) -> None:  # noqa: ARG001
    """Make the root itself read-only; the mounts on it keep their own mode."""
    mounts.set_path_attributes("/", _SEALED | MountAttributes.NOEXEC)


def _staged(context: BootContext) -> tuple[str, str, str]:
    staging = context.plan.staging
    return f"{staging}/root", f"{staging}/uppers", f"{staging}/lowers"


def _make_directory(path: str) -> None:
    """Create a folder and those above it; one call where it is there already or only its parent is (most)."""
    try:
        os.mkdir(path, 0o755)
    except FileExistsError:
        pass
    except FileNotFoundError:
        _make_directory(os.path.dirname(path))
        os.mkdir(path, 0o755)


def _make_mount_point(target: str, *, is_directory: bool) -> None:
    if is_directory:
        _make_directory(target)
    elif not os.path.lexists(target):
        _make_directory(os.path.dirname(target))
        os.close(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644))


def _bind(context: BootContext, entry: MountEntry, target: str) -> None:
    tree = context.trees.get(entry.target)
    if tree is None:
        mounts.mount(entry.source, target, "", MountFlags.BIND | MountFlags.REC)
    else:
        mounts.attach_tree(tree, target)


def _overlay(context: BootContext, entry: MountEntry, target: str) -> None:
    """Mount an overlay whose layers have short names: a path with a colon or comma would break its options."""
    _, uppers, lowers = _staged(context)
    lower, layer = f"{lowers}/{entry.upper}", f"{uppers}/{entry.upper}"
    os.mkdir(lower, 0o755)
    tree = context.trees.get(entry.target)
    if tree is None:
        mounts.mount(entry.source, lower, "", MountFlags.BIND)
    else:
        mounts.attach_tree(tree, lower)
    # The merged folder takes its mode from the upper one.
    mode = stat.S_IMODE(os.stat(lower).st_mode)
    os.mkdir(layer, 0o755)
    for name in ("upper", "work"):
        os.mkdir(f"{layer}/{name}", 0o700)
        os.chmod(f"{layer}/{name}", mode & 0o777 | 0o700)
    if entry.hidden:
        os.mkdir(f"{layer}/hidden", 0o755)
        if len(entry.hidden) > _MANY_HIDDEN:
            inodes = 4 * len(entry.hidden)  # with the folders that they lie in
            mounts.mount(
                "sentinel-hidden", f"{layer}/hidden", "tmpfs", _SAFE, f"size=1m,nr_inodes={inodes},mode=0755"
            )
        cover_names(f"{layer}/hidden", lower, entry.hidden)
        lower = f"{layer}/hidden:{lower}"
    options = f"lowerdir={lower},upperdir={layer}/upper,workdir={layer}/work,userxattr"
    mounts.mount("sentinel-overlay", target, "overlay", _SAFE, options)
    if entry.upper == context.plan.workspace_upper and is_within(context.plan.workspace, entry.target):
        context.workspace_upper = os.open(f"{layer}/upper", _FOLDER)
        context.workspace_context = mounts.pick_file_system(target)
    elif entry.is_held:
        context.layers.append((f"upper:{entry.upper}", os.open(f"{layer}/upper", _FOLDER)))
        context.layers.append((f"context:{entry.upper}", mounts.pick_file_system(target)))
    if entry.is_held:
        context.layers.append((f"merged:{entry.upper}", os.open(target, _FOLDER)))
