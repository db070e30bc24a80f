"""Takes back what the last cell that changed any files did to them, as the journal has it."""

from __future__ import annotations

import contextlib
import errno
import os
import stat

from sentinel_kernel.linux.acting import acting_as
from sentinel_kernel.linux.files import open_beneath
from sentinel_kernel.workspace import change as kinds
from sentinel_kernel.workspace import person_commit
from sentinel_kernel.workspace.bare_folders import bare
from sentinel_kernel.workspace.commit import Outcome
from sentinel_kernel.workspace.copying import copy_data
from sentinel_kernel.workspace.host_folder import ChangedMeanwhile, make_unfinished, place
from sentinel_kernel.workspace.layer import folder_of, status_of
from sentinel_kernel.workspace.marks import key_of
from sentinel_kernel.workspace.request import NAMED_PATHS, code_of
from sentinel_kernel.workspace.taking_back import discard, make_folder, put, remove, show_host

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from sentinel_kernel.workspace.change import Change
    from sentinel_kernel.workspace.journal import Journal
    from sentinel_kernel.workspace.journal_records import Entry, Key, Path, Seen, Step
    from sentinel_kernel.workspace.layer import Layer


_CODES = {errno.ESTALE: "changed_since", errno.ENOTRECOVERABLE: "only_copy"}


def undo(
    layers: Mapping[str, Layer],
    journal: Journal,
    now: Mapping[Path, Change],
    keep: Callable[[Layer, str], None] = lambda _layer, _path: None,
) -> Outcome:
    """Take the journal's last step back, given what is held ``now``; what can't be taken back is in the outcome.

    A file that was committed by itself is removed from the host as well, unless it is another there by now. ``keep``
    is called for each path whose file will be another, or gone.

    Raises:
        OSError: what is to be brought back can't be written down; nothing was taken back.

    """
    outcome = Outcome()
    step = journal.steps[-1]
    journal.announce(step)
    # Where the journal was too long, that has dropped the step.
    journal.steps = [one for one in journal.steps if one is not step]
    outcome.cell = step.cell
    if step.is_commit:
        return _undo_commit(layers, journal, step, keep, outcome)
    lost = any(_is_lost(entry, now) for entry in step.entries)  # whoever did it: a dry run has a copy of all
    folders: dict[Path, str] = {}  # -> why it stays
    # What is in a folder goes before the folder, and comes after it.
    for entry in sorted(step.entries, key=lambda entry: (entry.before is not None, _order(entry))):
        try:
            if lost:
                _check_is_old(entry, now)
            if not entry.is_folder:
                keep(layers[entry.layer], entry.path)
            _take_back(layers[entry.layer], entry, journal, now.get((entry.layer, entry.path)))
        except OSError as error:
            _failed(outcome, folders, layers[entry.layer], entry, error)
        else:
            if entry.is_folder:
                folders[entry.layer, entry.path] = ""
            _done(outcome, layers[entry.layer], entry)
    _tell_folders(outcome, layers, step, folders)
    return outcome


def _undo_commit(
    layers: Mapping[str, Layer],
    journal: Journal,
    step: Step,
    keep: Callable[[Layer, str], None],
    outcome: Outcome,
) -> Outcome:
    """Take a person's commit back: the host has its former files again, and cells what they had before it."""
    left: list[Path] = []
    folders: dict[Path, str] = {}

    def on_host(entry: Entry) -> None:
        if not entry.is_folder:
            keep(layers[entry.layer], entry.path)
        if entry.committed is not None:
            _take_back_on_host(layers[entry.layer], entry, entry.committed, journal)

    def in_sandbox(entry: Entry) -> None:
        layer, before = layers[entry.layer], entry.before
        if before is not None:
            _show_former(layer, entry.path, before, journal)
        elif entry.replaced is not None:
            show_host(layer, entry.path)
        else:
            remove(layer, entry.path)

    def failed(entry: Entry, error: OSError) -> None:
        _failed(outcome, folders, layers[entry.layer], entry, error)
        left.append((entry.layer, entry.path))

    for entry in person_commit.take_back(layers, step, on_host, in_sandbox, failed):
        if entry.is_folder:
            folders[entry.layer, entry.path] = ""
        _done(outcome, layers[entry.layer], entry)
    _tell_folders(outcome, layers, step, folders)
    journal.forget(left)  # what stays committed is no cell's doing any more
    return outcome


