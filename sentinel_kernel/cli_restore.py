"""`sentinel-kernel artifacts restore`: copies saved files to where they are from, or to another folder."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from typing import TYPE_CHECKING, Any

from sentinel_kernel.errors import SentinelError
from sentinel_kernel.policy.committable import Surroundings
from sentinel_kernel.policy.sizes_in_words import size_text
from sentinel_kernel.policy.unseen import with_escapes
from sentinel_kernel.record import Record
from sentinel_kernel.workspace import store
from sentinel_kernel.workspace.commit import Outcome, commit, questions, settle
from sentinel_kernel.workspace.layer import Layer
from sentinel_kernel.workspace.listing import changes
from sentinel_kernel.workspace.matching import Matching

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from sentinel_kernel.workspace.change import Change

_SHOWN_CHARACTERS = 120
WORDS = {
    "overwrite": "overwrite files that are there",
    "dangerous": "write files that programs of this machine run or load",
    "conflict": "write files that were changed on this machine since (both versions are kept)",
    "delete": "delete files",
}
"""What a person says yes to, by the name of its option."""


def files_of(one: store.Artifact) -> Iterator[tuple[str, int]]:
    """Yield the path of each saved file within the artifact, and its size in bytes."""
    for top in ("files", "folders"):
        for folder, below, names in os.walk(os.path.join(one.path, top)):
            below.sort()
            for name in sorted(names):
                path = os.path.join(folder, name)
                with contextlib.suppress(OSError):
                    yield os.path.relpath(path, one.path), os.lstat(path).st_size


def plain(text: str) -> str:
    """Return a cell's words as one line without anything that steers a terminal, or that nobody sees."""
    cut = text if len(text) <= _SHOWN_CHARACTERS else text[:_SHOWN_CHARACTERS] + "…"
    encoding = sys.stdout.encoding or "ascii"
    return with_escapes(cut).encode(encoding, "backslashreplace").decode(encoding)


class _Place(Record):
    """A saved folder: the name of its layer, where it lies in the artifact, and where to."""

    name: str
    source: str
    target: str


def restore(arguments: argparse.Namespace, one: store.Artifact) -> int:
    """Do what `restore` asks for; return the exit status. Raises SentinelError."""
    manifest = store.read_manifest(one.path) or {}
    places = manifest.get("folders") or [{"name": "workspace", "path": one.workspace, "place": "files"}]
    _forget_marks(one)
    outcome = Outcome()
    refused: dict[str, list[str]] = {}
    there: list[str] = []
    # Paths are as `show` has them, wherever the files are copied to: of the notebook's folder from there, else in full.
    folders = {"workspace": one.workspace}
    folders |= {_name_of(place): str(place.get("path") or arguments.to or "") for place in places}
    meant = Matching(arguments.paths, folders)
    for place in places:
        target = arguments.to or str(place.get("path") or "")
        if arguments.to and _name_of(place) != "workspace":
            target = os.path.join(arguments.to, _name_of(place))
            os.makedirs(target, exist_ok=True)
        source = os.path.join(one.path, str(place.get("place") or "files"))
        if os.path.isdir(source):
            one_place = _Place(_name_of(place), source, target)
            there += _restore_folder(arguments, one_place, meant, outcome, refused)
    return _restored(arguments, outcome, refused, there, list(meant.unmet))


def _name_of(place: dict[str, Any]) -> str:
    return str(place.get("name") or "workspace")


def _below(source: str) -> Iterator[str]:
    """Yield the paths of the files in a folder, from there."""
    for folder, _, names in os.walk(source):
        yield from (os.path.relpath(os.path.join(folder, name), source) for name in sorted(names))


def _forget_marks(one: store.Artifact) -> None:
    """Take off what an earlier restore noted at the files: it may be wanted again."""
    for path, _ in files_of(one):
        whole = os.path.join(one.path, path)
        with contextlib.suppress(OSError):
            for name in os.listxattr(whole, follow_symlinks=False):
                if name.startswith("user.overlay."):
                    os.removexattr(whole, name, follow_symlinks=False)


