"""A person's commit as a step of the undo journal: what the host had before, and a way back to it."""

from __future__ import annotations

import contextlib
import errno

from sentinel_kernel.linux import mounts
from sentinel_kernel.workspace import change as kinds
from sentinel_kernel.workspace.journal import ABSENT
from sentinel_kernel.workspace.journal_records import Entry, Seen, Step
from sentinel_kernel.workspace.layer import folder_of, status_of
from sentinel_kernel.workspace.marks import key_of
from sentinel_kernel.workspace.tracked import MOST_PATHS, lies_in

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from sentinel_kernel.workspace.change import Change
    from sentinel_kernel.workspace.journal import Journal
    from sentinel_kernel.workspace.journal_records import Key, Path
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
    step = Step("", is_commit=True)
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


def note_beside(step: Step, paths: Iterable[Path]) -> None:
    """Note as the step's what was put beside the host's files, so that an undo stops there and says that it stays."""
    there = Seen(kinds.BESIDE, is_folder=False, key=ABSENT)
    step.entries += [Entry(*path, None, ABSENT, committed=ABSENT, replaced=there) for path in paths]


def let_stay(journal: Journal, step: Step) -> None:
    """Have no undo of a cell take anything of its away, where the commit deleted what it deleted, and none is kept.

    What it wrote may be the last copy: a folder was moved. What else it deleted can be brought back.
    """
    deleted = {path for path, seen in journal.seen.items() if seen.kind == kinds.DELETED}
    lost = {(entry.layer, entry.path) for entry in step.entries if _is_lost(entry)}
    steps = [one for one in journal.steps if one is not step]
    gone = {
        (entry.layer, entry.path)
        for one in steps
        if any(lies_in((entry.layer, entry.path), lost) for entry in one.entries)
        for entry in one.entries
    } - deleted
    for one in steps:
        one.entries = [entry for entry in one.entries if (entry.layer, entry.path) not in gone]


def _is_lost(entry: Entry) -> bool:
    """Tell whether the commit took content from the host that can't be brought back."""
    replaced = entry.replaced
    if entry.committed is None or replaced is None or replaced.version:
        return False
    return replaced.kind not in (kinds.MODE, kinds.BESIDE)


def relinked(layer: Layer, path: str, key: Key) -> Key:
    """Return ``key`` as further names that the very file got in the same commit have left it."""
    with contextlib.suppress(OSError), folder_of(layer.lower, path) as at:
        status = status_of(*at)
        if status is not None and status.st_nlink > 1 and key_of(status)[:3] == key[:3]:
            return key_of(status)
    return key


def _check(entry: Entry, *, lost: bool) -> None:
    if not entry.is_kept:
        raise FileNotFoundError(errno.ENOENT, "the former version was not kept")
    if lost and entry.replaced is None:
        raise OSError(errno.ENOTRECOVERABLE, "it may be the last copy")


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
    lost = any(_is_lost(entry) for entry in step.entries)
    for entry in sorted(step.entries, key=lambda entry: -entry.path.count("/")):
        try:
            _check(entry, lost=lost)
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
