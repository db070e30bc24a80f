"""Detached, id-mapped copies of the user's folders, for sandboxes started by root."""

from __future__ import annotations

import errno
import os

from sentinel_kernel.abi.mount import MountAttributes
from sentinel_kernel.errors import BootError
from sentinel_kernel.linux import mounts
from sentinel_kernel.linux.namespaces import mapped_user_namespace
from sentinel_kernel.policy.plan import MountKind
from sentinel_kernel.supervisor.sandbox import DIED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from sentinel_kernel.policy.plan import BootPlan, MountEntry

_STEP = "map_owner"


def prepare_trees(plan: BootPlan) -> dict[str, int]:
    """Return target -> detached mount for every folder of the user, its owner mapped to the sandbox's id.

    Root's sandbox runs as an id that owns nothing. Inside an idmapped mount (mount_setattr(2), Linux 5.12) the
    folder's owner appears as that id, and what the sandbox creates is the owner's on disk. Empty for an ordinary
    user, who needs none of it.

    Raises:
        BootError: the file system can't be idmapped; the sandbox is refused, because the alternative would be to
            run as root.

    """
    trees: dict[str, int] = {}
    if not plan.started_by_root:
        return trees
    maps: dict[tuple[int, int], int] = {}
    try:
        for entry in plan.mounts:
            if entry.owned:
                trees[entry.target] = _mapped_tree(plan, entry, maps)
    except BaseException:
        for tree in trees.values():
            os.close(tree)
        raise
    finally:
        for descriptor in maps.values():
            os.close(descriptor)
    return trees


def _mapped_tree(plan: BootPlan, entry: MountEntry, maps: dict[tuple[int, int], int]) -> int:
    try:
        status = os.stat(entry.source)
        owner = (status.st_uid, status.st_gid)
        if owner not in maps:
            maps[owner] = _owner_map(plan, *owner)
        recursive = entry.kind is not MountKind.OVERLAY and status.st_mode & 0o170000 == 0o040000
        tree = mounts.open_tree(entry.source, recursive=recursive)
    except OSError as error:
        raise BootError(
            _STEP,
            error.errno or 0,
            f"The folder {entry.source} can't be prepared for the sandbox: {error.strerror}.",
            "Check that it exists, or start JupyterLab as an ordinary user.",
        ) from None
    try:
        mounts.set_mount_attributes(
            tree,
            MountAttributes.IDMAP | MountAttributes.NOSUID | MountAttributes.NODEV,
            user_namespace=maps[owner],
            recursive=recursive,
        )
    except OSError as error:
        os.close(tree)
        raise BootError(
            _STEP,
            error.errno or 0,
            f"The file system of {entry.source} can't map owners (idmapped mounts): {error.strerror}.",
            "Start JupyterLab as an ordinary user: root's own id is never given to a sandbox.",
        ) from None
    return tree


def _owner_map(plan: BootPlan, uid: int, gid: int) -> int:
    """Return a user namespace that maps the owner of a folder to the sandbox's id."""
    identity = plan.identity
    try:
        return mapped_user_namespace(f"{uid} {identity.host_uid} 1", f"{gid} {identity.host_gid} 1")
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ESRCH):
            raise BootError(DIED, error.errno, "A helper of the set-up was killed at once.") from None
        # Not the folder's fault: this machine makes no user namespaces, as the sandbox's own clone would find too.
        raise BootError("clone", error.errno or 0, str(error)) from None
