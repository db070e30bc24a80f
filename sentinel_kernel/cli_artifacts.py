"""`sentinel-kernel artifacts`: list, show, restore, upload and prune what ended sandboxes left."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
from typing import TYPE_CHECKING, Any

from sentinel_kernel.errors import SentinelError
from sentinel_kernel.kernel.settings import language
from sentinel_kernel.policy.committable import Surroundings
from sentinel_kernel.policy.sizes_in_words import counted, size_text
from sentinel_kernel.record import Record, as_dict, replace
from sentinel_kernel.workspace import store
from sentinel_kernel.workspace.commit import Outcome, commit, questions, settle
from sentinel_kernel.workspace.layer import Layer
from sentinel_kernel.workspace.listing import changes
from sentinel_kernel.workspace.matching import Matching
from sentinel_kernel.workspace.uploading import obstacle

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from sentinel_kernel.workspace.change import Change

_SHOWN_FILES = 200
_SHOWN_CHARACTERS = 120
_WORDS = {
    "overwrite": "overwrite files that are there",
    "dangerous": "write files that programs of this machine run or load",
    "conflict": "write files that were changed on this machine since (both versions are kept)",
    "delete": "delete files",
}


def add_commands(commands: Any) -> None:  # noqa: ANN401 - argparse's own, which has no public name
    """Add `artifacts` and what is below it."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "artifacts", help="what sandboxes left: list, show, restore, prune"
    )
    below = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")

    command = below.add_parser("list", help="list what was saved, the oldest first")
    command.add_argument("--json", action="store_true", help="print JSON")
    command.set_defaults(run=_list)

    command = below.add_parser("show", help="show the files of one that was saved")
    command.add_argument("name", metavar="NAME")
    command.add_argument("--json", action="store_true", help="print JSON")
    command.set_defaults(run=_show)

    command = below.add_parser("restore", help="copy saved files to the folder they are from, or another")
    command.add_argument("name", metavar="NAME")
    command.add_argument(
        "paths", metavar="PATH", nargs="*", default=[], help="files, folders or globs (default: all)"
    )
    command.add_argument("--to", metavar="FOLDER", help="another folder than the notebook's")
    for name, words in _WORDS.items():
        if name != "delete":
            command.add_argument(f"--{name}", action="store_true", help=f"{words}, without a question")
    command.add_argument("--json", action="store_true", help="print JSON")
    command.set_defaults(run=_restore)

    command = below.add_parser(
        "prune", help="delete what is older, or more, than is to be kept, or what is named"
    )
    command.add_argument("names", metavar="NAME", nargs="*", default=[])
    command.add_argument(
        "--days", type=float, metavar="N", help="keep N days (default: SENTINEL_ARTIFACTS_DAYS, or 90)"
    )
    command.add_argument(
        "--bytes", type=int, metavar="N", help="keep N bytes (default: SENTINEL_ARTIFACTS_BYTES)"
    )
    command.add_argument("--yes", action="store_true", help="without a question")
    command.add_argument("--json", action="store_true", help="print JSON")
    command.set_defaults(run=_prune)

    command = below.add_parser("upload", help="copy one to SENTINEL_ARTIFACTS, where that is a URL")
    command.add_argument("name", metavar="NAME")
    command.set_defaults(run=_upload)


def _settings() -> store.StoreSettings:
    """Return the settings that kernels have, too; words that can't be understood are told beside what is asked for."""
    settings = store.read_store_settings(os.environ)
    why = obstacle(settings.url) if settings.url else None
    for english, chinese in (*settings.problems, *([why] if why is not None else [])):
        print(chinese if language(os.environ) == "zh" else english, file=sys.stderr)
    return settings


def _found(settings: store.StoreSettings) -> list[store.Artifact]:
    try:
        return store.artifacts(settings.folder)
    except OSError as error:
        raise SentinelError(f"{settings.folder} can't be read: {error.strerror}.") from None


def _named(settings: store.StoreSettings, name: str) -> store.Artifact:
    found = [one for one in _found(settings) if name in (one.name, one.path)]
    if not found:
        raise SentinelError(
            f"Nothing was saved under the name {name[:60]!r}.",
            "List what was: sentinel-kernel artifacts list",
        )
    return found[0]


# --- list and show


def _list(arguments: argparse.Namespace) -> int:
    settings = _settings()
    found = _found(settings)
    if arguments.json:
        print(
            json.dumps(
                {"version": 1, "folder": settings.folder, "artifacts": [as_dict(one) for one in found]}
            )
        )
        return 0
    if not found:
        print(f"Nothing is saved in {settings.folder}.")
        return 0
    for one in found:
        files = f"{one.files} file{'' if one.files == 1 else 's'}"
        print(f"{one.name}  {files:>12}  {size_text(one.bytes):>10}  {_plain(one.workspace)}{_notes(one)}")
    return 0


