"""Commits changes to the host's folder: each file old or new at every moment, whatever ends the process.

A file is copied under a name of its own, and gets its own in one step: a new one under a free name, a changed one in
exchange for the known old one. What is exchanged is on the disk before (fdatasync(2), syncfs(2)), so that a power
cut leaves the old or the new; a new file has no old one to lose, and waits for no disk: :func:`settle` does that for
all, once, behind the answer.
"""

from __future__ import annotations

import contextlib
import errno
import os
import signal
from functools import partial

from sentinel_kernel.linux.renaming import write_back
from sentinel_kernel.policy import committable
from sentinel_kernel.record import MutableRecord, fresh
from sentinel_kernel.workspace import change as kinds
from sentinel_kernel.workspace.giving_up import Settled, give_up
from sentinel_kernel.workspace.host_folder import (
    ChangedMeanwhile,
    HostFolders,
    delete,
    place,
    place_beside,
)
from sentinel_kernel.workspace.journal import ABSENT
from sentinel_kernel.workspace.layer import folder_of, open_plain, parts_of, status_of
from sentinel_kernel.workspace.marks import key_of
from sentinel_kernel.workspace.staging import Staging

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from sentinel_kernel.workspace.change import Change
    from sentinel_kernel.workspace.layer import Layer
    from sentinel_kernel.workspace.marks import Key
    from sentinel_kernel.workspace.staging import Staged

QUESTIONS = ("overwrite", "delete", "dangerous", "conflict")

_BATCH = 200
_BATCH_BYTES = 256 << 20
_BATCH_FOLDERS = 64
_SYNCED_ALONE = 8
"""More files than these are brought to the disk by one call for all of their file system."""
_NAMED = 20
_MOST_PLACED = 20_000


class Outcome(MutableRecord):
    """What came of it; lists hold the first ones, counts are of all. Paths are as a person types them (Layer.shown)."""

    cell: str = ""
    """Of an undo: the execution count of the cell whose files were taken back; empty where a person's commit was."""
    count: int = 0
    bytes: int = 0
    paths: list[str] = fresh(default_factory=list)
    folders: int = 0
    """Of an undo: folders that were taken back and had none of the files in them; not in ``count``."""
    beside: list[str] = fresh(default_factory=list)
    """Where a conflict's file of the cell was put: beside the host's."""
    beside_in: list[tuple[str, str]] = fresh(default_factory=list)
    """Of each of those: (layer, path within it)."""
    failed_count: int = 0
    failed: list[tuple[str, str, str]] = fresh(default_factory=list)
    """(path, layer, code of workspace/request.py)."""
    placed: dict[tuple[str, str], Key] = fresh(default_factory=dict)
    """(layer, path) -> what was put there, as its own descriptor told of it: nobody else's file; ABSENT: deleted."""

    def fail(self, layer: Layer, change: Change, code: str) -> None:
        """Note a change that was not committed."""
        self.failed_count += 1
        if len(self.failed) < _NAMED:
            self.failed.append((layer.shown(change.path), change.layer, code))

    def done(self, layer: Layer, change: Change, placed: str = "") -> None:
        """Note one that was, under the name ``placed`` where that is another."""
        self.count += 1
        self.bytes += max(0, change.size)
        if len(self.paths) < _NAMED:
            above, _, name = change.path.rpartition("/")
            self.paths.append(layer.shown(f"{above}/{placed or name}" if above else placed or name))


def questions(change: Change) -> tuple[str, ...]:
    """Return what of ``QUESTIONS`` a person has to say yes to before this is committed; pure."""
    asked = []
    over_theirs = change.kind == kinds.CHANGED and not change.conflict and not change.autocommit
    if change.kind == kinds.MODE or over_theirs:
        asked.append("overwrite")  # in a conflict nothing is: the cell's file is put beside the host's
    if change.kind == kinds.DELETED:
        asked.append("delete")
    if change.committable in committable.ASKED or (change.kind == kinds.MODE and change.executable):
        asked.append("dangerous")
    if change.conflict:
        asked.append("conflict")
    return tuple(asked)


