"""Whole copies of cells' files beside where they belong on the host, under names of their own."""

from __future__ import annotations

import contextlib
import errno
import os
import stat

from sentinel_kernel.linux.leases import is_kept, release_lease, take_lease
from sentinel_kernel.policy.committable import form_of
from sentinel_kernel.policy.disk_reserve import room
from sentinel_kernel.workspace import change as kinds
from sentinel_kernel.workspace.copying import copy_data, keeps_holes
from sentinel_kernel.workspace.host_folder import ChangedMeanwhile, make_unfinished
from sentinel_kernel.workspace.launching import Looks
from sentinel_kernel.workspace.layer import Parents, open_plain, status_of
from sentinel_kernel.workspace.marks import key_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from sentinel_kernel.workspace.change import Change
    from sentinel_kernel.workspace.host_folder import HostFolders
    from sentinel_kernel.workspace.layer import Layer

# What SQLite keeps beside a database that is open or was not closed: without it the copy may be of no use, and a
# journal that is left over beside a later copy would spoil that (https://www.sqlite.org/howtocorrupt.html, 1.2 to 1.4).
_DATABASE_ENDINGS = ("-journal", "-wal", "-shm")

_LINKS = 10_000
_TRIES = 3


class Staged:
    """A whole copy that waits for its name."""

    __slots__ = ("cell", "change", "folder", "names", "unfinished", "writer")

    def __init__(
        self, change: Change, folder: int, unfinished: str, writer: int, status: os.stat_result
    ) -> None:
        """``status`` is the cell's file's when it was copied, under the name ``unfinished`` in the host's folder."""
        self.change = change
        self.folder = folder
        self.unfinished = unfinished
        self.writer = writer
        self.cell = key_of(status)
        self.names = status.st_nlink


