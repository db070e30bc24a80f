"""A person's commit as a step of the undo journal: what the host had before, and a way back to it."""

from __future__ import annotations

import contextlib
import errno

from sentinel_kernel.linux import mounts
from sentinel_kernel.workspace import change as kinds
from sentinel_kernel.workspace.journal import Entry, Step
from sentinel_kernel.workspace.layer import folder_of, status_of
from sentinel_kernel.workspace.marks import key_of
from sentinel_kernel.workspace.tracked import MOST_PATHS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from sentinel_kernel.workspace.change import Change
    from sentinel_kernel.workspace.journal import Journal, Key
    from sentinel_kernel.workspace.layer import Layer

_BLOCK_BYTES = 4096


class Keeping:
    """Tells before a commit what of the host could not be brought back after it."""

    def __init__(self, room: int) -> None:
        """``room``: bytes that former versions may take."""
        self._room = room

    def keeps(self, change: Change) -> bool:
        """Tell whether the host's file would be kept, and count it; a deleted folder with all in it is not."""
        if change.kind == kinds.NEW or change.conflict:
            return True
        cost = -(-max(0, change.host_size) // _BLOCK_BYTES) * _BLOCK_BYTES
        if change.is_folder or cost > self._room:
            return False
        self._room -= cost
        return True


def begin(journal: Journal) -> Step:
    """Return a new step for what a person commits."""
    journal.room()
    step = Step("")
    journal.steps.append(step)
    return step


def keep_former(journal: Journal, layer: Layer, change: Change, step: Step) -> Change:
    """Note ``change`` as the step's, with the host's file that it replaces or deletes; return ``change``."""
    if change.conflict or change.kind == kinds.SPECIAL:
        return change
    if len(step.entries) >= MOST_PATHS:
        journal.incomplete = True
        return change
    path = (change.layer, change.path)
    entry = Entry(*path, journal.seen.get(path), change.cell_key, is_folder=change.is_folder)
    step.entries.append(entry)
    if change.kind != kinds.NEW:
        entry.replaced = journal.host_copy(layer, change)
    return change


def relinked(layer: Layer, path: str, key: Key) -> Key:
    """Return ``key`` as further names that the very file got in the same commit have left it."""
    with contextlib.suppress(OSError), folder_of(layer.lower, path) as at:
        status = status_of(*at)
        if status is not None and status.st_nlink > 1 and key_of(status)[:3] == key[:3]:
            return key_of(status)
    return key


def take_back(
    layers: Mapping[str, Layer],
    step: Step,
    on_host: Callable[[Entry], None],
    in_sandbox: Callable[[Entry], None],
    failed: Callable[[Entry, OSError], None],
) -> list[Entry]:
    """Undo a commit: first all of it on the host, then what cells see; return what was taken back.

    The overlay looks at every name anew in between: what it knew of the host's files is not so any more.
    """
    done: list[Entry] = []
    for entry in sorted(step.entries, key=lambda entry: -entry.path.count("/")):
        try:
            if not entry.is_kept:
                raise FileNotFoundError(errno.ENOENT, "the former version was not kept")
            on_host(entry)
        except OSError as error:
            failed(entry, error)
        else:
            done.append(entry)
    for layer in layers.values():
        if layer.context >= 0:
            mounts.reconfigure(layer.context)
    taken = []
    for entry in reversed(done):
        try:
            in_sandbox(entry)
        except OSError as error:
            failed(entry, error)
        else:
            taken.append(entry)
    return taken
