"""What of the user's folders a sandbox does not see: a mask on what is there, the bare name of what is not; pure."""

from __future__ import annotations

import os.path

from sentinel_kernel.policy.plan import MountEntry, MountKind, is_within
from sentinel_kernel.record import replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from sentinel_kernel.policy.plan import HostFacts


def _holder(mounts: Sequence[MountEntry], path: str) -> str:
    """Return where the mount lies that shows ``path``; empty where none does."""
    return max((entry.target for entry in mounts if is_within(path, entry.target)), key=len, default="")


def with_names_covered(
    facts: HostFacts, mounts: Sequence[MountEntry], shown: Sequence[MountEntry], hidden: Sequence[str]
) -> list[MountEntry]:
    """Return ``shown`` with the hidden names that no mask can lie on: nothing has them yet, or a link."""
    names: dict[str, list[str]] = {}
    there = [path for path in hidden if facts.kinds.get(path, "") == "directory"]
    for path in hidden:
        kind = facts.kinds.get(path, "")
        holder = _holder(mounts, path)
        if any(path != top and is_within(path, top) for top in there):
            continue  # covered with that folder
        if path != holder and (not kind or kind.startswith("link:")):
            names.setdefault(holder, []).append(path[len(holder) + 1 :])
    return [
        replace(entry, hidden=tuple(dict.fromkeys(names[entry.target])))
        if entry.kind is MountKind.OVERLAY and entry.target in names
        else entry
        for entry in shown
    ]


def masks_of(
    facts: HostFacts,
    mounts: Sequence[MountEntry],
    covered: Sequence[str],
    hidden: Sequence[str],
    run_entry: str,
) -> list[MountEntry]:
    """Return what hides paths that the user's folders would show; where nothing shows them, nothing is needed."""
    masks = []
    for path in hidden:
        kind = facts.kinds.get(path, "")
        holder = _holder(mounts, path)
        if kind and holder in covered and not kind.startswith("link:"):
            directory = kind == "directory"
            mask = MountKind.MASK_DIRECTORY if directory else MountKind.MASK_FILE
            masks.append(MountEntry(mask, path, is_directory=directory))
    ours = (os.path.dirname(run_entry), facts.package_directory)
    seen = (*covered, "/usr")
    masks += [
        MountEntry(MountKind.MASK_DIRECTORY, path)
        for path in ours
        if any(is_within(path, top) for top in seen)
    ]
    # What lies in a folder that is hidden is hidden with it, and an empty folder has no place to mount on.
    empty = [mask.target for mask in masks if mask.kind is MountKind.MASK_DIRECTORY]
    inner = {
        mask.target
        for mask in masks
        if any(mask.target != top and is_within(mask.target, top) for top in empty)
    }
    return [mask for mask in masks if mask.target not in inner]
