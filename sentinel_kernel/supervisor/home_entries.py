"""Looks for homes in folders that are to be shown, and for what in them no cell is to see; bounded."""

from __future__ import annotations

import contextlib
import os
import time

from sentinel_kernel.policy.home_like import MARKS, is_home, sounds_secret, to_cover
from sentinel_kernel.policy.plan import is_within

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

_FOLDERS, _ENTRIES, _DEPTH, _SECONDS = 2_000, 20_000, 4, 2.0
"""How much of a folder is looked through, and for how long: backups may be endless, and disks slow."""

_MOST_NAMED = 12
_MOST_INNER = 200


def covered_at_start(workspace: str, data: Iterable[str], kept: Collection[str]) -> list[str]:
    """Return what is covered in the folders that a sandbox shows from its start on.

    Looked at are the notebook's folder itself, and folders of data with those right below them. Where none is a
    home this costs a look at some names.
    """
    folders = [workspace]
    for folder in data:
        inner = _entries(folder, _MOST_INNER)[1]
        folders += [folder, *(f"{folder}/{name}" for name in inner)]
    homes = [folder for folder in folders if any(os.path.lexists(f"{folder}/{name}") for name in MARKS)]
    return [path for home in homes for path in _covered(home, _names(home), kept)]


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
            names, inner = _entries(place, _ENTRIES - entries)
            folders, entries = folders + 1, entries + len(names)
            yield place, names
            if depth < _DEPTH:
                waiting += [(f"{place.rstrip('/')}/{name}", depth + 1) for name in inner]
            elif inner:
                self.whole = False


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


def _entries(folder: str, most: int) -> tuple[list[str], list[str]]:
    """Return the names in a folder, and those of its folders; of one that can't be read, none."""
    names: list[str] = []
    folders: list[str] = []
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if len(names) >= most:
                break
            names.append(entry.name)
            if entry.is_dir(follow_symlinks=False):
                folders.append(entry.name)
    return names, folders
