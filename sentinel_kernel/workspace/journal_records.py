"""What the undo journal tells of: how a cell left a path and what it did to it; and how that is written down."""

from __future__ import annotations

from sentinel_kernel.record import MutableRecord, Record, fresh

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    Key = tuple[int, int, int, int]
    Path = tuple[str, str]


class Seen(Record):
    """A change as a cell left it; ``version`` is the copy of its content, empty where there is none."""

    kind: str
    is_folder: bool
    key: Key
    version: str = ""
    mode: int = 0o644
    stays: bool = False
    """It was held so when nothing got out by itself: it waits for the person, whatever the rule is by now.

    So is the same file (inode, size, mtime) whatever its permissions, and not what a cell makes of it by another rule:
    one that it wrote or touched, nor one that it copied, linked or moved it to.
    """


class Entry(MutableRecord):
    """What one cell did to one path: from ``before`` (None: as the host has it) to ``after`` (its cell_key)."""

    layer: str
    path: str
    before: Seen | None
    after: Key
    committed: Key | None = None
    """Of the host's file, where the cell's was committed (inode, size, mtime, ctime); ABSENT: it was deleted."""
    replaced: Seen | None = None
    """The host's file that the commit took the place of; ``version`` is empty where it was not kept."""
    is_folder: bool = False

    @property
    def is_kept(self) -> bool:
        """Whether what was there before is known, so that it can be brought back."""
        before, replaced = self.before, self.replaced
        if replaced is not None and self.committed is not None and not replaced.version:
            return False
        return before is None or before.kind == "deleted" or before.is_folder or bool(before.version)


class Step(MutableRecord):
    """What one cell did, or a person's commit."""

    cell: str
    """Its number, or those of the first and the last of several; empty where nobody can tell, or it was none."""
    entries: list[Entry] = fresh(default_factory=list)
    is_commit: bool = False
    """A person's commit did it."""


def latest_of(steps: Iterable[Step]) -> dict[Path, Entry]:
    """Return what the last one that tells of it has of each path."""
    return {(entry.layer, entry.path): entry for step in steps for entry in step.entries}


def parts_of(step: Step) -> list[Any]:
    """Return a step as it is written down."""
    return [step.cell, [fields_of(entry) for entry in step.entries], step.is_commit]


def step_of(parts: list[Any]) -> Step:
    """Return a step that was written down. Raises ValueError, TypeError."""
    cell, entries, is_commit = parts
    return Step(cell, [entry_of(fields) for fields in entries], bool(is_commit))


def fields_of(entry: Entry) -> list[Any]:
    """Return an entry as it is written down."""
    return [
        entry.layer,
        entry.path,
        plain_of(entry.before),
        entry.after,
        entry.committed,
        plain_of(entry.replaced),
        entry.is_folder,
    ]


def plain_of(seen: Seen | None) -> list[Any] | None:
    """Return what was seen as it is written down."""
    return (
        None if seen is None else [seen.kind, seen.is_folder, seen.key, seen.version, seen.mode, seen.stays]
    )


def seen_of(plain: list[Any] | None) -> Seen | None:
    """Return what was seen, as it was written down. Raises ValueError, TypeError."""
    if plain is None:
        return None
    kind, is_folder, key, version, mode, stays = plain
    return Seen(kind, is_folder, key_in(key), version, mode, stays)


def entry_of(fields: list[Any]) -> Entry:
    """Return an entry that was written down. Raises as above."""
    layer, path, before, after, committed, replaced, is_folder = fields
    key = None if committed is None else key_in(committed)
    return Entry(layer, path, seen_of(before), key_in(after), key, seen_of(replaced), is_folder)


def key_in(numbers: list[int]) -> Key:
    """Return a key that was written down. Raises as above."""
    inode, size, modified, changed = numbers
    return inode, size, modified, changed
