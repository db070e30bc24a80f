"""The folders whose changes are held: what of each the supervisor, and who saves for it, has open."""

from __future__ import annotations

import os

from sentinel_kernel.linux import mounts
from sentinel_kernel.record import MutableRecord, fresh

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from contextlib import ExitStack

    from sentinel_kernel.policy.plan import BootPlan

_FOLDER = os.O_DIRECTORY | os.O_CLOEXEC


class HeldFolder(MutableRecord):
    """One folder of the host above which cells write; the descriptors are its own."""

    name: str
    """``workspace``, ``data0`` ...: as the plan names the layer."""
    path: str
    """Of the folder on the host."""
    upper: int
    """The layer that holds what cells wrote."""
    merged: int
    """What cells see."""
    lower: int
    """The host's folder itself, or -1 where it can't be opened (its path may lead elsewhere by now)."""
    context: int = -1
    """Reconfigures the overlay (fspick(2)); -1 for the workspace, whose is the sandbox's."""


class HeldFolders(MutableRecord):
    """All of one sandbox, the workspace first."""

    folders: list[HeldFolder] = fresh(default_factory=list)
    history: int = -1
    """A folder beside the layers, which no path of the sandbox leads to: former versions, and what was saved."""

    def refresh(self) -> None:
        """Make the folders beside the workspace show what changed on the host."""
        for folder in self.folders:
            if folder.context >= 0:
                mounts.reconfigure(folder.context)

    def close(self) -> None:
        """Release every descriptor but the workspace's upper one, which is the sandbox's."""
        for folder in self.folders:
            own = (folder.merged, folder.lower, folder.context, folder.upper if folder.context >= 0 else -1)
            for descriptor in own:
                if descriptor >= 0:
                    os.close(descriptor)
        if self.history >= 0:
            os.close(self.history)
        self.folders, self.history = [], -1


def open_lowers(plan: BootPlan, undo: ExitStack) -> dict[str, int]:
    """Return layer -> the host's folder, opened before anything of the sandbox runs; what can't be opened is left out.

    By name alone (O_PATH) where it may be entered and not listed. ``undo`` closes them again.
    """
    lowers = {}
    for entry in plan.mounts:
        if not entry.is_held:
            continue
        for flags in (os.O_RDONLY, os.O_PATH):
            try:
                lowers[entry.upper] = os.open(entry.source, flags | _FOLDER)
            except OSError:
                continue
            undo.callback(os.close, lowers[entry.upper])
            break
    return lowers


def held_folders(
    plan: BootPlan, handed: Sequence[tuple[str, int]], workspace_upper: int, lowers: Mapping[str, int]
) -> HeldFolders:
    """Return the folders of ``plan`` with what boot has ``handed`` over by name (boot/context.py, ``layers``)."""
    named = dict(handed)
    found = HeldFolders(history=named.get("history", -1))
    for entry in sorted(plan.mounts, key=lambda entry: entry.upper != plan.workspace_upper):
        name = entry.upper
        if entry.is_held and f"merged:{name}" in named:
            upper = named.get(f"upper:{name}", workspace_upper)
            context = named.get(f"context:{name}", -1)
            merged, lower = named[f"merged:{name}"], lowers.get(name, -1)
            found.folders.append(HeldFolder(name, entry.source, upper, merged, lower, context))
    return found
