"""Answers the person's requests about held files: lists, differences, commits, discards, an undo, an export."""

from __future__ import annotations

import base64
import json
import os
import time
from collections import deque

from sentinel_kernel.policy.committable import made_anew
from sentinel_kernel.record import MutableRecord, fresh, replace
from sentinel_kernel.workspace import change as kinds
from sentinel_kernel.workspace import person_commit
from sentinel_kernel.workspace import request as asked
from sentinel_kernel.workspace.agreeing import Asking
from sentinel_kernel.workspace.bounds import Bounds
from sentinel_kernel.workspace.change import as_own
from sentinel_kernel.workspace.commit import Outcome, commit, settle
from sentinel_kernel.workspace.difference import READ_BYTES, difference
from sentinel_kernel.workspace.launching import LOOKS_SECONDS, Looks, with_reason
from sentinel_kernel.workspace.listing import changes
from sentinel_kernel.workspace.matching import Matching
from sentinel_kernel.workspace.nearby import unknown, unmet
from sentinel_kernel.workspace.reading import head, open_version
from sentinel_kernel.workspace.taken_back import TakenBack
from sentinel_kernel.workspace.taking_back import discard
from sentinel_kernel.workspace.tracked import Tracked
from sentinel_kernel.workspace.undoing import undo
from sentinel_kernel.workspace.unseen import note_missed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from sentinel_kernel.policy.committable import Surroundings
    from sentinel_kernel.workspace.change import Change
    from sentinel_kernel.workspace.journal import Journal
    from sentinel_kernel.workspace.journal_records import Step
    from sentinel_kernel.workspace.layer import Layer
    from sentinel_kernel.workspace.request import FilesRequest
    from sentinel_kernel.workspace.store import StoreSettings

    Json = dict[str, Any]

_PROGRESS_SECONDS = 0.5
_MOST_FOLDERS = 20_000


class Workspace(MutableRecord):
    """What there is to answer from."""

    layers: dict[str, Layer]
    """By name, the workspace first."""
    surroundings: Surroundings
    journal: Journal
    store: StoreSettings
    """Where a copy of what an undo takes back is kept."""
    bounds: Bounds = fresh(default_factory=Bounds)
    """Of the last walk."""
    looks: Looks = fresh(default_factory=Looks)

    def walk(self, *, looks: bool = True) -> Iterator[Change]:
        """Yield what is held, layer by layer; without ``looks`` what of it may be committed by itself is not told."""
        self.bounds = Bounds(looks=self.looks)
        self.looks.seconds = LOOKS_SECONDS if looks else 0.0
        for layer in self.layers.values():
            for change in changes(layer, self.surroundings, self.bounds):
                one = with_reason(as_own(change, self.journal.own), layer.upper, self.looks)
                # What a stricter rule has held is the person's to commit: what is written from then on gets out.
                yield replace(one, autocommit=False) if one.autocommit and self.journal.stays(one) else one

    def held(self) -> Tracked:
        """Return what is held, as much as the journal keeps track of."""
        found = Tracked()
        for change in self.walk(looks=False):
            found.take(change)
        note_missed(found, self.bounds.missed, self.journal.seen, self.layers)
        self.journal.incomplete |= not found.is_whole
        return found


class Tally(MutableRecord):
    """What is held, counted."""

    held: int = 0
    bytes: int = 0
    conflicts: int = 0
    conflicting: list[str] = fresh(default_factory=list)

    def add(self, layer: Layer, change: Change) -> None:
        """Count one of ``layer``."""
        self.held += 1
        self.bytes += max(0, change.size)
        if change.conflict:
            self.conflicts += 1
            if len(self.conflicting) < asked.NAMED_PATHS:
                self.conflicting.append(layer.shown(change.path))


def tally(workspace: Workspace) -> Tally:
    """Count what is held."""
    found = Tally()
    for change in workspace.walk(looks=False):
        found.add(workspace.layers[change.layer], change)
    return found