def _notes(one: store.Artifact) -> str:
    notes = []
    if not one.whole:
        notes.append("not finished: some files may be missing")
    if one.left_out:
        notes.append(f"{one.left_out} could not be saved")
    if one.leaves:
        notes.append(f"will be dropped after {time.strftime('%Y-%m-%d', time.localtime(one.leaves))}")
    if one.uploaded:
        notes.append(f"copied to {_plain(one.uploaded)}")
    if one.upload_failed:
        notes.append(f"not copied: {_plain(one.upload_failed)}")
    return f"  ({'; '.join(notes)})" if notes else ""


def _show(arguments: argparse.Namespace) -> int:
    one = _named(_settings(), arguments.name)
    manifest = store.read_manifest(one.path) or {}
    files = list(_files(one))
    if arguments.json:
        entries = [{"path": path, "bytes": size} for path, size in files]
        print(json.dumps({"version": 1, **as_dict(one), "manifest": manifest, "entries": entries}))
        return 0
    print(f"{one.name}: of {_plain(one.workspace)}, in {one.path}{_notes(one)}")
    for path, size in files[:_SHOWN_FILES]:
        print(f"  {size_text(size):>10}  {_plain(store.typed(path, manifest))}")
    if len(files) > _SHOWN_FILES:
        print(f"  … and {len(files) - _SHOWN_FILES} more")
    for title, key in (("deleted by cells", "deleted"), ("not saved", "skipped")):
        named = [str(path) for path in manifest.get(key) or ()]
        if named:
            print(
                f"{title}: {', '.join(_plain(path) for path in named[:20])}{' …' if len(named) > 20 else ''}"
            )
    print(f"Copy them back: sentinel-kernel artifacts restore {one.name}")
    return 0


def _files(one: store.Artifact) -> Iterator[tuple[str, int]]:
    for top in ("files", "folders"):
        for folder, below, names in os.walk(os.path.join(one.path, top)):
            below.sort()
            for name in sorted(names):
                path = os.path.join(folder, name)
                with contextlib.suppress(OSError):
                    yield os.path.relpath(path, one.path), os.lstat(path).st_size


def _plain(text: str) -> str:
    """Return a cell's words as one line without anything that steers a terminal."""
    cut = text if len(text) <= _SHOWN_CHARACTERS else text[:_SHOWN_CHARACTERS] + "…"
    return "".join(character if character.isprintable() else f"\\x{ord(character):02x}" for character in cut)


# --- restore


class _Place(Record):
    """A saved folder: the name of its layer, where it lies in the artifact, where to, and what of it is meant."""

    name: str
    source: str
    target: str
    meant: Matching


def _restore(arguments: argparse.Namespace) -> int:
    one = _named(_settings(), arguments.name)
    manifest = store.read_manifest(one.path) or {}
    places = manifest.get("folders") or [{"name": "workspace", "path": one.workspace, "place": "files"}]
    _forget_marks(one)
    outcome = Outcome()
    refused: dict[str, list[str]] = {}
    there: list[str] = []
    absent = dict.fromkeys(arguments.paths)
    for place in places:
        target = arguments.to or str(place.get("path") or "")
        if arguments.to and place.get("name") != "workspace":
            target = os.path.join(arguments.to, str(place.get("name")))
            os.makedirs(target, exist_ok=True)
        source = os.path.join(one.path, str(place.get("place") or "files"))
        if os.path.isdir(source):
            # A path in full is as `show` has it, wherever the files are copied to.
            name, path = str(place.get("name") or "workspace"), str(place.get("path") or target)
            one_place = _Place(name, source, target, Matching(arguments.paths, {name: path}))
            there += _restore_folder(arguments, one_place, outcome, refused)
            absent = {typed: None for typed in absent if typed in one_place.meant.unmet}
    return _restored(arguments, outcome, refused, there, list(absent))


def _below(source: str) -> Iterator[str]:
    """Yield the paths of the files in a folder, from there."""
    for folder, _, names in os.walk(source):
        yield from (os.path.relpath(os.path.join(folder, name), source) for name in sorted(names))


def _forget_marks(one: store.Artifact) -> None:
    """Take off what an earlier restore noted at the files: it may be wanted again."""
    for path, _ in _files(one):
        whole = os.path.join(one.path, path)
        with contextlib.suppress(OSError):
            for name in os.listxattr(whole, follow_symlinks=False):
                if name.startswith("user.overlay."):
                    os.removexattr(whole, name, follow_symlinks=False)