def _done(outcome: Outcome, layer: Layer, entry: Entry) -> None:
    if entry.is_folder:
        return  # see _tell_folders
    outcome.count += 1
    outcome.bytes += max(0, entry.after[1])
    if len(outcome.paths) < NAMED_PATHS:
        outcome.paths.append(layer.shown(entry.path))


def _tell_folders(
    outcome: Outcome, layers: Mapping[str, Layer], step: Step, folders: Mapping[Path, str]
) -> None:
    """Count the folders that no file of the step tells of, by whether they were taken back or why they stay."""
    files = ((entry.layer, entry.path) for entry in step.entries if not entry.is_folder)
    for layer, path in bare(folders, files):
        shown = layers[layer].shown(path)
        if why := folders[layer, path]:
            _count_failed(outcome, shown, layer, why)
            continue
        outcome.folders += 1
        if len(outcome.paths) < NAMED_PATHS:
            outcome.paths.append(f"{shown}/")


def _failed(outcome: Outcome, folders: dict[Path, str], layer: Layer, entry: Entry, error: OSError) -> None:
    why = _why(layer, entry, error)
    if entry.is_folder and entry.committed is not None:
        folders[entry.layer, entry.path] = why  # see _tell_folders
    else:
        _count_failed(outcome, layer.shown(entry.path), entry.layer, why)


def _count_failed(outcome: Outcome, shown: str, layer: str, why: str) -> None:
    outcome.failed_count += 1
    if len(outcome.failed) < NAMED_PATHS:
        outcome.failed.append((shown, layer, why))


def _why(layer: Layer, entry: Entry, error: OSError) -> str:
    if entry.replaced is not None and entry.replaced.kind == kinds.BESIDE:
        return "put_beside"
    code = code_of(error) if entry.is_kept else "former_gone"
    code = _CODES.get(error.errno or 0, code)
    # ESTALE is a word of this file's too: of a folder that is there it means what is in _CODES.
    if (code == "no_such_path" or error.errno == errno.ESTALE) and layer.is_gone:
        return "folder_gone"
    return code


def _is_lost(entry: Entry, now: Mapping[Path, Change]) -> bool:
    """Tell whether a cell deleted its own file, of which no version was kept."""
    change = now.get((entry.layer, entry.path))
    gone = change is None or change.kind == kinds.DELETED
    return gone and entry.before is not None and entry.before.kind != kinds.SPECIAL and not entry.is_kept


def _check_is_old(entry: Entry, now: Mapping[Path, Change]) -> None:
    """Raise OSError where neither the host nor an earlier cell had anything there: it may be a copy of what is lost."""
    if entry.before is not None or entry.replaced is not None:
        return
    change = now.get((entry.layer, entry.path))
    if entry.committed is not None or (change is not None and change.kind == kinds.NEW):
        raise OSError(errno.ENOTRECOVERABLE, "it may be the last copy")


def _order(entry: Entry) -> int:
    depth = entry.path.count("/")
    return depth if entry.before is not None else -depth


def _take_back(layer: Layer, entry: Entry, journal: Journal, change: Change | None) -> None:
    """Make cells see at the entry's path what they saw before. Raises OSError, also where a folder stays."""
    before = entry.before
    if not entry.is_kept:
        raise FileNotFoundError(errno.ENOENT, "the former version was not kept")
    if entry.is_folder and entry.committed is not None and before is None:
        _take_back_folder(layer, entry.path, entry.committed)
        return
    if entry.committed is not None:
        _take_back_on_host(layer, entry, entry.committed, journal)
    if before is None:
        if entry.committed is not None and entry.replaced is not None:
            show_host(layer, entry.path)
        elif entry.committed is not None:
            remove(layer, entry.path)  # the cell's own, where somebody had it open when it was committed
        elif change is not None:
            discard(layer, change)
    else:
        _show_former(layer, entry.path, before, journal)