class Staging:
    """Makes the copies of one commit."""

    def __init__(
        self, layer: Layer, host: HostFolders, *, programs: bool, waits: bool, asked_new: bool
    ) -> None:
        """Copy from ``layer`` to ``host``.

        ``programs``: what is executable may stay so. ``waits`` false: what is written to all the time is left, and a
        database in the middle of a transaction. ``asked_new``: a person was asked about new files that may be
        ``autocommit`` too.
        """
        self._layer = layer
        self._host = host
        self._programs = programs
        self._waits = waits
        self._asked_new = asked_new
        self._links: dict[tuple[int, int], tuple[str, int]] = {}
        """(inode, mtime) of a cell's file with several names -> where it was committed, and as which inode."""
        self._keeps_holes: bool | None = None
        self._parents = Parents(layer.upper)
        self._looks = Looks()

    def close(self) -> None:
        """Release the folder that is open."""
        self._parents.close()

    def note(self, staged: Staged, path: str, inode: int) -> None:
        """Note where a copy is now, as further names of the cell's file become names of it."""
        if staged.names > 1 and len(self._links) < _LINKS:
            self._links[staged.cell[0], staged.cell[2]] = (path, inode)

    def copy(self, change: Change, folder: int) -> Staged | None:
        """Return a copy of the cell's file in the host's ``folder``; None where it is left.

        Raises:
            ChangedMeanwhile: it was written to each time that it was copied.
            OSError: it can't be read, or the copy not be written.

        """
        for _ in range(_TRIES):
            above, name = self._parents.of(change.path)
            if not self._waits and _is_half_a_database(above, name):
                return None
            reader, status = open_plain(above, name)
            try:
                leased = take_lease(reader, alone=False)
                staged = self._copied(change, folder, reader, status, leased=leased)
            finally:
                os.close(reader)
            if staged is not None:
                return staged
        if not self._waits:
            return None  # it is written to just now: a later cell's end finds it whole
        raise ChangedMeanwhile

    def _copied(
        self, change: Change, folder: int, reader: int, status: os.stat_result, *, leased: bool
    ) -> Staged | None:
        """Return the whole copy; None where the file changed meanwhile."""
        self._refuse_without_room(folder, status)
        linked = self._linked(change, folder, status)
        if linked is not None:
            if self._launches(change, linked.writer):
                self.drop(linked)
                return None
            return linked

        def give_way() -> None:
            # Somebody waits to write: they wait no longer, and the file's times tell whether they did.
            if leased and not is_kept(reader, alone=False):
                release_lease(reader)

        kept = self._kept_mode(change, folder)
        allowed = 0o777 if self._programs else 0o666
        with self._host.acting():
            writer, unfinished = make_unfinished(folder, status.st_mode & allowed | 0o600)
        staged = Staged(change, folder, unfinished, writer, status)
        try:
            copy_data(reader, writer, status.st_size, give_way)
            if key_of(os.fstat(reader)) != staged.cell or self._launches(change, writer):
                self.drop(staged)
                return None
            with self._host.acting():
                if kept is not None:
                    os.fchmod(writer, kept)
                os.utime(writer, ns=(status.st_mtime_ns, status.st_mtime_ns))
        except BaseException:
            self.drop(staged)
            raise
        return staged

    def _launches(self, change: Change, writer: int) -> bool:
        """Tell whether a copy that nobody was asked about says what to run: the cell's file may be another since."""
        form = form_of(change.path)
        if self._asked_new or not change.autocommit or not form:
            return False
        with self._host.acting():
            copy = os.open(f"/proc/self/fd/{writer}", os.O_RDONLY | os.O_CLOEXEC)
        try:
            return self._looks.are_settings(copy, form)
        finally:
            os.close(copy)

    @staticmethod
    def _kept_mode(change: Change, folder: int) -> int | None:
        """Return the mode of the host's file that is replaced; None for a new one, in which its folder has a say."""
        if change.kind != kinds.CHANGED or change.conflict:
            return None
        host = status_of(folder, change.path.rpartition("/")[2])
        return None if host is None else host.st_mode & 0o777

    def _linked(self, change: Change, folder: int, status: os.stat_result) -> Staged | None:
        """Give a file with several names, one of which was committed, a further one there: it is stored once."""
        known = self._links.get((status.st_ino, status.st_mtime_ns)) if status.st_nlink > 1 else None
        if known is None:
            return None
        path, inode = known
        with contextlib.suppress(OSError), self._host.acting():
            writer, unfinished = make_unfinished(folder)
            staged = Staged(change, folder, unfinished, writer, status)
            above, _, name = path.rpartition("/")
            try:
                os.unlink(unfinished, dir_fd=folder)
                source = self._host.folder(above)
                os.link(name, unfinished, src_dir_fd=source, dst_dir_fd=folder, follow_symlinks=False)
                opened, there = open_plain(folder, unfinished)
            except OSError:
                self.drop(staged)
                raise
            os.close(writer)
            staged.writer = opened
            if there.st_ino == inode and there.st_size == status.st_size:
                return staged
            self.drop(staged)
        return None

    def _refuse_without_room(self, folder: int, status: os.stat_result) -> None:
        cost = status.st_size
        stored = status.st_blocks * 512
        if stored < cost:
            if self._keeps_holes is None:
                with self._host.acting():
                    self._keeps_holes = keeps_holes(folder)
            # What nobody was asked about has to fit with its holes as well: who copies it on may not keep them.
            cost = stored if self._keeps_holes and self._waits else cost
        space = os.fstatvfs(folder)
        if room(space) < cost:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def drop(self, staged: Staged) -> None:
        """Remove a copy that got no name."""
        os.close(staged.writer)
        with contextlib.suppress(OSError), self._host.acting():
            status = status_of(staged.folder, staged.unfinished)
            if status is not None and stat.S_ISREG(status.st_mode):
                os.unlink(staged.unfinished, dir_fd=staged.folder)


def _is_half_a_database(folder: int, name: str) -> bool:
    """Tell whether a file, with another beside it, makes up a database that is in use."""
    if name.endswith(_DATABASE_ENDINGS):
        return True
    return any(status_of(folder, name + ending) is not None for ending in _DATABASE_ENDINGS[:2])