def answer(workspace: Workspace, wanted: FilesRequest, told: Callable[[int, int, int], None]) -> Json:
    """Return the answer's fields; ``told`` is called with done, of and bytes while it takes long."""
    answering = {
        "list": _list,
        "diff": _diff,
        "commit": _commit,
        "discard": _discard,
        "undo": _undo,
        "export": _export,
        "count": _count,
        "trial_begin": _trial,
        "trial_end": _trial,
    }
    return {"ok": True, **answering[wanted.do](workspace, wanted, told)}


def _meant(workspace: Workspace, wanted: FilesRequest, meant: Matching | None = None) -> Iterator[Change]:
    """Yield the changes that a request is about; ``meant`` is asked where it is given."""
    asked_for = meant or _matching(workspace, wanted)
    return (change for change in workspace.walk() if asked_for(change.layer, change.path))


def _matching(workspace: Workspace, wanted: FilesRequest) -> Matching:
    return Matching(wanted.paths, {name: layer.path for name, layer in workspace.layers.items()})


def _chosen(workspace: Workspace, wanted: FilesRequest) -> Iterator[Change]:
    """Yield what a commit is about: of all that is held, without a path, not what is made anew anyway."""
    return (change for change in _meant(workspace, wanted) if wanted.paths or not made_anew(change.path))


def _list(workspace: Workspace, wanted: FilesRequest, _told: object) -> Json:
    first = wanted.page * asked.PAGE_ENTRIES
    found, entries, size = Tally(), [], 0
    for change in _meant(workspace, wanted):
        if first <= found.held < first + asked.PAGE_ENTRIES:
            entry = {**change.to_json(), "folder": workspace.layers[change.layer].path}
            size += _length(entry)
            if size <= asked.ANSWER_BYTES:
                entries.append(entry)
            else:
                workspace.bounds.left_out += 1
        found.add(workspace.layers[change.layer], change)
    return {
        "entries": entries,
        "page": wanted.page,
        "pages": asked.pages_of(found.held),
        "count": found.held,
        "bytes": found.bytes,
        "conflicts": found.conflicts,
        "left_out": workspace.bounds.left_out + workspace.bounds.unreadable,
    }


def _diff(workspace: Workspace, wanted: FilesRequest, _told: object) -> Json:
    """Return the page's differences: each page has as many as fit, so that those before are made as well."""
    diffs: list[Json] = []
    size = page = 0
    for change in _meant(workspace, wanted):
        if change.is_folder:
            continue
        shown = _difference(workspace.layers[change.layer], change)
        size += _length(shown)
        if diffs and size > asked.ANSWER_BYTES:
            if page == wanted.page:
                return {"diffs": diffs, "page": page, "more": True}
            diffs, size, page = [], _length(shown), page + 1
        diffs.append(shown)
    return {"diffs": diffs if page == wanted.page else [], "page": wanted.page, "more": False}


def _difference(layer: Layer, change: Change) -> Json:
    fields: Json = {"form": "special", "cut": False}
    if change.kind != "special":
        try:
            old = head(layer, change.path, READ_BYTES + 1, before=True)
            new = None if change.kind == "deleted" else head(layer, change.path, READ_BYTES + 1, before=False)
            fields = difference(change.path, old, new)
        except OSError as error:
            fields = {"form": "unreadable", "cut": True, "why": asked.code_of(error)}
    return {
        "path": change.path,
        "layer": change.layer,
        "folder": layer.path,
        "kind": change.kind,
        "conflict": change.conflict,
        "size": change.size,
        "host_size": change.host_size,
        **fields,
    }


