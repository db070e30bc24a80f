"""Mount calls: the classic mount(2), detached trees, idmapped mounts, and live reconfiguration."""

from __future__ import annotations

import ctypes
import os
import struct

from sentinel_kernel.abi.mount import (
    AT_EMPTY_PATH,
    AT_FDCWD,
    AT_RECURSIVE,
    FSCONFIG_CMD_RECONFIGURE,
    FSCONFIG_SET_STRING,
    FSPICK_CLOEXEC,
    MNT_DETACH,
    MOUNT_ATTR_FORMAT,
    MOVE_MOUNT_F_EMPTY_PATH,
    MOVE_MOUNT_T_EMPTY_PATH,
    OPEN_TREE_CLOEXEC,
    OPEN_TREE_CLONE,
    MountAttributes,
    MountFlags,
)
from sentinel_kernel.linux.libc import LIBC, checked, system_call


def mount(source: str, target: str, kind: str, flags: MountFlags, options: str = "") -> None:
    """Attach ``source`` at ``target``; flags and options are those of the system call of this name.

    Raises:
        OSError: refused; the message names source, target and options.

    """
    result = LIBC.mount(
        os.fsencode(source),
        os.fsencode(target),
        kind.encode(),
        int(flags),
        os.fsencode(options) if options else None,
    )
    checked(result, f"mount {kind} {source} -> {target} {options}".rstrip())


def open_tree(path: str, *, recursive: bool) -> int:
    """Return a detached copy of the mount at ``path`` (open_tree(2), Linux 5.2)."""
    flags = OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | (AT_RECURSIVE if recursive else 0)
    return system_call("open_tree", AT_FDCWD, os.fsencode(path), flags)


def set_mount_attributes(
    tree: int, attributes: MountAttributes, *, user_namespace: int = 0, recursive: bool = False
) -> None:
    """Set attributes of the mount ``tree`` (mount_setattr(2), Linux 5.12); IDMAP takes ``user_namespace``."""
    layout = struct.pack(MOUNT_ATTR_FORMAT, int(attributes), 0, 0, user_namespace)
    flags = AT_EMPTY_PATH | (AT_RECURSIVE if recursive else 0)
    system_call(
        "mount_setattr", tree, b"", flags, ctypes.create_string_buffer(layout, len(layout)), len(layout)
    )


def set_path_attributes(path: str, attributes: MountAttributes, *, recursive: bool = False) -> None:
    """Set attributes of the mount at ``path`` (mount_setattr(2), Linux 5.12)."""
    layout = struct.pack(MOUNT_ATTR_FORMAT, int(attributes), 0, 0, 0)
    buffer = ctypes.create_string_buffer(layout, len(layout))
    system_call(
        "mount_setattr", AT_FDCWD, os.fsencode(path), AT_RECURSIVE if recursive else 0, buffer, len(layout)
    )


def attach_tree(tree: int, target: str) -> None:
    """Attach a detached mount at ``target`` (move_mount(2), Linux 5.2)."""
    system_call("move_mount", tree, b"", AT_FDCWD, os.fsencode(target), MOVE_MOUNT_F_EMPTY_PATH)


def attach_tree_at(tree: int, place: int) -> None:
    """Attach a detached mount on the folder ``place``, a descriptor (move_mount(2), MOVE_MOUNT_T_EMPTY_PATH)."""
    flags = MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH
    system_call("move_mount", tree, b"", place, b"", flags)


def clone_at(directory: int, *, recursive: bool) -> int:
    """Return a detached copy of the mount of ``directory`` from that folder on (open_tree(2), Linux 5.2).

    ``directory`` is a descriptor of this mount namespace.
    """
    flags = OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_EMPTY_PATH | (AT_RECURSIVE if recursive else 0)
    return system_call("open_tree", directory, b"", flags)


def clear_mount_attributes(tree: int, attributes: MountAttributes) -> None:
    """Take attributes off the mount ``tree`` (mount_setattr(2), Linux 5.12)."""
    layout = struct.pack(MOUNT_ATTR_FORMAT, 0, int(attributes), 0, 0)
    buffer = ctypes.create_string_buffer(layout, len(layout))
    system_call("mount_setattr", tree, b"", AT_EMPTY_PATH, buffer, len(layout))


def detach(path: str) -> None:
    """Take the mount at ``path`` away; who uses it keeps it until done (umount2(2), MNT_DETACH)."""
    checked(LIBC.umount2(os.fsencode(path), MNT_DETACH), f"umount2 {path}")


def pick_file_system(path: str) -> int:
    """Return a context that can reconfigure the file system mounted at ``path`` (fspick(2), Linux 5.2)."""
    return system_call("fspick", AT_FDCWD, os.fsencode(path), FSPICK_CLOEXEC)


def reconfigure(context: int) -> None:
    """Remount the file system of ``context`` with unchanged options (fsconfig(2), CMD_RECONFIGURE).

    The Linux kernel drops the cached names of the file system on the way, so that what changed in an overlay's
    lower layer is seen. Allowed to the owner of the file system's user namespace, from outside too.
    """
    system_call("fsconfig", context, FSCONFIG_CMD_RECONFIGURE, None, None, 0)


def resize(context: int, size_bytes: int, inodes: int) -> None:
    """Change the size of the tmpfs of ``context`` (tmpfs(5)).

    Raises:
        OSError: EINVAL where it holds more than that already; it keeps its size then.

    """
    for name, value in (("size", size_bytes), ("nr_inodes", inodes)):
        system_call("fsconfig", context, FSCONFIG_SET_STRING, name.encode(), str(value).encode(), 0)
    reconfigure(context)