def _restore_folder(
    arguments: argparse.Namespace,
    place: _Place,
    meant: Matching,
    outcome: Outcome,
    refused: dict[str, list[str]],
) -> list[str]:
    """Copy what is meant of a place; return which of its files are there already."""
    if not os.path.isabs(place.target) and not arguments.to:
        raise SentinelError("It is not known which folder it is from.", "Name one: --to FOLDER")
    target = os.path.abspath(place.target)
    with contextlib.ExitStack() as opened:
        descriptors = []
        for path in (place.source, target):
            try:
                descriptors.append(os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC))
            except OSError as error:
                raise SentinelError(
                    f"{path} can't be opened: {error.strerror}.", "Name another folder: --to FOLDER"
                ) from None
            opened.callback(os.close, descriptors[-1])
        status = os.fstat(descriptors[1])
        owner = (status.st_uid, status.st_gid) if os.geteuid() == 0 else None
        layer = Layer(place.name, target, descriptors[0], -1, descriptors[1], owner=owner)
        there = {path for path in _below(place.source) if meant(layer.name, path)}
        there -= {change.path for change in changes(layer, Surroundings())}

        def chosen() -> Iterator[Change]:
            return (change for change in changes(layer, Surroundings()) if meant(change.layer, change.path))

        answers = frozenset(_answers(arguments, layer, chosen(), refused))
        commit(
            layer,
            (change for change in chosen() if set(questions(change)) <= answers),
            answers,
            outcome=outcome,
        )
        with contextlib.suppress(OSError):  # the files are there, and on their way to the disk
            settle(layer)
        return sorted(map(layer.shown, there))


def _answers(
    arguments: argparse.Namespace, layer: Layer, chosen: Iterator[Change], refused: dict[str, list[str]]
) -> list[str]:
    """Return what may be done; what nobody said yes to is in ``refused``."""
    needs: dict[str, list[str]] = {}
    for change in chosen:
        for what in questions(change):
            needs.setdefault(what, []).append(layer.shown(change.path))
    given = []
    for what, paths in needs.items():
        if getattr(arguments, what, False) or _agrees(arguments, what, paths):
            given.append(what)
        else:
            refused.setdefault(what, []).extend(paths)
    return given


def _agrees(arguments: argparse.Namespace, what: str, paths: list[str]) -> bool:
    if arguments.json or not sys.stdin.isatty():
        return False
    print(f"This would {WORDS[what]}:")
    for path in paths[:20]:
        print(f"  {plain(path)}")
    if len(paths) > 20:
        print(f"  … and {len(paths) - 20} more")
    return input("Do it? [y/N] ").strip().lower() in ("y", "yes")


def _restored(
    arguments: argparse.Namespace,
    outcome: Outcome,
    refused: dict[str, list[str]],
    there: list[str],
    absent: list[str],
) -> int:
    done = not refused and not outcome.failed_count and not absent
    if arguments.json:
        told = {
            "version": 1,
            "restored": outcome.count,
            "bytes": outcome.bytes,
            "beside": outcome.beside,
            "failed": [{"path": path, "why": why} for path, _, why in outcome.failed],
            "refused": refused,
            "there": len(there),
            "absent": absent,
        }
        print(json.dumps(told))
        return 0 if done else 1
    print(f"{outcome.count} file{'' if outcome.count == 1 else 's'} restored ({size_text(outcome.bytes)}).")
    if there:
        print(f"  there already, as it was saved: {first(there)}")
    if absent:
        print(f"  not in it: {first(absent)} (sentinel-kernel artifacts show {arguments.name})")
    for path in outcome.beside:
        print(f"  both versions are kept: {plain(path)}")
    for path, _, why in outcome.failed:
        print(f"  not restored: {plain(path)} ({why})")
    for what, paths in refused.items():
        print(f"  not restored, as it would {WORDS[what]} (--{what} does it): {first(paths)}")
    return 0 if done else 1


def first(paths: list[str]) -> str:
    """Name the first paths, and say how many more there are."""
    return ", ".join(map(plain, paths[:5])) + (f" and {len(paths) - 5} more" if len(paths) > 5 else "")
