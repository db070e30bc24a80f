"""Walks over folders whose content a sandbox has made: any depth, with a few descriptors, through no link.

Both take as long as there is content: they are for the warden and for forked processes, never for the supervisor.
"""

from __future__ import annotations

import itertools
import os
import stat

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NAMED = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
_AT_ONCE = 1000
_OPEN_TO_US = 0o700


class Undone:
    """What could not be done: how often, and the first reason."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self.count = 0
        self.first = ""

    def note(self, error: OSError) -> None:
        """Take note of one more."""
        self.count += 1
        self.first = self.first or (error.strerror or type(error).__name__)


def empty_folder(top: int) -> Undone:
    """Remove all that lies in an open folder, which nobody else puts anything into.

    Folders are moved to the top before their own turn comes, so that depth costs nothing.
    """
    undone = Undone()
    mark = os.urandom(8).hex()
    numbers = itertools.count()
    moved: list[str] = []

    def move(folder: int, name: str) -> None:
        _open_up(folder, name)
        place = f"{mark}-{next(numbers)}"
        os.rename(name, place, src_dir_fd=folder, dst_dir_fd=top)
        moved.append(place)

    _clear(top, move, mark, undone)
    while moved:
        name = moved.pop()
        try:
            folder = os.open(name, FOLDER, dir_fd=top)
            try:
                _clear(folder, move, mark, undone)
            finally:
                os.close(folder)
            os.rmdir(name, dir_fd=top)
        except OSError as error:
            undone.note(error)
    return undone


def _clear(folder: int, move: Callable[[int, str], None], mark: str, undone: Undone) -> None:
    """Unlink the files of a folder and move its folders away, but those with the mark, until nothing more can be."""
    while True:
        with os.scandir(folder) as entries:
            others = (entry for entry in entries if not entry.name.startswith(mark))
            batch = [
                (entry.name, entry.is_dir(follow_symlinks=False))
                for entry in itertools.islice(others, _AT_ONCE)
            ]
        done, failed = 0, Undone()
        for name, is_folder in batch:
            try:
                if is_folder:
                    move(folder, name)
                else:
                    os.unlink(name, dir_fd=folder)
                done += 1
            except OSError as error:
                failed.note(error)
        if done == 0:
            undone.count += failed.count
            undone.first = undone.first or failed.first
            return


def _open_up(folder: int, name: str) -> None:
    """Let ourselves into a folder that its maker has closed: it is moved and listed."""
    named = os.open(name, _NAMED | os.O_DIRECTORY, dir_fd=folder)
    try:
        if stat.S_IMODE(os.fstat(named).st_mode) & _OPEN_TO_US != _OPEN_TO_US:
            os.chmod(f"/proc/self/fd/{named}", _OPEN_TO_US)
    finally:
        os.close(named)


def give_files(top: int, user: int, owner: tuple[int, int]) -> Undone:
    """Make ``owner`` the owner of all in an open folder, and of itself, that belongs to ``user``.

    What belongs to anybody else stays theirs, whatever names it has been given here. Set-user-ID bits go (chown(2)).
    """
    undone = Undone()
    device = os.fstat(top).st_dev
    here = os.open(".", FOLDER, dir_fd=top)
    try:
        places = [_place(here)]
        below = [_give_entries(here, user, owner, undone)]
        while below:
            if not below[-1]:
                below.pop()
                places.pop()
                if below:
                    here = _step(here, "..", places[-1])
                continue
            name = below[-1].pop()
            try:
                status = os.stat(name, dir_fd=here, follow_symlinks=False)
                if status.st_dev != device:
                    continue
                here = _step(here, name, (status.st_dev, status.st_ino))
            except OSError as error:
                undone.note(error)
                continue
            places.append(_place(here))
            below.append(_give_entries(here, user, owner, undone))
    except OSError as error:  # somebody moves folders meanwhile
        undone.note(error)
    finally:
        os.close(here)
    _give(top, user, owner, undone)
    return undone


def _place(folder: int) -> tuple[int, int]:
    status = os.fstat(folder)
    return status.st_dev, status.st_ino


def _step(here: int, name: str, wanted: tuple[int, int]) -> int:
    """Return the folder ``name`` of ``here``, which is closed. Raises OSError where it is another one than wanted."""
    found = os.open(name, FOLDER, dir_fd=here)
    if _place(found) != wanted:
        os.close(found)
        raise OSError(0, "A folder has been moved")
    os.close(here)
    return found


def _give_entries(folder: int, user: int, owner: tuple[int, int], undone: Undone) -> list[str]:
    """Give what lies in a folder, and return the names of the folders among that."""
    folders = []
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                try:
                    named = os.open(entry.name, _NAMED, dir_fd=folder)
                except OSError as error:
                    undone.note(error)
                    continue
                try:
                    if stat.S_ISDIR(os.fstat(named).st_mode):
                        folders.append(entry.name)
                    _give(named, user, owner, undone)
                finally:
                    os.close(named)
    except OSError as error:
        undone.note(error)
    return folders


def _give(opened: int, user: int, owner: tuple[int, int], undone: Undone) -> None:
    """By the open file: a name may be another file's by now."""
    try:
        if os.fstat(opened).st_uid == user:
            os.chown(f"/proc/self/fd/{opened}", *owner)
    except OSError as error:
        undone.note(error)
