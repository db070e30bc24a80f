"""The undo journal: which paths each cell changed, and their former versions, kept beside the layers.

It lies in the layers' own file system, where no path of the sandbox leads, and outlives the process that writes it.
What a file was before a cell can only be known if it was copied before, so that at each cell's end what is held is
copied, within a bound; what is beyond it can be committed and discarded, and is told as not kept by an undo.
"""

from __future__ import annotations

import contextlib
import json
import os

from sentinel_kernel.linux.acting import acting_as
from sentinel_kernel.record import replace
from sentinel_kernel.workspace.journal_file import MOST_BYTES, JournalFile, UnreadableError
from sentinel_kernel.workspace.journal_records import (
    Entry,
    Seen,
    Step,
    key_in,
    latest_of,
    parts_of,
    plain_of,
    seen_of,
    step_of,
)
from sentinel_kernel.workspace.layer import folder_of, open_plain
from sentinel_kernel.workspace.sparse import copy_content
from sentinel_kernel.workspace.tracked import MOST_PATHS, lies_in, may_be_cut
from sentinel_kernel.workspace.unseen import BroughtBack, Unseen, is_staying_folder, unseen_in

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

    from sentinel_kernel.workspace.change import Change
    from sentinel_kernel.workspace.journal_records import Key, Path
    from sentinel_kernel.workspace.layer import Layer
    from sentinel_kernel.workspace.tracked import Tracked

MOST_STEPS = 50
_OWN_CHARACTERS = 400  # files with longer paths are written again once the person has said so
ABSENT = (0, 0, 0, 0)
_MOST_BYTES = 512 << 20
_SHARE = 4
"""Former versions take a quarter of what cells may write at most, and on top of it (supervisor/sandbox.py)."""

MOST_ENTRIES = 100_000
"""Of all steps together."""
_ENVELOPE_BYTES = 1024
_ENCODE = json.JSONEncoder(separators=(",", ":"), ensure_ascii=True).encode


