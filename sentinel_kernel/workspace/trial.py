"""A dry run's two ends: what was there before is kept, then what it changed is shown and taken back."""

from __future__ import annotations

import json
import os

from sentinel_kernel.workspace import request as asked
from sentinel_kernel.workspace.commit import Outcome
from sentinel_kernel.workspace.difference import READ_BYTES, difference
from sentinel_kernel.workspace.reading import head
from sentinel_kernel.workspace.tracked import may_be_cut
from sentinel_kernel.workspace.undoing import undo

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from sentinel_kernel.workspace.answering import Workspace
    from sentinel_kernel.workspace.change import Change
    from sentinel_kernel.workspace.journal_records import Entry
    from sentinel_kernel.workspace.tracked import Tracked

    Json = dict[str, Any]

_MOST_ROUNDS = 100
"""A walk keeps track of so many changes at a time (tracked.py): more are taken back in rounds."""

_ENTRIES_BYTES = asked.ANSWER_BYTES // 2


def begin(workspace: Workspace) -> Json:
    """Keep what is held as what the dry run starts from; refuse where it could not be brought back afterwards."""
    now, journal = workspace.held(), workspace.journal
    if may_be_cut(now):
        return asked.refusal("too_many")
    if now.missed:  # what lies there, and what a dry run makes of it, nobody would know
        return {**asked.refusal("unseen"), "unseen": _missed(workspace, now)}
    journal.note("", now)
    journal.follow(now, workspace.layers)
    unkept = [
        (seen.key[1], workspace.layers[layer].shown(path))
        for (layer, path), seen in journal.seen.items()
        if not seen.version and not seen.is_folder and seen.kind not in ("deleted", "special")
    ]
    if unkept:
        unkept.sort(reverse=True)  # the largest first: most often there is no room for it
        named = {"count": len(unkept), "paths": [path for _, path in unkept[: asked.NAMED_PATHS]]}
        return {
            **asked.refusal("not_kept"),
            "unkept": {**named, "bytes": unkept[0][0], "room": journal.room()},
        }
    return {"held": len(now), "bytes": sum(max(0, change.size) for change in now.values())}


def _missed(workspace: Workspace, now: Tracked) -> Json:
    paths = [_shown(workspace, *one) for one in sorted(now.missed)[: asked.NAMED_PATHS]]
    return {"count": len(now.missed), "paths": paths}


def _shown(workspace: Workspace, layer: str, path: str) -> str:
    """Return where nobody could look as a person types it."""
    of = workspace.layers[layer]
    return of.shown(path) if path else of.path


def end(workspace: Workspace) -> Json:
    """Return what differs from the beginning, and take it back."""
    journal, done = workspace.journal, Outcome()
    shown: Json = {"count": 0, "entries": [], "diffs": [], "more": False}
    now = workspace.held()
    for _ in range(_MOST_ROUNDS):
        step = journal.note("", now)
        if step is None:
            break
        if not shown["count"]:
            _show(workspace, sorted(step.entries, key=lambda entry: (entry.layer, entry.path)), now, shown)
        outcome = undo(workspace.layers, journal, now)
        done.count += outcome.count
        done.bytes += outcome.bytes
        done.paths += outcome.paths[: max(0, asked.NAMED_PATHS - len(done.paths))]
        # What could not be taken back is found again, and counts once.
        done.failed_count, done.failed = outcome.failed_count, outcome.failed
        was, now = now, workspace.held()
        # What was put back is another file than before, and would be put back again.
        if not may_be_cut(was) or now.keys() == was.keys():
            break
    _count_left(workspace, now, done)
    journal.follow(now, workspace.layers)
    shown["count"] = max(shown["count"], done.count + done.failed_count)
    return {
        **shown,
        "undone": asked.Tally(done.count, done.bytes, tuple(done.paths)).to_json(),
        "failed": asked.Failures(done.failed_count, tuple(done.failed)).to_json(),
        "held": len(now),
        "bytes": sum(max(0, change.size) for change in now.values()),
    }


