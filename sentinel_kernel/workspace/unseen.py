"""What the journal knows beside what it has seen: where nobody could look, and what an undo has brought back since."""

from __future__ import annotations

import contextlib
import stat

from sentinel_kernel.workspace import change as kinds
from sentinel_kernel.workspace.layer import folder_of, is_absent, status_of
from sentinel_kernel.workspace.tracked import Tracked, lies_in

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

    from sentinel_kernel.workspace.change import Change
    from sentinel_kernel.workspace.journal_records import Seen, Step
    from sentinel_kernel.workspace.layer import Layer
    from sentinel_kernel.workspace.tracked import Path


class Unseen:
    """Where the last look could not see what is held: nobody knows what is there, nor since when."""

    def __init__(self, plain: Iterable[tuple[str, str, bool]] = ()) -> None:
        """Know none, or those that were written down."""
        found = {(layer, path): bool(stays) for layer, path, stays in plain}
        self.places = frozenset(found)
        self._stays = frozenset(path for path, stays in found.items() if stays)
        """Where it may be that nothing got out by itself when what is there came."""

    def plain(self) -> list[Any]:
        """Return them as they are written down."""
        return [[*path, path in self._stays] for path in self.places]

    def stays(self, path: Path) -> bool:
        """Tell whether something at ``path``, of which nothing is known, may have been held there by another rule."""
        return lies_in(path, self._stays)

    def knows(self, now: Tracked, *, holds: bool) -> bool:
        """Tell whether nothing is to be remembered of the look that found ``now``."""
        return self.places == now.missed and (not holds or self._stays == self.places)

    def follow(self, now: Mapping[Path, Change], *, holds: bool) -> None:
        """Remember those of the look that found ``now``, when nothing got out by itself (``holds``) or else."""
        former, self.places = self._stays, now.missed if isinstance(now, Tracked) else frozenset()
        self._stays = frozenset(
            path
            for path in self.places
            if holds or lies_in(path, former) or any(lies_in(one, {path}) for one in former)
        )


class BroughtBack:
    """Where cells see by an undo what stayed held before, until that is followed: another file than then."""

    def __init__(self, plain: Iterable[tuple[str, str]] = ()) -> None:
        """Know none, or those that were written down."""
        self._paths = {(layer, path) for layer, path in plain}
        self._announced: set[Path] = set()

    def __contains__(self, path: Path) -> bool:
        """Tell whether it was brought back."""
        return path in self._paths

    def __bool__(self) -> bool:
        """Tell whether anything was."""
        return bool(self._paths)

    def plain(self) -> list[Any]:
        """Return them as they are written down, with those that may follow."""
        return [*self._paths | self._announced]

    def announce(self, step: Step) -> bool:
        """Note what an undo of ``step`` may bring back that stays; tell whether that is anything."""
        before = {(entry.layer, entry.path): entry.before for entry in step.entries}
        self._announced = {path for path, seen in before.items() if seen is not None and seen.stays}
        return bool(self._announced)

    def add(self, path: Path) -> None:
        """Note that it was brought back."""
        self._paths.add(path)

    def follow(self, now: Mapping[Path, Change], unseen: Unseen, *, cut: bool) -> None:
        """Forget them, but for what the look that found ``now`` did not see; ``cut``: there was more."""
        self._announced = set()
        self._paths = {
            path for path in self._paths if path not in now and (cut or lies_in(path, unseen.places))
        }


def note_missed(
    now: Tracked, missed: Iterable[Path], seen: Mapping[Path, Seen], layers: Mapping[str, Layer]
) -> None:
    """Note with what a look found where it could not see, and what it did not find of ``seen`` that is not gone."""
    now.missed = frozenset(missed)
    now.unseen = frozenset(
        (layer, path)
        for (layer, path), one in seen.items()
        if (layer, path) not in now
        and (
            one.kind == kinds.DELETED or not is_absent(layers[layer].upper, path)
            if lies_in((layer, path), now.missed)
            else one.stays and _is_that_folder(layers[layer], path, one)
        )
    )


def _is_that_folder(layer: Layer, path: str, seen: Seen) -> bool:
    """Tell whether the cell's folder is there, and no change as the host has one of its name for as long."""
    if not seen.is_folder or is_absent(layer.upper, path):
        return False
    with contextlib.suppress(OSError), folder_of(layer.upper, path) as at:
        status = status_of(*at)
        return status is not None and stat.S_ISDIR(status.st_mode) and status.st_ino == seen.key[0]
    return True  # nobody can tell


def is_staying_folder(seen: Seen | None, change: Change) -> bool:
    """Tell whether ``change`` is the very folder that was seen to stay, whatever is in it by now."""
    if seen is None or not (seen.stays and seen.is_folder and change.is_folder):
        return False
    return seen.key[0] == change.cell_key[0]


def unseen_in(now: Mapping[Path, Change]) -> frozenset[Path]:
    """Return what was held and is not known to be gone, though the look that found ``now`` did not find it."""
    return now.unseen if isinstance(now, Tracked) else frozenset()