def _take_back_folder(layer: Layer, path: str, committed: Key) -> None:
    """Remove a folder that was committed by itself.

    Raises:
        OSError: it stays, for cells too: ESTALE where somebody has put something into it on the host, ENOTEMPTY where
            cells have, else as rmdir(2).

    """
    _check_is_unused(layer, path, committed)
    remove(layer, path)  # first, as the overlay can't remove what has gone below it
    try:
        _remove_from_host(layer, path, committed)
    except FileNotFoundError:
        if layer.is_gone:
            raise
        return  # with the folder above
    except OSError:
        with contextlib.suppress(OSError):  # what the person has put in it can be seen again
            show_host(layer, path, gone=True)
        raise


def _check_is_unused(layer: Layer, path: str, committed: Key) -> None:
    """Raise OSError, ESTALE, where the host has another folder there, or something in it."""
    try:
        there = open_beneath(layer.lower, path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        if error.errno == errno.ENOENT and not layer.is_gone:
            return
        if error.errno in (errno.ENOTDIR, errno.ELOOP):
            raise OSError(errno.ESTALE, "it is no folder any more") from None
        raise
    try:
        with os.scandir(there) as entries:
            if os.fstat(there).st_ino != committed[0] or next(entries, None) is not None:
                raise OSError(errno.ESTALE, "something was put into the folder since")
    finally:
        os.close(there)


def _show_former(layer: Layer, path: str, before: Seen, journal: Journal) -> None:
    """Make cells see what they saw of their own before. Raises OSError."""
    if before.kind == "deleted":
        remove(layer, path)
    elif before.is_folder:
        make_folder(layer, path)
    else:
        reader = journal.open_version(before)
        try:
            put(layer, path, reader, before.mode, os.fstat(reader).st_mtime_ns)
        finally:
            os.close(reader)
    journal.brought_back((layer.name, path), before)


def _take_back_on_host(layer: Layer, entry: Entry, committed: Key, journal: Journal) -> None:
    """Give the host the file that it had before the commit, or none. Raises OSError as the two below."""
    path = (entry.layer, entry.path)
    if entry.replaced is not None:
        key = _put_back_on_host(layer, entry.path, committed, entry.replaced, journal)
        journal.put_back(path, entry.replaced.key, key)
    else:
        _remove_from_host(layer, entry.path, committed)
        journal.own.pop(path, None)


def _put_back_on_host(layer: Layer, path: str, committed: Key, former: Seen, journal: Journal) -> Key:
    """Put the host's former file in the place of the one that was committed; return its state now.

    Raises:
        OSError: ESTALE where it was changed since, else as of open(2), write(2) or rename(2).

    """
    reader = journal.open_version(former)
    try:
        with folder_of(layer.lower, path) as (folder, name), acting_as(layer.owner):
            writer, unfinished = make_unfinished(folder)
            try:
                status = os.fstat(reader)
                copy_data(reader, writer, status.st_size)
                os.fchmod(writer, former.mode)
                os.utime(writer, ns=(former.key[2], former.key[2]))
                os.fdatasync(writer)
                place(folder, unfinished, name, committed)
                return key_of(os.fstat(writer))
            except ChangedMeanwhile:
                raise OSError(errno.ESTALE, "the file on the host was changed since") from None
            finally:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(unfinished, dir_fd=folder)
                os.close(writer)
    finally:
        os.close(reader)


def _remove_from_host(layer: Layer, path: str, committed: Key) -> None:
    """Remove what was committed by itself from the host's folder; nothing is done where that is gone already.

    Raises:
        OSError: ESTALE where it was changed since, or is another; ENOTEMPTY where somebody has put something into a
            folder; else as unlink(2) and rmdir(2).

    """
    with folder_of(layer.lower, path) as (folder, name):
        status = status_of(folder, name)
        if status is None:
            return
        is_folder = stat.S_ISDIR(status.st_mode)
        # Of a folder all but its number changes with what is in it.
        if status.st_ino != committed[0] if is_folder else key_of(status) != committed:
            raise OSError(errno.ESTALE, "what the host has there was changed since")
        with acting_as(layer.owner):
            if is_folder:
                os.rmdir(name, dir_fd=folder)
            else:
                os.unlink(name, dir_fd=folder)
