"""What is done at a cell's end: new files committed where the profile says so, and a note of all that changed."""

from __future__ import annotations

import contextlib
import time

from sentinel_kernel.record import replace
from sentinel_kernel.workspace import change as kinds
from sentinel_kernel.workspace import request as asked
from sentinel_kernel.workspace.answering import Tally
from sentinel_kernel.workspace.bare_folders import MOST_BY_THEMSELVES, bare
from sentinel_kernel.workspace.commit import Outcome, commit
from sentinel_kernel.workspace.giving_up import give_up
from sentinel_kernel.workspace.journal import ABSENT
from sentinel_kernel.workspace.journal_records import Entry, Step, latest_of
from sentinel_kernel.workspace.layer import folder_of, status_of
from sentinel_kernel.workspace.person_commit import relinked
from sentinel_kernel.workspace.saving import MAXIMUM_FILES
from sentinel_kernel.workspace.store import GRACE_SECONDS, retain, room
from sentinel_kernel.workspace.tracked import Tracked
from sentinel_kernel.workspace.unseen import note_missed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from sentinel_kernel.workspace.answering import Workspace
    from sentinel_kernel.workspace.change import Change
    from sentinel_kernel.workspace.journal_records import Key, Path
    from sentinel_kernel.workspace.layer import Layer
    from sentinel_kernel.workspace.store import StoreSettings

_PROGRESS_SECONDS = 0.5