def _count_left(workspace: Workspace, now: Tracked, done: Outcome) -> None:
    """Count as failed what is there and was not (whoever goes on writes meanwhile), and where nobody could look."""
    named = {(layer, path) for path, layer, _ in done.failed}
    for layer, path in sorted(now.missed):
        done.failed_count += 1
        if len(done.failed) < asked.NAMED_PATHS:
            done.failed.append((_shown(workspace, layer, path), layer, "unreadable"))
    for (layer, path), change in now.items():
        before = workspace.journal.seen.get((layer, path))
        shown = workspace.layers[layer].shown(path)
        if (before is None or before.kind != change.kind) and (layer, shown) not in named:
            done.failed_count += 1
            if len(done.failed) < asked.NAMED_PATHS:
                done.failed.append((shown, layer, "changed_meanwhile"))


def _show(workspace: Workspace, entries: list[Entry], now: Tracked, shown: Json) -> None:
    """Fill in the entries and differences, as many as fit."""
    shown["count"] = len(entries)
    size = 0
    for entry in entries[: asked.PAGE_ENTRIES]:
        described = _entry(workspace, entry, now.get((entry.layer, entry.path)))
        size += len(json.dumps(described))
        if size > _ENTRIES_BYTES:
            break
        shown["entries"].append(described)
    size = 0
    for entry, described in zip(entries, shown["entries"], strict=False):
        if described["is_folder"]:
            continue
        diff = _difference(workspace, entry, now.get((entry.layer, entry.path)), described)
        size += len(json.dumps(diff))
        if size > _ENTRIES_BYTES:
            shown["more"] = True
            return
        shown["diffs"].append(diff)


def _entry(workspace: Workspace, entry: Entry, change: Change | None) -> Json:
    """Return an entry of ``list``; its kind is told from what cells saw before."""
    before = entry.before
    folder = workspace.layers[entry.layer].path
    if before is None and change is not None:
        return {**change.to_json(), "folder": folder}
    gone = change is None or change.kind == "deleted"
    was_gone = before is None or before.kind == "deleted"
    kind = "deleted" if gone else "new" if was_gone else "changed"
    if change is None and was_gone:
        kind = "new"  # the host's file, which a cell had deleted, is there again
    return {
        "path": entry.path,
        "layer": entry.layer,
        "folder": folder,
        "kind": kind,
        "is_folder": before.is_folder
        if change is None and before is not None
        else bool(change and change.is_folder),
        "size": -1 if change is None else change.size,
        "host_size": -1 if before is None or was_gone else before.key[1],
        "conflict": False,
        "committable": "",
    }


def _difference(workspace: Workspace, entry: Entry, change: Change | None, described: Json) -> Json:
    """Return a diff between what cells saw before the dry run and what they would see after it."""
    layer = workspace.layers[entry.layer]
    fields: Json = {"form": "special", "cut": False}
    if described["kind"] != "special":
        try:
            old = _before(workspace, entry)
            new = None
            if change is None:
                new = (
                    head(layer, entry.path, READ_BYTES + 1, before=True)
                    if described["kind"] == "new"
                    else None
                )
            elif change.kind != "deleted":
                new = head(layer, entry.path, READ_BYTES + 1, before=False)
            fields = difference(entry.path, old, new)
        except OSError as error:
            fields = {"form": "unreadable", "cut": True, "why": asked.code_of(error)}
    names = ("path", "layer", "folder", "kind", "size", "host_size")
    return {**{name: described[name] for name in names}, **fields}


def _before(workspace: Workspace, entry: Entry) -> bytes | None:
    """Return the beginning of what cells saw at a path before; None where there was nothing. Raises OSError."""
    before = entry.before
    if before is None:
        return head(workspace.layers[entry.layer], entry.path, READ_BYTES + 1, before=True)
    if before.kind == "deleted":
        return None
    reader = workspace.journal.open_version(before)
    try:
        return os.pread(reader, READ_BYTES + 1, 0)
    finally:
        os.close(reader)
