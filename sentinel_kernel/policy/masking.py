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


def _commands_elsewhere(facts: HostFacts, seen: Sequence[str]) -> list[MountEntry]:
    """Return what covers this package with one that says where its commands are run.

    Of an editable install the environment has a folder of that name, too, where the package itself lies elsewhere.
    """
    package = facts.package_directory
    places = [package] if any(is_within(package, top) for top in seen) else []
    if not places and os.path.dirname(package) in facts.python.module_directories:
        beside = [f"{path}/{os.path.basename(package)}" for path in facts.python.module_directories]
        places = [path for path in beside if path != package and facts.kinds.get(path) == "directory"]
    outside = os.path.join(package, "worker", "outside")
    return [MountEntry(MountKind.BIND, path, outside, owned=True) for path in places]


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
    seen = (*covered, "/usr")
    run_folder = os.path.dirname(run_entry)
    if any(is_within(run_folder, top) for top in seen):
        masks.append(MountEntry(MountKind.MASK_DIRECTORY, run_folder))
    masks += _commands_elsewhere(facts, seen)
    # What lies in a folder that is hidden is hidden with it, and an empty folder has no place to mount on.
    empty = [mask.target for mask in masks if mask.kind is MountKind.MASK_DIRECTORY]
    inner = {
        mask.target
        for mask in masks
        if any(mask.target != top and is_within(mask.target, top) for top in empty)
    }
    return [mask for mask in masks if mask.target not in inner]