def commit(
    layer: Layer,
    chosen: Iterable[Change],
    answers: frozenset[str],
    *,
    outcome: Outcome,
    told: Callable[[Outcome], None] = lambda _: None,
    by_itself: bool = False,
    asked_new: bool = False,
) -> None:
    """Commit ``chosen`` (in the order of a listing, which it may be), adding to ``outcome``.

    What needs a yes that is not in ``answers`` fails as ``not_committable``. A host's file that is another than when it
    was listed is kept, and so is the cell's (``NAME.sentinel-TIME`` beside it), or it fails as ``changed_meanwhile``
    where ``conflict`` was not answered. ``told`` is called after each batch (some hundred files). ``by_itself``: nobody
    was asked; what is not ``autocommit``, or open for writing just now, is left alone and told nowhere. ``asked_new``:
    the person was asked about what is ``autocommit`` too.

    Afterwards cells see the host's file where nobody had the cell's open (giving_up.py), and its copy's memory is free.
    """
    signal.signal(signal.SIGIO, signal.SIG_IGN)  # tells of broken leases; ends a process else
    run = _Commit(layer, answers, outcome, by_itself=by_itself, asked_new=asked_new)
    try:
        for change in chosen:
            run.take(change)
            if run.is_full:
                run.flush()
                told(outcome)
        run.flush()
    finally:
        run.close()
    told(outcome)


