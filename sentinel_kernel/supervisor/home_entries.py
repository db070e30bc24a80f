"""Looks for homes in folders that are to be shown, and for what in them no cell is to see; bounded."""

from __future__ import annotations

import contextlib
import os
import time

from sentinel_kernel.policy.home_like import HOME_NAMES, is_home, sounds_secret, to_cover
from sentinel_kernel.policy.plan import is_within

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

_FOLDERS, _ENTRIES, _DEPTH, _SECONDS = 2_000, 20_000, 4, 2.0
"""How much of a folder is looked through, and for how long: backups may be endless, and disks slow."""

_MOST_NAMED = 12
_MOST_INNER = 2_000
_MOST_SCANNED = 500_000
_LOOKED_AT_CLOCK = 256


def covered_at_start(
    workspace: str, data: Iterable[str], kept: Collection[str]
) -> tuple[list[str], list[str]]:
    """Return what is covered in the folders that a sandbox shows from its start on, and those not wholly looked at.

    Looked at are the notebook's folder itself, and folders of data with those right below them. Where none is a
    home this costs a look at some names.
    """
    homes, cut = [workspace] if _is_home(workspace) else [], []
    for folder in data:
        try:
            homes.extend(filter(_is_home, _itself_and_inner(folder, time.monotonic() + _SECONDS)))
        except OSError:
            cut.append(folder)
    return [path for home in homes for path in _covered(home, _names(home), kept)], cut


def covered_below(folder: str) -> tuple[list[str], bool]:
    """Return what is covered of all homes in ``folder``, itself included, and whether all of it was looked through."""
    covered = []
    walk = _Walk(folder)
    for place, names in walk.folders(()):
        if is_home(names):
            covered += _covered(place, names, ())
    return covered, walk.whole


def secrets_left(folder: str, covered: Collection[str]) -> list[str]:
    """Return what in ``folder`` sounds like a secret and is not ``covered``; relative to it, some of them."""
    found: list[str] = []
    for place, names in _Walk(folder).folders(covered):
        for name in filter(sounds_secret, names):
            path = f"{place.rstrip('/')}/{name}"
            if not any(is_within(path, one) for one in covered):
                found.append(os.path.relpath(path, folder))
        if len(found) >= _MOST_NAMED:
            break
    return found[:_MOST_NAMED]


class _Walk:
    """A bounded walk, the nearest folders first; no links are followed."""

    def __init__(self, top: str) -> None:
        self._top = top
        self.whole = True

    def folders(self, without: Collection[str]) -> Iterator[tuple[str, list[str]]]:
        """Yield folders with the names in them, none within ``without``."""
        waiting, folders, entries, end = [(self._top, 0)], 0, 0, time.monotonic() + _SECONDS
        while waiting:
            if folders >= _FOLDERS or entries >= _ENTRIES or time.monotonic() > end:
                self.whole = False
                return
            place, depth = waiting.pop(0)
            if any(is_within(place, one) for one in without):
                continue
            names, inner, whole = _entries(place, _ENTRIES - entries)
            self.whole = self.whole and whole
            folders, entries = folders + 1, entries + len(names)
            yield place, names
            if depth < _DEPTH:
                waiting += [(f"{place.rstrip('/')}/{name}", depth + 1) for name in inner]
            elif inner:
                self.whole = False


def _is_home(folder: str) -> bool:
    """Tell it by a look at some names, however many there are."""
    return is_home([name for name in HOME_NAMES if os.path.lexists(f"{folder}/{name}")])


def _itself_and_inner(folder: str, end: float) -> Iterator[str]:
    """Yield a folder and those right in it; files don't count.

    Raises:
        TimeoutError: there are more than are looked at, or it takes longer.
        OSError: it can't be read.

    """
    yield folder
    folders = 0
    with os.scandir(folder) as entries:
        for number, entry in enumerate(entries):
            if number >= _MOST_SCANNED or (not number % _LOOKED_AT_CLOCK and time.monotonic() > end):
                raise TimeoutError
            if entry.is_dir(follow_symlinks=False):
                folders += 1
                if folders > _MOST_INNER:
                    raise TimeoutError
                yield f"{folder.rstrip('/')}/{entry.name}"


def _covered(folder: str, names: Iterable[str], kept: Collection[str]) -> list[str]:
    kept = [one for one in kept if one != folder and is_within(one, folder)]
    covered, opened = to_cover(folder, names, kept)
    while opened:
        place = opened.pop()
        more, further = to_cover(place, _names(place), kept, everything=True)
        covered += more
        opened += further
    return [path for path in covered if not _leads_to(path, kept)]


def _leads_to(path: str, kept: Collection[str]) -> bool:
    """Tell whether ``path`` is a link to, or around, what is kept: an environment's interpreter is found by one."""
    if not kept or not os.path.islink(path):
        return False
    real = os.path.realpath(path)
    return any(is_within(one, real) or is_within(real, one) for one in kept)


def _names(folder: str) -> list[str]:
    with contextlib.suppress(OSError):
        return os.listdir(folder)
    return []


def _entries(folder: str, most: int) -> tuple[list[str], list[str], bool]:
    """Return the names in a folder, those of its folders, and whether these are all; unreadable: none."""
    names: list[str] = []
    folders: list[str] = []
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if len(names) >= most:
                return names, folders, False
            names.append(entry.name)
            if entry.is_dir(follow_symlinks=False):
                folders.append(entry.name)
    return names, folders, True
