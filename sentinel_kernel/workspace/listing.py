"""Lists what cells changed, one by one and within bounds, by walking the upper folder beside the host's.

What the layers of an overlay mean: Documentation/filesystems/overlayfs.rst of the Linux kernel. Mounted with
``userxattr`` there is neither a redirected folder nor a file without its data.
"""

from __future__ import annotations

import itertools
import os
import stat

from sentinel_kernel.linux.birth import birth_ns
from sentinel_kernel.linux.files import open_beneath
from sentinel_kernel.policy import committable
from sentinel_kernel.record import MutableRecord
from sentinel_kernel.workspace import change as kinds
from sentinel_kernel.workspace.bounds import Bounds
from sentinel_kernel.workspace.change import Change
from sentinel_kernel.workspace.deleted_folder import contents_of
from sentinel_kernel.workspace.giving_up import Settled
from sentinel_kernel.workspace.launching import why_new_waits
from sentinel_kernel.workspace.layer import MAXIMUM_DEPTH, MAXIMUM_PATH_BYTES, open_plain, status_of
from sentinel_kernel.workspace.marks import (
    committed_as,
    is_opaque,
    is_white_file,
    key_of,
    may_hold_white_files,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from sentinel_kernel.policy.committable import Surroundings
    from sentinel_kernel.workspace.layer import Layer

_SORTED_NAMES = 4096
"""So many names of a folder are held and sorted at a time."""
_CHUNK_BYTES = 1 << 20
_LOOKED_AT = 4096
_FOLDER = os.O_DIRECTORY
_ABSENT = (0, 0, 0, 0)
_MOST_SETTLED = 1000


class _Level(MutableRecord):
    """A folder that is being walked; the descriptors are its own."""

    path: str
    upper: int
    lower: int
    """The host's folder of the same path, by name alone; -1 where there is none."""
    names: Iterator[str]
    opaque: bool
    """Nothing of the host's folder is seen here, but what the cell put there."""
    white_files: bool
    """An empty file may stand for a deleted one."""
    refused: str = ""
    """Why nothing in it can be committed."""
    ended: bool = False


def changes(
    layer: Layer, surroundings: Surroundings, bounds: Bounds | None = None, *, look: bool = False
) -> Iterator[Change]:
    """Yield the changes of ``layer``, folders before what is in them; nothing is held in memory but one path's folders.

    A folder is told of where it is new (also if something is in it), replaced or gone. Of a folder that is gone
    only itself is told. A file that equals the host's is no change. ``look`` reads the beginning of each file, for
    ``binary``.

    Cells may run meanwhile: what is told was so at some moment of the walk. Nothing is raised for what they do.
    """
    walk = _Walk(layer, surroundings, bounds or Bounds(), look=look)
    try:
        yield from walk.run()
    finally:
        walk.close()


class _Walk:
    def __init__(self, layer: Layer, surroundings: Surroundings, bounds: Bounds, *, look: bool) -> None:
        self._layer = layer
        self._surroundings = surroundings
        self._bounds = bounds
        self._look = look
        self._levels: list[_Level] = []

    def close(self) -> None:
        while self._levels:
            self._leave()

    def run(self) -> Iterator[Change]:
        self._enter("", self._layer.upper, self._layer.lower, ".", "")
        while self._levels:
            level = self._levels[-1]
            name = next(level.names, None)
            if name is None:
                if level.opaque and level.lower >= 0 and not level.ended:
                    level.ended = True
                    yield from self._replaced(level)
                self._leave()
                continue
            self._bounds.entries -= 1
            if self._bounds.entries < 0:
                self._bounds.leave_out(self._layer.name)
                return
            try:
                yield from self._entry(level, name)
            except OSError as error:  # gone or changed since it was named, or not to be read
                path = f"{level.path}/{name}" if level.path else name
                self._bounds.could_not_read(self._layer.name, path, error)

    def _enter(self, path: str, upper: int, lower: int, name: str, refused: str) -> None:
        """Go into the folder ``name``. Raises OSError."""
        if len(self._levels) >= MAXIMUM_DEPTH or len(os.fsencode(path)) > MAXIMUM_PATH_BYTES:
            self._bounds.leave_out(self._layer.name, path)
            return
        inside = open_beneath(upper, name, os.O_RDONLY | _FOLDER)
        outside = -1
        try:
            if lower >= 0:
                outside = open_beneath(lower, name, os.O_PATH | _FOLDER)
        except OSError:
            outside = -1  # none there, or none that may be entered
        self._levels.append(
            _Level(
                path,
                inside,
                outside,
                _names(inside),
                is_opaque(inside),
                may_hold_white_files(inside),
                refused,
            )
        )

    def _leave(self) -> None:
        level = self._levels.pop()
        level.names = iter(())
        os.close(level.upper)
        if level.lower >= 0:
            os.close(level.lower)

    def _entry(self, level: _Level, name: str) -> Iterator[Change]:
        path = f"{level.path}/{name}" if level.path else name
        upper = os.stat(name, dir_fd=level.upper, follow_symlinks=False)
        lower = status_of(level.lower, name) if level.lower >= 0 else None
        mode = upper.st_mode
        if stat.S_ISDIR(mode):
            refused = level.refused
            if lower is not None and not stat.S_ISDIR(lower.st_mode):
                refused = committable.OVER_FILE if stat.S_ISREG(lower.st_mode) else committable.OVER_SPECIAL
            if lower is None or refused:
                yield self._folder(path, upper, lower, refused)
            self._enter(path, level.upper, level.lower, name, refused)
        elif stat.S_ISCHR(mode) and upper.st_rdev == 0:
            yield from self._gone(level, path, upper, lower)
        elif not stat.S_ISREG(mode):
            if lower is None or not _same_link(level, name, upper, lower):
                yield self._special(path, upper, lower)
        elif upper.st_size == 0 and level.white_files and is_white_file(level.upper, name):
            yield from self._gone(level, path, upper, lower)
        else:
            yield from self._file(level, path, name, upper, lower)

    def _file(
        self, level: _Level, path: str, name: str, upper: os.stat_result, lower: os.stat_result | None
    ) -> Iterator[Change]:
        kind = kinds.NEW if lower is None else kinds.CHANGED
        reason = level.refused
        program = bool(upper.st_mode & 0o7111)
        if lower is not None:
            if not stat.S_ISREG(lower.st_mode):
                is_folder = stat.S_ISDIR(lower.st_mode)
                reason = committable.OVER_FOLDER if is_folder else committable.OVER_SPECIAL
            elif self._is_settled(level, path, name, upper, lower):
                return
            elif self._is_same(level, name, upper, lower):
                kind = kinds.MODE
            else:
                program = program or bool(lower.st_mode & 0o111)
        reason = reason or self._reason(path) or (committable.EXECUTABLE if program else "")
        conflict = lower is not None and _is_newer(level, name, lower)
        is_new = lower is None and not reason
        waits = why_new_waits(level.upper, path, upper, self._bounds.looks) if is_new else ""
        yield Change(
            path=path,
            layer=self._layer.name,
            kind=kind,
            size=upper.st_size,
            host_size=-1 if lower is None else lower.st_size,
            mtime_ns=upper.st_mtime_ns,
            conflict=conflict,
            committable=reason,
            autocommit=is_new
            and not waits
            # One that was committed, and that somebody has deleted on the host since, does not come back by itself.
            and committed_as(level.upper, name) is None,
            waits=waits,
            executable=bool(upper.st_mode & 0o111),
            binary=self._look and _is_binary(level.upper, name),
            host_key=_ABSENT if lower is None else key_of(lower),
            cell_key=key_of(upper),
        )

    def _folder(self, path: str, upper: os.stat_result, lower: os.stat_result | None, refused: str) -> Change:
        reason = refused or self._reason(path)
        return Change(
            path=path,
            layer=self._layer.name,
            kind=kinds.NEW if lower is None else kinds.CHANGED,
            is_folder=True,
            mtime_ns=upper.st_mtime_ns,
            committable=reason,
            autocommit=not reason and committable.folder_by_itself(path),
            host_key=_ABSENT if lower is None else key_of(lower),
            cell_key=key_of(upper),
        )

    def _special(self, path: str, upper: os.stat_result, lower: os.stat_result | None) -> Change:
        return Change(
            path=path,
            layer=self._layer.name,
            kind=kinds.SPECIAL,
            host_size=-1 if lower is None else lower.st_size,
            mtime_ns=upper.st_mtime_ns,
            committable=committable.NO_FILE,
            host_key=_ABSENT if lower is None else key_of(lower),
            cell_key=key_of(upper),
        )

    def _gone(
        self, level: _Level, path: str, upper: os.stat_result, lower: os.stat_result | None
    ) -> Iterator[Change]:
        if lower is None:
            return
        # One whiteout may stand for many files: its ctime is the last deletion's, as the folder's mtime is.
        before = min(upper.st_ctime_ns, os.fstat(level.upper).st_mtime_ns)
        conflict = lower.st_ctime_ns > before
        yield self._deleted(level, path, lower, upper, conflict=conflict)

    def _replaced(self, level: _Level) -> Iterator[Change]:
        """Tell of what the cell deleted with the host's folder before it made its own there."""
        made = birth_ns(level.upper, "") or os.fstat(level.upper).st_ctime_ns
        try:
            listed = open_beneath(level.lower, ".", os.O_RDONLY | _FOLDER)
        except OSError as error:
            self._bounds.could_not_read(self._layer.name, level.path, error)
            return
        try:
            for name in _names(listed):
                self._bounds.entries -= 1
                if self._bounds.entries < 0:
                    self._bounds.leave_out(self._layer.name)
                    return
                lower = status_of(listed, name)
                # What came to the host's folder later was never seen by the cell, nor deleted.
                if lower is None or lower.st_ctime_ns > made or status_of(level.upper, name) is not None:
                    continue
                path = f"{level.path}/{name}" if level.path else name
                yield self._deleted(level, path, lower, None, conflict=False)
        except OSError as error:
            self._bounds.could_not_read(self._layer.name, level.path, error)
        finally:
            os.close(listed)

    def _deleted(
        self,
        level: _Level,
        path: str,
        lower: os.stat_result,
        upper: os.stat_result | None,
        *,
        conflict: bool,
    ) -> Change:
        is_folder = stat.S_ISDIR(lower.st_mode)
        reason = level.refused or self._reason(path)
        inside, size = 0, lower.st_size
        if is_folder:
            gone = contents_of(level.lower, path, self._reason)
            inside, size, reason = gone.count, gone.bytes, reason or gone.reason
        if not is_folder and not stat.S_ISREG(lower.st_mode):
            reason = reason or committable.OVER_SPECIAL
        return Change(
            path=path,
            layer=self._layer.name,
            kind=kinds.DELETED,
            is_folder=is_folder,
            host_size=size,
            conflict=conflict,
            inside=inside,
            committable=reason,
            host_key=key_of(lower),
            cell_key=_ABSENT if upper is None else key_of(upper),
        )

    def _reason(self, path: str) -> str:
        # Of the folders above as well: the next commit would remove such a one with what is in it.
        if any(map(committable.is_unfinished, path.split("/"))):
            return committable.OWN_NAME
        if len(os.fsencode(path)) > MAXIMUM_PATH_BYTES:
            return committable.TOO_DEEP
        return committable.why_asked(self._layer.path, path, self._surroundings)

    def _is_settled(
        self, level: _Level, path: str, name: str, upper: os.stat_result, lower: os.stat_result
    ) -> bool:
        """Tell whether the cell's file is no change: committed before and not changed since, or equal to the host's."""
        mark = committed_as(level.upper, name)
        settled = mark is not None and mark.is_of(path, upper)
        if not settled:
            same_mode = (upper.st_mode ^ lower.st_mode) & 0o777 == 0
            settled = same_mode and self._is_same(level, name, upper, lower)
        if settled and len(self._bounds.settled) < _MOST_SETTLED:
            self._bounds.settled.append((self._layer.name, Settled(path, key_of(lower), key_of(upper))))
        return settled

    def _is_same(self, level: _Level, name: str, upper: os.stat_result, lower: os.stat_result) -> bool:
        if upper.st_size != lower.st_size or upper.st_size > self._bounds.compared_bytes:
            return False
        try:
            ours, _ = open_plain(level.upper, name)
        except OSError:
            return False
        try:
            theirs, _ = open_plain(level.lower, name)
        except OSError:
            os.close(ours)
            return False
        try:
            while True:
                left, right = os.read(ours, _CHUNK_BYTES), os.read(theirs, _CHUNK_BYTES)
                self._bounds.compared_bytes -= len(left)
                if left != right:
                    return False
                if not left:
                    return True
        except OSError:
            return False
        finally:
            os.close(ours)
            os.close(theirs)


def _is_newer(level: _Level, name: str, lower: os.stat_result) -> bool:
    """Tell whether the host's file was changed after the cell's was made, by others than a commit of ours.

    The cell's file was made when it was written first (the overlay copied it up), which nobody can put back; the
    host's ctime can't be put back either.
    """
    made = birth_ns(level.upper, name)
    if not made or lower.st_ctime_ns <= made:
        return False
    mark = committed_as(level.upper, name)
    return mark is None or mark.host != key_of(lower)


def _same_link(level: _Level, name: str, upper: os.stat_result, lower: os.stat_result) -> bool:
    """Tell whether both are links to the same: the overlay copied it up."""
    if not stat.S_ISLNK(upper.st_mode) or not stat.S_ISLNK(lower.st_mode):
        return False
    return os.readlink(name, dir_fd=level.upper) == os.readlink(name, dir_fd=level.lower)


def _is_binary(folder: int, name: str) -> bool:
    try:
        reader, _ = open_plain(folder, name)
    except OSError:
        return False
    try:
        return b"\0" in os.read(reader, _LOOKED_AT)
    finally:
        os.close(reader)


def _names(folder: int) -> Iterator[str]:
    """Yield the names in a folder, sorted as far as that takes no memory to speak of."""
    with os.scandir(folder) as entries:
        while chunk := sorted(entry.name for entry in itertools.islice(entries, _SORTED_NAMES)):
            yield from chunk