def settle(layer: Layer) -> None:
    """Wait until what was committed is on the disk; call it when the person has the answer. Raises OSError."""
    descriptor = os.open(f"/proc/self/fd/{layer.lower}", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        write_back(descriptor)
    finally:
        os.close(descriptor)


class _Commit:
    def __init__(
        self, layer: Layer, answers: frozenset[str], outcome: Outcome, *, by_itself: bool, asked_new: bool
    ) -> None:
        self._layer = layer
        self._answers = answers
        self._outcome = outcome
        self._by_itself = by_itself
        self._host = HostFolders(layer)
        self._staged: list[Staged] = []
        self._settled: list[Settled] = []
        self._folders: list[str] = []
        self._bytes = 0
        self._giving_up = 0
        """The process that gives up what was committed before; 0: none."""
        self._staging = Staging(
            layer, self._host, programs="dangerous" in answers, waits=not by_itself, asked_new=asked_new
        )

    @property
    def is_full(self) -> bool:
        waiting = len(self._staged) + len(self._settled) + len(self._folders)
        return waiting >= _BATCH or self._bytes >= _BATCH_BYTES or len(self._host) >= _BATCH_FOLDERS

    def close(self) -> None:
        for staged in self._staged:
            self._staging.drop(staged)
        self._staged.clear()
        self._wait()
        self._host.close()
        self._staging.close()

    def flush(self) -> None:
        """Give what is staged its names, and give the cells' copies up."""
        staged, self._staged = self._staged, []
        try:
            with contextlib.suppress(OSError):  # a disk that fails at this tells of it at settle()
                if len(staged) > _SYNCED_ALONE:
                    write_back(staged[0].writer)
                for one in staged[:_SYNCED_ALONE]:
                    os.fdatasync(one.writer)
            while staged:
                one = staged.pop()
                self._tried(one.change, partial(self._place, one))
        finally:
            for one in staged:
                self._staging.drop(one)
        settled, self._settled, folders, self._folders = self._settled, [], self._folders, []
        self._host.close()
        self._bytes = 0
        self._wait()
        if len(settled) < _BATCH // 2:
            give_up(self._layer, settled, folders)
            return
        # In a child beside the copying of the next batch: it takes a third as long as that.
        self._giving_up = os.fork()
        if self._giving_up == 0:
            try:
                give_up(self._layer, settled, folders)
            finally:
                os._exit(0)

    def _wait(self) -> None:
        """Wait until what was committed before is given up."""
        if self._giving_up:
            with contextlib.suppress(ChildProcessError):  # somebody has reaped it
                os.waitpid(self._giving_up, 0)
            self._giving_up = 0

    def take(self, change: Change) -> None:
        """Commit one change, or stage it for the end of its batch."""
        if self._by_itself and not change.autocommit:
            return
        asked = questions(change)
        refused = change.committable in committable.REFUSED or change.kind == kinds.SPECIAL
        if refused or not self._answers.issuperset(set(asked) - {"conflict"}):
            self._outcome.fail(self._layer, change, "not_committable")
        elif "conflict" in asked and "conflict" not in self._answers:
            self._outcome.fail(self._layer, change, "changed_meanwhile")
        else:
            self._tried(change, partial(self._one, change))

    def _tried(self, change: Change, step: Callable[[], None]) -> None:
        try:
            step()
        except ChangedMeanwhile:
            self._outcome.fail(self._layer, change, "changed_meanwhile")
        except OSError as error:
            self._outcome.fail(self._layer, change, _code(error, self._layer))

    def _one(self, change: Change) -> None:
        folder, _, name = change.path.rpartition("/")
        parts_of(change.path)
        if change.is_folder and change.kind == kinds.NEW:
            made = os.fstat(self._host.folder(change.path))
            self._folders.append(change.path)
            self._outcome.done(self._layer, change)
            if change.path in self._host.made:
                self._note_placed(change, key_of(made))
        elif change.kind == kinds.DELETED:
            self._delete(change, folder, name)
        elif change.is_folder:
            self._outcome.fail(self._layer, change, "not_committable")
        elif change.kind == kinds.MODE:
            self._mode(change, folder, name)
        else:
            self._copy(change, self._host.folder(folder))

    def _delete(self, change: Change, folder: str, name: str) -> None:
        with folder_of(self._layer.upper, change.path) as (above, last):
            gone = status_of(above, last)
            before = os.stat(f"/proc/self/fd/{above}").st_mtime_ns
        if gone is not None:
            before = min(before, gone.st_ctime_ns)
        if change.conflict:
            raise ChangedMeanwhile  # both are kept: the host's file, and the cell's wish
        host = self._host.folder(folder)
        with self._host.acting():
            delete(host, name, change.host_key, before)
        self._outcome.done(self._layer, change)
        self._note_placed(change, ABSENT)
        self._settled.append(Settled(change.path, None))

    def _mode(self, change: Change, folder: str, name: str) -> None:
        host = self._host.folder(folder)
        with folder_of(self._layer.upper, change.path) as (above, last):
            mode = os.stat(last, dir_fd=above, follow_symlinks=False).st_mode
        with self._host.acting():
            file, status = open_plain(host, name)
            try:
                if key_of(status) != change.host_key:
                    raise ChangedMeanwhile
                os.fchmod(file, mode & (0o777 if "dangerous" in self._answers else 0o666 | status.st_mode))
                host_key = key_of(os.fstat(file))
            finally:
                os.close(file)
        self._outcome.done(self._layer, change)
        self._note_placed(change, host_key)
        self._settled.append(Settled(change.path, host_key, change.cell_key))

    def _copy(self, change: Change, folder: int) -> None:
        staged = self._staging.copy(change, folder)
        if staged is None:
            return
        self._bytes += staged.cell[1]
        # A new one gets its name at once.
        if change.kind == kinds.CHANGED and not change.conflict:
            self._staged.append(staged)
        else:
            self._place(staged)

    def _place(self, staged: Staged) -> None:
        change, folder = staged.change, staged.folder
        name = change.path.rpartition("/")[2]
        placed = ""
        try:
            with self._host.acting():
                try:
                    if change.conflict:
                        placed = self._beside(staged)
                    else:
                        place(folder, staged.unfinished, name, change.host_key)
                except ChangedMeanwhile:
                    if "conflict" not in self._answers or status_of(folder, staged.unfinished) is None:
                        raise
                    placed = self._beside(staged)
            # By its own descriptor: the name may be somebody else's file by now.
            there = os.fstat(staged.writer)
            host = status_of(folder, name) if placed else there
        except BaseException:
            self._staging.drop(staged)
            raise
        os.close(staged.writer)
        self._outcome.done(self._layer, change, placed)
        if not placed:
            self._note_placed(change, key_of(there))
        if host is not None:
            self._settled.append(Settled(change.path, key_of(host), staged.cell))
            above = change.path.rpartition("/")[0]
            self._staging.note(staged, f"{above}/{placed or name}" if above else placed or name, there.st_ino)

    def _note_placed(self, change: Change, key: Key) -> None:
        if self._by_itself or len(self._outcome.placed) < _MOST_PLACED:
            self._outcome.placed[change.layer, change.path] = key

    def _beside(self, staged: Staged) -> str:
        placed = place_beside(staged.folder, staged.unfinished, staged.change.path.rpartition("/")[2])
        if len(self._outcome.beside) < _NAMED:
            above = staged.change.path.rpartition("/")[0]
            path = f"{above}/{placed}" if above else placed
            self._outcome.beside.append(self._layer.shown(path))
            self._outcome.beside_in.append((staged.change.layer, path))
        return placed


def _code(error: OSError, layer: Layer) -> str:
    match error.errno:
        case errno.ENOSPC | errno.EDQUOT | errno.EFBIG:
            return "no_space"
        case errno.EROFS | errno.EPERM:
            return "not_writable"
        case errno.EACCES:
            return "unreadable" if error.filename is None else "not_writable"
        case errno.ENOENT | errno.ESTALE:
            there = "no_such_path" if error.errno == errno.ENOENT else "failed"
            return "folder_gone" if layer.is_gone else there
        case errno.ENAMETOOLONG | errno.ELOOP | errno.ENOTDIR | errno.EXDEV | errno.EINVAL | errno.EISDIR:
            return "not_committable"
        case _:
            return "failed"