def _restore_folder(
    arguments: argparse.Namespace, place: _Place, outcome: Outcome, refused: dict[str, list[str]]
) -> list[str]:
    """Copy what is meant of a place; return which of its files are there already."""
    if not os.path.isabs(place.target) and not arguments.to:
        raise SentinelError("It is not known which folder it is from.", "Name one: --to FOLDER")
    target, meant = os.path.abspath(place.target), place.meant
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

        answers = frozenset(_answers(arguments, chosen(), refused))
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
    arguments: argparse.Namespace, chosen: Iterator[Change], refused: dict[str, list[str]]
) -> list[str]:
    """Return what may be done; what nobody said yes to is in ``refused``."""
    needs: dict[str, list[str]] = {}
    for change in chosen:
        for what in questions(change):
            needs.setdefault(what, []).append(change.path)
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
    print(f"This would {_WORDS[what]}:")
    for path in paths[:20]:
        print(f"  {_plain(path)}")
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
        print(f"  there already, as it was saved: {_first(there)}")
    if absent:
        print(f"  not in it: {_first(absent)} (sentinel-kernel artifacts show {arguments.name})")
    for path in outcome.beside:
        print(f"  both versions are kept: {_plain(path)}")
    for path, _, why in outcome.failed:
        print(f"  not restored: {_plain(path)} ({why})")
    for what, paths in refused.items():
        print(f"  not restored, as it would {_WORDS[what]} (--{what} does it): {_first(paths)}")
    return 0 if done else 1


def _first(paths: list[str]) -> str:
    """Name the first paths, and say how many more there are."""
    return ", ".join(map(_plain, paths[:5])) + (f" and {len(paths) - 5} more" if len(paths) > 5 else "")


# --- prune and upload


def _prune(arguments: argparse.Namespace) -> int:
    settings = _settings()
    if settings.problems and not arguments.names and (arguments.days is None or arguments.bytes is None):
        raise SentinelError(
            "What is to be kept can't be understood, so nothing is deleted.",
            "Correct the variable, or name what is to go, or give both --days and --bytes.",
        )
    if arguments.days is not None:
        settings = replace(settings, days=arguments.days)
    if arguments.bytes is not None:
        settings = replace(settings, maximum_bytes=arguments.bytes)
    if arguments.names:
        leaving = [_named(settings, name) for name in arguments.names]
    else:
        leaving = store.due(_found(settings), settings, time.time())
    agreed = bool(leaving) and (arguments.yes or _may_drop(arguments, leaving))
    for one in leaving if agreed else ():
        try:
            store.drop(one)
        except OSError as error:
            raise SentinelError(f"{one.path} could not be deleted: {error}.") from None
    if arguments.json:
        print(json.dumps({"version": 1, "due": [one.name for one in leaving], "deleted": agreed}))
    elif not leaving:
        print("Nothing is older, or more, than is to be kept.")
    elif agreed:
        print(f"{len(leaving)} deleted ({size_text(sum(one.bytes for one in leaving))}).")
    else:
        print("Nothing was deleted.")
    return 0 if agreed or not leaving else 1


def _may_drop(arguments: argparse.Namespace, leaving: list[store.Artifact]) -> bool:
    if arguments.json or not sys.stdin.isatty():
        return False
    for one in leaving:
        print(f"  {one.name}  {counted(one.files, 'file')}  {size_text(one.bytes)}  {_plain(one.workspace)}")
    return input(f"Delete {len(leaving)} for good? [y/N] ").strip().lower() in ("y", "yes")


def _upload(arguments: argparse.Namespace) -> int:
    settings = _settings()
    if not settings.url:
        raise SentinelError("SENTINEL_ARTIFACTS is no URL.", "Set it to one, as s3://bucket/folder.")
    one = _named(settings, arguments.name)
    from sentinel_kernel.uploads import upload  # noqa: PLC0415 - a library that few have

    try:
        place = upload(one, settings.url)
    except Exception as error:  # noqa: BLE001 - whatever a store's library raises, the copy here stays
        reason = f"{type(error).__name__}: {error}"[:500]
        with contextlib.suppress(OSError):
            store.write_word(one.path, store.UPLOAD_FAILED, reason)
        raise SentinelError(
            f"{one.name} was not copied to {settings.url}: {reason}.", "The files here stay where they are."
        ) from None
    print(f"{one.name} was copied to {place}.")
    return 0