def _commit(workspace: Workspace, wanted: FilesRequest, told: Callable[[int, int, int], None]) -> Json:
    asking = Asking(wanted, person_commit.Keeping(workspace.journal.room()))
    aside, meant = 0, _matching(workspace, wanted)
    for change in _meant(workspace, wanted, meant):
        if not wanted.paths and made_anew(change.path):
            aside += not change.is_folder
        else:
            asking.look_at(change, workspace.layers[change.layer].shown(change.path))
    if not asking.count and wanted.paths:
        return unknown(workspace.layers, workspace.walk(looks=False), wanted.paths)
    if asking.open:
        return {"needs": asking.needs(), "seen": asking.seen}
    outcome, last = Outcome(), time.monotonic()
    step = person_commit.begin(workspace.journal)

    def progress(so_far: Outcome) -> None:
        nonlocal last
        if time.monotonic() - last >= _PROGRESS_SECONDS:
            last = time.monotonic()
            told(so_far.count, asking.count, so_far.bytes)

    for name, layer in workspace.layers.items():
        chosen = (
            person_commit.keep_former(workspace.journal, layer, change, step)
            for change in _chosen(workspace, wanted)
            if change.layer == name and asking.agreed(change)
        )
        commit(layer, chosen, wanted.answers, outcome=outcome, told=progress, asked_new=wanted.ask_new)
    layers = workspace.layers
    found = outcome.placed.items()
    placed = {path: person_commit.relinked(layers[path[0]], path[1], key) for path, key in found}
    workspace.journal.placed(placed, step)
    person_commit.note_beside(step, outcome.beside_in)
    person_commit.let_stay(workspace.journal, step)
    _dealt_with(workspace, step)
    return {
        "committed": asked.Tally(outcome.count, outcome.bytes, tuple(outcome.paths)).to_json(),
        "beside": outcome.beside[: asked.NAMED_PATHS],
        "aside": aside,
        "failed": asked.Failures(outcome.failed_count, tuple(outcome.failed)).to_json(),
        **unmet(workspace.layers, meant.unmet),
        **_left(workspace),
    }


def _discard(workspace: Workspace, wanted: FilesRequest, told: Callable[[int, int, int], None]) -> Json:
    done, failed, last = Outcome(), Outcome(), time.monotonic()

    def dropped(change: Change) -> None:
        nonlocal last
        done.count += 1
        done.bytes += max(0, change.size)
        if len(done.paths) < asked.NAMED_PATHS:
            done.paths.append(workspace.layers[change.layer].shown(change.path))
        if time.monotonic() - last >= _PROGRESS_SECONDS:
            last = time.monotonic()
            told(done.count, -1, done.bytes)

    def kept(change: Change, error: OSError) -> None:
        failed.failed_count += 1
        if len(failed.failed) < asked.NAMED_PATHS:
            shown = workspace.layers[change.layer].shown(change.path)
            failed.failed.append((shown, change.layer, asked.code_of(error)))

    meant = _matching(workspace, wanted)
    for change in _discarded(workspace, wanted, meant):
        try:
            discard(workspace.layers[change.layer], change)
        except OSError as error:
            kept(change, error)
        else:
            dropped(change)
    if not done.count and not failed.failed_count and wanted.paths:
        return unknown(workspace.layers, workspace.walk(looks=False), wanted.paths)
    _dealt_with(workspace)
    return {
        "discarded": asked.Tally(done.count, done.bytes, tuple(done.paths)).to_json(),
        "failed": asked.Failures(failed.failed_count, tuple(failed.failed)).to_json(),
        **unmet(workspace.layers, meant.unmet),
        **_left(workspace),
    }


def _discarded(workspace: Workspace, wanted: FilesRequest, meant: Matching) -> Iterator[Change]:
    """Yield what is to be discarded: folders that cells have made come after what is in them.

    No more of them are held in memory than there is room for; those before them are found by another walk.
    """
    left = 0
    while True:
        folders: deque[Change] = deque(maxlen=_MOST_FOLDERS)  # the last: what is in a folder comes behind it
        found = 0
        for change in _meant(workspace, wanted, meant):
            if change.is_folder and change.kind != kinds.DELETED:
                folders.append(change)
                found += 1
            elif not left:
                yield change
        yield from reversed(folders)
        if found <= _MOST_FOLDERS or found == left:
            return  # these were all, or none of them can be discarded
        left = found