class CellEnds:
    """The ends of one sandbox's cells."""

    def __init__(self, workspace: Workspace, store: StoreSettings) -> None:
        """Commit to and note of ``workspace``; ``store`` is where what is held would be saved."""
        self._workspace = workspace
        self._store = store
        self._now = Tracked()
        self._committed: list[Path] = []
        self._risk = ""
        self._as_followed = False
        """Whether the journal knows already what is held now."""
        self._looked_at_store = False
        self.worth_telling = False
        """Whether the last end has anything to tell the host."""

    def end(self, message: dict[str, Any], told: Callable[[int, int, int], None]) -> asked.CellEnd:
        """Deal with what is held at the end of a cell; call :meth:`keep` once the cell may be answered."""
        found, journal = Tally(), self._workspace.journal
        now = Tracked()
        lets_out = message.get("commit") == "new"
        journal.ruled(lets_out=lets_out)
        for change in self._workspace.walk(looks=lets_out):
            found.add(self._workspace.layers[change.layer], change)
            now.take(change)
        note_missed(now, self._workspace.bounds.missed, journal.seen, self._workspace.layers)
        _hold_folders(now)
        journal.incomplete |= not now.is_whole
        unknown = journal.lost
        step = journal.note(str(message.get("cell") or ""), now)
        outcome = Outcome()
        committed: dict[Path, Key] = {}
        if lets_out and any(change.autocommit for change in now.values()):
            unnoted = self._note_unnoted(now, step)
            again = [one for one in now.values() if one.autocommit and one.kind == kinds.CHANGED]
            if again:
                self._keep_host(again)
            journal.write()  # what is committed below is known as this cell's doing, whatever ends this process
            committed = self._commit(now, outcome, told)
            journal.placed(committed)
            unnoted.entries = [entry for entry in unnoted.entries if entry.committed is not None]
            journal.steps = [one for one in journal.steps if one.entries]
        self._committed = list(committed)
        self._as_followed = not (
            step or unknown or committed or journal.wanted_bytes or journal.unmarked(now)
        )
        self._now = now.but(committed)
        layers = self._workspace.layers
        folders = [path for path in committed if now[path].is_folder]
        bare_folders = bare(folders, (path for path in committed if not now[path].is_folder))
        shown_folders = {layers[layer].shown(path) for layer, path in folders}
        sizes = sum(max(0, now[path].size) for path in committed)
        held, size = found.held - len(committed), found.bytes - sizes
        waiting = _waiting(layers, now, step) if lets_out else []
        risk, risk_bytes = self._look_at_risk(held, size)
        leaving = self._look_at_store()
        self.worth_telling = bool(
            step or unknown or committed or outcome.failed_count or leaving or risk != self._risk
        )
        self._risk = risk
        return asked.CellEnd(
            held=held,
            bytes=size,
            conflicts=tuple(found.conflicting),
            conflict_count=found.conflicts,
            committed=tuple(path for path in outcome.paths[: asked.NAMED_PATHS] if path not in shown_folders),
            committed_count=outcome.count - len(folders),
            folders=tuple(layers[layer].shown(path) for layer, path in bare_folders[: asked.NAMED_PATHS]),
            folder_count=len(bare_folders),
            committed_bytes=outcome.bytes,
            failed=tuple(
                {"path": path, "layer": layer, "why": why}
                for path, layer, why in outcome.failed[: asked.NAMED_PATHS]
            ),
            waiting=tuple({"path": path, "why": why} for path, why in waiting[: asked.NAMED_PATHS]),
            waiting_count=len(waiting),
            steps=len(journal.steps),
            incomplete=journal.incomplete,
            first=bool(message.get("first")) and held > 0,
            risk=risk,
            risk_bytes=risk_bytes,
            leaving=leaving,
            leaving_days=int(GRACE_SECONDS // 86_400) if leaving else 0,
        )

    def keep(self) -> None:
        """Keep what is held as the former version that a later cell may be taken back to."""
        if not self._as_followed:
            self._workspace.journal.follow(self._now, self._workspace.layers, by_cell=True)
        # What was open when it was committed, or equals the host's, and may be in nobody's use by now.
        settled = self._workspace.bounds.settled
        for name, layer in self._workspace.layers.items():
            of_layer = [one for of, one in settled if of == name]
            if of_layer:
                give_up(layer, of_layer)

    def open(self) -> int:
        """Return how many committed files somebody still uses: they are looked at again without a sign of a change."""
        found = 0
        settled = [(layer, one.path) for layer, one in self._workspace.bounds.settled]
        for layer, path in {*settled, *self._committed}:
            with contextlib.suppress(OSError), folder_of(self._workspace.layers[layer].upper, path) as at:
                status = status_of(*at)
                found += status is not None and status.st_mode & 0o170000 == 0o100000
        return found

    def _note_unnoted(self, now: Tracked, ended: Step | None) -> Step:
        """Note as nobody's what is to be committed and is in no step, as it came where nobody could look.

        Its step is below that of the cell which ``ended``, as it may be older. What was held before is so once an undo
        has taken the commit back, and is the person's from then on.
        """
        journal, step = self._workspace.journal, Step("")
        latest = latest_of(journal.steps)
        for path, change in now.items():
            entry = latest.get(path)
            if change.autocommit and (entry is None or entry.committed is not None or entry.after == ABSENT):
                before = journal.seen.get(path)
                held = None if before is None else replace(before, stays=True)
                step.entries.append(Entry(*path, held, change.cell_key, is_folder=change.is_folder))
        if step.entries:
            journal.add(step, ended)
        return step

    def _keep_host(self, replacing: list[Change]) -> None:
        """Keep the host's files that a commit is to take the place of, where there is room."""
        journal = self._workspace.journal
        journal.room()
        latest = latest_of(journal.steps)
        for change in replacing:
            entry = latest.get((change.layer, change.path))
            if entry is not None:
                entry.replaced = journal.host_copy(self._workspace.layers[change.layer], change)

    def _commit(
        self, now: dict[Path, Change], outcome: Outcome, told: Callable[[int, int, int], None]
    ) -> dict[Path, Key]:
        """Commit what may be without a word; return what the host has now, as it was told."""
        chosen = [change for change in now.values() if change.autocommit]
        last = time.monotonic()

        def progress(so_far: Outcome) -> None:
            nonlocal last
            if time.monotonic() - last >= _PROGRESS_SECONDS:
                last = time.monotonic()
                told(so_far.count, len(chosen), so_far.bytes)

        for name, layer in self._workspace.layers.items():
            of_layer = [change for change in chosen if change.layer == name]
            if of_layer:
                commit(layer, of_layer, frozenset(), outcome=outcome, told=progress, by_itself=True)
        layers = self._workspace.layers
        return {path: relinked(layers[path[0]], path[1], key) for path, key in outcome.placed.items()}

    def _look_at_risk(self, held: int, size: int) -> tuple[str, int]:
        """Return why what is held could not be saved now, and how much there is room for."""
        if held > MAXIMUM_FILES:
            return "too_many", 0
        if not size:
            return "", 0
        why, free = room(self._store)
        if why:
            return why, 0
        return ("no_space", free) if free < size else ("", 0)

    def _look_at_store(self) -> tuple[str, ...]:
        """Return which saved files will be dropped, once for each process; drop what was told of in time."""
        if self._looked_at_store:
            return ()
        self._looked_at_store = True
        try:
            return tuple(
                one.path for one in retain(self._store, time.time(), tells=True)[: asked.NAMED_PATHS]
            )
        except OSError:
            return ()


def _hold_folders(now: Tracked) -> None:
    """Have folders with no file in them wait for the person, where they are too many."""
    by_itself = [path for path, change in now.items() if change.autocommit]
    folders = [path for path in by_itself if now[path].is_folder]
    alone = bare(folders, (path for path in by_itself if not now[path].is_folder))
    if len(alone) > MOST_BY_THEMSELVES:
        now.update((path, replace(now[path], autocommit=False)) for path in alone)


def _waiting(
    layers: Mapping[str, Layer], now: dict[Path, Change], step: Step | None
) -> list[tuple[str, str]]:
    """Return the new plain files of this cell that a person has to say a word for, and why."""
    entries = () if step is None else step.entries
    new = (now.get((entry.layer, entry.path)) for entry in entries if entry.before is None)
    return [
        (layers[change.layer].shown(change.path), change.waits)
        for change in new
        if change is not None and change.waits
    ]
