"""`sentinel-kernel artifacts`: list, show, restore, upload and prune what ended sandboxes left."""

from __future__ import annotations

import contextlib
import json
import os
import resource
import sys
import time
from typing import TYPE_CHECKING, Any

from sentinel_kernel.cli_restore import WORDS, files_of, plain, restore
from sentinel_kernel.errors import SentinelError
from sentinel_kernel.kernel.settings import language
from sentinel_kernel.policy.sizes_in_words import counted, size_text
from sentinel_kernel.record import as_dict, replace
from sentinel_kernel.workspace import store
from sentinel_kernel.workspace.uploading import obstacle

if TYPE_CHECKING:
    import argparse


_SHOWN_FILES = 200


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
    for name, words in WORDS.items():
        if name != "delete":
            command.add_argument(f"--{name}", action="store_true", help=f"{words}, without a question")
    command.add_argument("--json", action="store_true", help="print JSON")
    command.set_defaults(run=lambda asked: restore(asked, _named(_settings(), asked.name)))

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
        print(f"{one.name}  {files:>12}  {size_text(one.bytes):>10}  {plain(one.workspace)}{_notes(one)}")
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
        notes.append(f"copied to {plain(one.uploaded)}")
    if one.upload_failed:
        notes.append(f"not copied: {plain(one.upload_failed)}")
    return f"  ({'; '.join(notes)})" if notes else ""


def _show(arguments: argparse.Namespace) -> int:
    one = _named(_settings(), arguments.name)
    manifest = store.read_manifest(one.path) or {}
    files = list(files_of(one))
    if arguments.json:
        entries = [{"path": path, "bytes": size} for path, size in files]
        print(json.dumps({"version": 1, **as_dict(one), "manifest": manifest, "entries": entries}))
        return 0
    print(f"{one.name}: of {plain(one.workspace)}, in {one.path}{_notes(one)}")
    for path, size in files[:_SHOWN_FILES]:
        print(f"  {size_text(size):>10}  {plain(store.typed(path, manifest))}")
    if len(files) > _SHOWN_FILES:
        print(f"  … and {len(files) - _SHOWN_FILES} more")
    for title, key in (("deleted by cells", "deleted"), ("not saved", "skipped")):
        named = [str(path) for path in manifest.get(key) or ()]
        if named:
            print(
                f"{title}: {', '.join(plain(path) for path in named[:20])}{' …' if len(named) > 20 else ''}"
            )
    print(f"Copy them back: sentinel-kernel artifacts restore {one.name}")
    return 0


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
        print(f"  {one.name}  {counted(one.files, 'file')}  {size_text(one.bytes)}  {plain(one.workspace)}")
    return input(f"Delete {len(leaving)} for good? [y/N] ").strip().lower() in ("y", "yes")


def _upload(arguments: argparse.Namespace) -> int:
    # Who starts it after a sandbox's end has little memory (supervisor/files_process.py): a store's library takes more.
    most = resource.getrlimit(resource.RLIMIT_DATA)[1]
    resource.setrlimit(resource.RLIMIT_DATA, (most, most))
    settings = _settings()
    if not settings.url:
        raise SentinelError("SENTINEL_ARTIFACTS is no URL.", "Set it to one, as s3://bucket/folder.")
    one = _named(settings, arguments.name)
    from sentinel_kernel.uploads import note, upload  # noqa: PLC0415 - a library that few have

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
    try:
        note(one, place)
    except OSError as error:
        print(f"That could not be noted beside the files here: {error}.", file=sys.stderr)
    return 0