def _undo(workspace: Workspace, _wanted: FilesRequest, _told: object) -> Json:
    journal = workspace.journal
    if not journal.steps:
        return asked.refusal("nothing_to_undo")
    kept = TakenBack(workspace.store, next(iter(workspace.layers.values())).path)
    outcome = undo(workspace.layers, journal, workspace.held(), kept.keep)
    journal.follow(workspace.held(), workspace.layers)
    return {
        "kept": kept.finish(),
        "cell": outcome.cell,
        "undone": asked.Tally(outcome.count, outcome.bytes, tuple(outcome.paths), outcome.folders).to_json(),
        "failed": asked.Failures(outcome.failed_count, tuple(outcome.failed)).to_json(),
        "steps": len(journal.steps),
        "incomplete": journal.incomplete,
        **_left(workspace),
    }


def _export(workspace: Workspace, wanted: FilesRequest, _told: object) -> Json:
    layer, path = _placed(workspace, wanted)
    try:
        reader, size, modified = open_version(layer, path, before=wanted.side == "before")
    except (FileNotFoundError, NotADirectoryError):
        return asked.refusal("no_such_file")
    except OSError as error:
        return asked.refusal(asked.code_of(error), error.strerror or "")
    try:
        data = os.pread(reader, asked.EXPORT_BYTES, wanted.offset)
    except OSError as error:
        return asked.refusal(asked.code_of(error), error.strerror or "")
    finally:
        os.close(reader)
    end = wanted.offset + len(data)
    return {
        "path": path,
        "layer": layer.name,
        "size": size,
        "mtime_ns": modified,
        "offset": wanted.offset,
        "data": base64.b64encode(data).decode("ascii"),
        "next": end if data and end < size else None,
    }


def _placed(workspace: Workspace, wanted: FilesRequest) -> tuple[Layer, str]:
    """Return the layer and the path in it that an export names."""
    path = wanted.paths[0] if wanted.paths else ""
    layers = list(workspace.layers.values())
    if not path.startswith("/"):
        return layers[0], path
    holders = [layer for layer in layers if path.startswith(layer.path.rstrip("/") + "/")]
    holder = max(holders, key=lambda layer: len(layer.path), default=layers[0])
    return holder, path.removeprefix(holder.path.rstrip("/") + "/")


def _count(workspace: Workspace, _wanted: FilesRequest, _told: object) -> Json:
    found = tally(workspace)
    return {
        "held": found.held,
        "bytes": found.bytes,
        "conflicts": found.conflicts,
        "steps": len(workspace.journal.steps),
    }


def _trial(workspace: Workspace, wanted: FilesRequest, _told: object) -> Json:
    from sentinel_kernel.workspace import trial  # noqa: PLC0415 - for dry runs alone

    return trial.begin(workspace) if wanted.do == "trial_begin" else trial.end(workspace)


def _dealt_with(workspace: Workspace, but: Step | None = None) -> None:
    """What the person has committed or discarded is no cell's doing any more, only that of the step ``but``."""
    now = workspace.held()
    journal = workspace.journal
    journal.forget((path for path in journal.seen if path not in now and path not in now.unseen), but)
    journal.follow(now, workspace.layers)


def _left(workspace: Workspace) -> Json:
    found = tally(workspace)
    return {"held": found.held, "bytes": found.bytes}


def afterwards(workspace: Workspace, wanted: FilesRequest) -> None:
    """Do what is still to be done once the person has the answer."""
    if wanted.do in ("commit", "undo"):
        for layer in workspace.layers.values():
            settle(layer)


def _length(fields: Json) -> int:
    return len(json.dumps(fields))
