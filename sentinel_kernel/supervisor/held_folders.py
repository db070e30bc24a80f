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
    """One folder of the host above which cells write."""

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
    """Reconfigures the overlay (fspick(2))."""
    shared: bool = False
    """Whether ``upper`` and ``context`` are the sandbox's (the workspace's), which closes and refreshes them."""

    def descriptors(self) -> list[int]:
        """Return all that are open."""
        return [one for one in (self.upper, self.merged, self.lower, self.context) if one >= 0]


class HeldFolders(MutableRecord):
    """All of one sandbox, the workspace first."""

    folders: list[HeldFolder] = fresh(default_factory=list)
    history: int = -1
    """A folder beside the layers, which no path of the sandbox leads to: former versions, and what was saved."""
    parked: int = -1
    """Another one, for files that are on their way."""
    home: int = -1
    """The sandbox's own home, in which nothing is held."""

    def descriptors(self) -> list[int]:
        """Return what work on the folders needs."""
        found = [descriptor for one in self.folders for descriptor in one.descriptors()]
        return [*found, *(one for one in (self.history, self.parked) if one >= 0)]

    def holds_any(self) -> bool:
        """Tell whether any of the layers has anything in it. Raises OSError."""
        for folder in self.folders:
            with os.scandir(folder.upper) as entries:
                if next(entries, None) is not None:
                    return True
        return False

    def duplicate(self) -> HeldFolders:
        """Return the same with descriptors of its own, for whom the sandbox's end must not take them from.

        Raises OSError where no descriptors are to be had; none is left open then.
        """
        made: list[int] = []

        def copy(descriptor: int) -> int:
            if descriptor < 0:
                return -1
            made.append(os.dup(descriptor))
            return made[-1]

        try:
            folders = [
                HeldFolder(one.name, one.path, copy(one.upper), copy(one.merged), copy(one.lower))
                for one in self.folders
            ]
            return HeldFolders(folders, copy(self.history), copy(self.parked))
        except OSError:
            for descriptor in made:
                os.close(descriptor)
            raise

    def refresh(self) -> None:
        """Make the folders beside the workspace show what changed on the host."""
        for folder in self.folders:
            if folder.context >= 0 and not folder.shared:
                mounts.reconfigure(folder.context)

    def close(self) -> None:
        """Release every descriptor but those that are shared with the sandbox."""
        for folder in self.folders:
            kept = (folder.upper, folder.context) if folder.shared else ()
            for descriptor in folder.descriptors():
                if descriptor not in kept:
                    os.close(descriptor)
        for descriptor in (self.history, self.parked, self.home):
            if descriptor >= 0:
                os.close(descriptor)
        self.folders, self.history, self.parked, self.home = [], -1, -1, -1


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
    plan: BootPlan,
    handed: Sequence[tuple[str, int]],
    workspace: tuple[int, int],
    lowers: Mapping[str, int],
) -> HeldFolders:
    """Return the folders of ``plan`` with what boot has ``handed`` over by name (boot/context.py, ``layers``).

    ``workspace`` are the upper folder and the context of the workspace, which are the sandbox's own.
    """
    named = dict(handed)
    found = HeldFolders(
        history=named.get("history", -1), parked=named.get("parked", -1), home=named.get("home", -1)
    )
    for entry in sorted(plan.mounts, key=lambda entry: entry.upper != plan.workspace_upper):
        name = entry.upper
        if not entry.is_held or f"merged:{name}" not in named:
            continue
        shared = f"upper:{name}" not in named
        upper, context = workspace if shared else (named[f"upper:{name}"], named[f"context:{name}"])
        merged, lower = named[f"merged:{name}"], lowers.get(name, -1)
        found.folders.append(HeldFolder(name, entry.source, upper, merged, lower, context, shared))
    return found