class Journal:
    """The journal of one sandbox, in the folder ``history`` (a descriptor)."""

    def __init__(self, history: int, writer: tuple[int, int] | None, stamp: int = 0) -> None:
        """Read what an earlier process left. ``writer`` as of a Layer.

        What can't be read, or is older than the ``stamp`` that was told last, says nothing of what is held now: no
        cell has done that then, as an undo would remove what nobody has a former version of.
        """
        self._folder = history
        self._writer = writer
        self.seen: dict[Path, Seen] = {}
        """What is held, as the last look found it."""
        self.steps: list[Step] = []
        """The oldest first."""
        self.own: dict[Path, Key] = {}
        """The host's files that were committed by themselves, and that nobody else has changed."""
        self.holds = False
        """By the rule of the last look nothing gets out by itself: what is held then :attr:`Seen.stays`."""
        self.incomplete = False
        """There was more than is kept track of."""
        self.stamp = 0
        """Counts what was followed."""
        self.lost = False
        """What cells did before is not known; until the next look, which takes what is held for nobody's doing."""
        self._cut = self._cut_now = False
        """Whether there was more than is kept track of, when it was followed, and when it was noted."""
        self._unseen = Unseen()
        """When it was followed."""
        self._brought_back = BroughtBack()
        self._next = 0
        self._file = JournalFile(history, writer)
        self._read(stamp)
        numbers = [
            int(name[1:]) for name in os.listdir(history) if name.startswith("v") and name[1:].isdecimal()
        ]
        self._next = max([self._next, *numbers])
        self._following: dict[Path, Seen] = {}
        self._taken = 0
        """Bytes of the file system that the copies take."""
        self._most = 0
        """How many they may take."""

    # --- a cell's end

    def note(self, cell: str, now: Mapping[Path, Change]) -> Step | None:
        """Take note of what ``cell`` has changed, given all that is held ``now``; None where that is nothing."""
        if self.lost:
            return None
        step = Step(cell)
        self._cut_now = may_be_cut(now)
        for (layer, path), change in now.items():
            before = self.seen.get((layer, path))
            if before is None and (self._cut or lies_in((layer, path), self._unseen.places)):
                continue  # it may have been there, beyond what is kept track of or could be read
            if before is None or (before.kind, before.key) != (change.kind, change.cell_key):
                step.entries.append(Entry(layer, path, before, change.cell_key, is_folder=change.is_folder))
        unseen = unseen_in(now)
        for (layer, path), before in self.seen.items():
            if (layer, path) not in now and not self._cut_now and (layer, path) not in unseen:
                step.entries.append(Entry(layer, path, before, (0, 0, 0, 0), is_folder=before.is_folder))
        if not step.entries:
            return None
        self.add(step)
        return step

    def add(self, step: Step, below: Step | None = None) -> None:
        """Add a step: the last one, or the one ``below`` the last one."""
        self.steps.insert(len(self.steps) - (below is not None), step)
        while len(self.steps) > 1 and sum(len(one.entries) for one in self.steps) > MOST_ENTRIES:
            self.steps.pop(0)
            self.incomplete = True

    def follow(
        self, now: Mapping[Path, Change], layers: Mapping[str, Layer], *, by_cell: bool = False
    ) -> None:
        """Make what is held ``now`` what the next cell starts from, with copies; nothing is noted as a cell's doing.

        ``by_cell``: one has ended. Else it was the person, or an undo, who put things into folders or took them out.
        """
        self._measure()
        following: dict[Path, Seen] = {}
        self._following = following
        for (layer, path), change in now.items():
            old = self.seen.get((layer, path))
            stays = self.holds or self.stays(change) or (not by_cell and is_staying_folder(old, change))
            if old is None or (old.kind, old.key) != (change.kind, change.cell_key):
                old = self._copied(layers[layer], change)
            following[layer, path] = replace(old, stays=stays) if stays != old.stays else old
        for one in unseen_in(now):
            following[one] = replace(self.seen[one], stays=self.holds or self.seen[one].stays)
        self.seen, self._following = following, {}
        self._cut, self._cut_now = self._cut_now or may_be_cut(now), False
        self._unseen.follow(now, holds=self.holds or self.lost)
        self._brought_back.follow(now, self._unseen, cut=self._cut)
        self.lost = False
        self.stamp += 1
        self._trim()
        self._shed(0)  # the limit may be a lower one by now
        self.write()

    def ruled(self, *, lets_out: bool) -> None:
        """Take note of the rule of the end, or of the request, that is dealt with: whether new files get out."""
        # Of what is beyond what is kept track of nobody could tell which rule it was held by.
        self.holds = not lets_out or (self.holds and self._cut)

    def stays(self, change: Change) -> bool:
        """Tell whether ``change`` was held as it is when nothing got out by itself, or may have been."""
        path = (change.layer, change.path)
        seen = self.seen.get(path)
        if path in self._brought_back:
            return True
        if seen is None:
            return self.lost or (self._cut and self.holds) or self._unseen.stays(path)
        # Whatever the host has there by now, and its permissions and other names are, which its ctime tells of.
        return seen.stays and seen.key[:3] == change.cell_key[:3]

    def unmarked(self, now: Tracked) -> bool:
        """Tell whether by the look that found ``now`` anything stays, or could not be seen, that is not known to."""
        known = self._unseen.knows(now, holds=self.holds) and not self._brought_back
        return not known or (self.holds and not all(seen.stays for seen in self.seen.values()))

    def announce(self, step: Step) -> None:
        """Write down what an undo of ``step`` may bring back that stays, as this process may end before it is followed.

        Raises:
            OSError: neither that nor that nothing is known any more could be written down.

        """
        if self._brought_back.announce(step) and not self.write():
            self._file.drop()  # the next process knows nothing then, and lets nothing out that it finds

    def brought_back(self, path: Path, before: Seen) -> None:
        """Note that an undo has put there what cells saw before."""
        if before.stays:
            self._brought_back.add(path)

    def host_copy(self, layer: Layer, change: Change) -> Seen:
        """Return the host's file of ``change``, with a copy where there is room (:meth:`room`)."""
        return self._copied(layer, change, of_host=True)

    def room(self) -> int:
        """Return how many bytes more former versions may take, with none of them dropped. Raises OSError."""
        self._measure()
        space = os.fstatvfs(self._folder)
        return min(max(0, self._most - self._taken), space.f_bavail * space.f_frsize // 2)

    def placed(self, keys: Mapping[Path, Key], person: Step | None = None) -> None:
        """Note with whose doing files were committed: the step's of a ``person``, or the last cell's."""
        steps = self.steps if person is None else [person]
        latest = latest_of(steps)
        for path, key in keys.items():
            if key == ABSENT:
                self.own.pop(path, None)
            elif path in self.own or (
                person is None and len(self.own) < MOST_PATHS and len(path[1]) <= _OWN_CHARACTERS
            ):
                self.own[path] = key
            if path in latest:
                latest[path].committed = key
            if person is not None and path in self.seen:
                self.seen[path] = replace(self.seen[path], stays=False)  # it waited for this

    def put_back(self, path: Path, former: Key, key: Key) -> None:
        """Note that an undo has put the host's file of state ``former`` there again, in the state ``key``."""
        if path in self.own:
            self.own[path] = key
        for step in self.steps:
            for entry in step.entries:
                if (entry.layer, entry.path) == path and entry.committed == former:
                    entry.committed = key

    def forget(self, paths: Iterable[Path], but: Step | None = None) -> None:
        """Take ``paths`` out of all steps ``but`` one, the person's: what it can't give back is no cell's any more."""
        gone = set(paths)
        if but is not None:  # what was not committed is as it was
            but.entries = [entry for entry in but.entries if entry.committed is not None]
            gone -= {(entry.layer, entry.path) for entry in but.entries if entry.is_kept}
        for step in self.steps:
            if step is not but:
                step.entries = [entry for entry in step.entries if (entry.layer, entry.path) not in gone]
        self.steps = [step for step in self.steps if step.entries]

    def open_version(self, seen: Seen) -> int:
        """Open a former version for reading. Raises OSError where it was not kept."""
        if not seen.version:
            raise FileNotFoundError(2, "the former version was not kept")
        return os.open(seen.version, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=self._folder)

    def footprint(self) -> tuple[int, int]:
        """Return what the copies take of the file system: blocks (of its own size) and inodes. Raises OSError."""
        unit = max(1, os.fstatvfs(self._folder).f_frsize // 512)
        blocks = inodes = 0
        with os.scandir(self._folder) as entries:
            for entry in entries:
                blocks += -(-entry.stat(follow_symlinks=False).st_blocks // unit)
                inodes += 1
        return blocks, inodes

    # --- copies

    def _copied(self, layer: Layer, change: Change, *, of_host: bool = False) -> Seen:
        """Return ``change`` as seen (or the host's file), with a copy of its content where there is room."""
        kind, is_folder, key = change.kind, change.is_folder, change.cell_key
        if of_host:
            key = change.host_key
        elif is_folder or change.size < 0 or kind in ("special", "deleted"):
            return Seen(kind, is_folder, key)
        try:
            with folder_of(layer.lower if of_host else layer.upper, change.path) as (folder, name):
                reader, status = open_plain(folder, name)
        except OSError:  # gone meanwhile, or of no content that could be kept
            return Seen(kind, is_folder, key)
        try:
            if not self._has_room(status.st_blocks * 512):
                self.incomplete = True
                return Seen(kind, is_folder, key)
            version = self._copy(reader, status)
        except OSError:
            self.incomplete = True
            return Seen(kind, is_folder, key)
        finally:
            os.close(reader)
        return Seen(kind, is_folder, key, version, status.st_mode & 0o777)

    def _has_room(self, size: int) -> bool:
        space = os.fstatvfs(self._folder)
        if size > self._most:
            return False
        self._shed(size)
        return self._taken + size <= self._most and size <= space.f_bavail * space.f_frsize // 2

    def _shed(self, size: int) -> None:
        """Drop steps, the oldest first and never the last one, until there is room for ``size`` bytes more."""
        while self._taken + size > self._most and len(self.steps) > 1:
            self.steps.pop(0)  # what only it needs goes
            self.incomplete = True
            self._sweep()
            self._taken = self._size()

    def _measure(self) -> None:
        """See what the copies take, and may take."""
        self._taken = self._size()
        space = os.fstatvfs(self._folder)
        self._most = min(max(0, space.f_blocks * space.f_frsize - self._taken) // _SHARE, _MOST_BYTES)

    def _size(self) -> int:
        return self.footprint()[0] * os.fstatvfs(self._folder).f_frsize

    def _copy(self, reader: int, status: os.stat_result) -> str:
        self._next += 1
        name = f"v{self._next}"
        with acting_as(self._writer):
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            writer = os.open(name, flags, 0o600, dir_fd=self._folder)
        try:
            copy_content(reader, writer, status.st_size)
            self._taken += status.st_blocks * 512
        except OSError:
            os.unlink(name, dir_fd=self._folder)
            raise
        finally:
            os.close(writer)
        return name

    def _trim(self) -> None:
        if len(self.steps) > MOST_STEPS:
            del self.steps[:-MOST_STEPS]
        self._sweep()

    def _sweep(self) -> None:
        """Remove the copies that nothing refers to."""
        used = {one.version for held in (self.seen, self._following) for one in held.values()}
        for step in self.steps:
            for entry in step.entries:
                used |= {seen.version for seen in (entry.before, entry.replaced) if seen}
        for name in os.listdir(self._folder):
            if name.startswith("v") and name not in used:
                with contextlib.suppress(OSError):
                    os.unlink(name, dir_fd=self._folder)

    # --- on the disk

    def write(self) -> bool:
        """Write the journal down; False, and the one before stays, where there is no room. Raises nothing."""
        head = {
            "next": self._next,
            "stamp": self.stamp,
            "incomplete": self.incomplete,
            "cut": self._cut,
            "holds": self.holds,
            "unseen": self._unseen.plain(),
            "brought_back": self._brought_back.plain(),
            "own": [[*path, key] for path, key in self.own.items()],
            "seen": [[*path, plain_of(seen)] for path, seen in self.seen.items()],
        }
        steps = [_ENCODE(parts_of(step)) for step in self.steps]
        start = _ENCODE(head)
        size = len(start) + sum(map(len, steps))
        while steps and size > MOST_BYTES - _ENVELOPE_BYTES:
            size -= len(steps.pop(0))
            self.steps.pop(0)
            self.incomplete = True
        if size > MOST_BYTES - _ENVELOPE_BYTES:
            # Of this the next process knows nothing, and takes what it finds for nobody's doing.
            self.incomplete = True
            start = _ENCODE({"lost": True})
        return self._file.write([start[:-1], ',"steps":[', ",".join(steps), "]}"])

    @property
    def wanted_bytes(self) -> int:
        """Return how much room is missing for what could not be written down; 0: it is on the disk."""
        return self._file.wanted_bytes

    def _read(self, stamp: int) -> None:
        """Read what an earlier process left, which must not be older than ``stamp``."""
        try:
            document = self._file.read()
            if document is not None:
                self._load(document)
        except (UnreadableError, ValueError, KeyError, TypeError, OverflowError, MemoryError):
            document = {}
        if document == {} or self.stamp < stamp:
            self.seen, self.steps, self.own, self._cut = {}, [], {}, False
            self.lost = self.incomplete = True
            self.stamp = max(self.stamp, stamp)

    def _load(self, document: dict[str, Any]) -> None:
        seen = {(layer, path): seen_of(one) for layer, path, one in document["seen"]}
        self.seen = {path: one for path, one in seen.items() if one is not None}
        self.steps = [step_of(parts) for parts in document["steps"]]
        self.own = {(layer, path): key_in(key) for layer, path, key in document["own"]}
        self._brought_back = BroughtBack(document["brought_back"])
        self._unseen = Unseen(document["unseen"])
        self._next = int(document["next"])
        self.stamp = int(document["stamp"])
        self.incomplete = bool(document["incomplete"])
        self._cut = bool(document["cut"])
        self.holds = bool(document["holds"])
