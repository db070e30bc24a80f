"""The artifact store: where saved files are, how much is kept and how long, and who was told of what.

Each artifact is a folder of the store with ``manifest.json``, ``files`` (of the workspace) and ``folders/NAME`` (of
data folders). One that is still being written begins with ``.part-``. Nothing is dropped that the person was not told
of some days before: what is due is marked with the day first.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import time

from sentinel_kernel.policy import disk_reserve
from sentinel_kernel.record import Record

TYPE_CHECKING = False  # the supervisor reads where the store is before it starts a sandbox
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

PART = ".part-"
MANIFEST = "manifest.json"
LEAVING = "leaving"
"""A file in an artifact that will be dropped: the time (seconds since 1970) after which."""

UPLOADED = "uploaded"
"""A file in an artifact: where it was copied to; ``upload-failed`` says why it was not."""

UPLOAD_FAILED = "upload-failed"
CUT_OFF = "The copy is under way, or was cut off."
"""What is known where that file is empty: the disk had no room for a word."""

DAYS = 90.0
BYTES = 20 << 30
GRACE_SECONDS = 7 * 86_400.0
"""Between the word that an artifact will go and its going."""

_MOST_DAYS = 36_500.0
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_UNTOLD = "untold"
_LOOKED_AT = 50
_KEY_CHARACTERS = 4096
_MANIFEST_BYTES = 64 << 20


class StoreSettings(Record):
    """Where files are saved. ``problems`` are about words that can't be understood; their defaults are used then."""

    folder: str
    url: str = ""
    """Where they are copied to as well (fsspec), empty for nowhere."""
    days: float = DAYS
    maximum_bytes: int = BYTES
    problems: tuple[tuple[str, str], ...] = ()
    """In English and Chinese, with what is in force."""


class Artifact(Record):
    """One saved sandbox."""

    name: str
    path: str
    workspace: str
    saved: str
    """When, as YYYYmmdd-HHMMSS of this machine's time zone."""
    files: int
    bytes: int
    left_out: int
    whole: bool
    """Whether it was written to its end; where not, each file in it is whole all the same."""
    leaves: float = 0.0
    """When it may be dropped, in seconds since 1970; 0: nobody was told of that yet."""
    uploaded: str = ""
    upload_failed: str = ""


def read_store_settings(environment: Mapping[str, str]) -> StoreSettings:
    """Return the settings of SENTINEL_ARTIFACTS (a folder or a URL), SENTINEL_ARTIFACTS_DAYS and _BYTES."""
    chosen = environment.get("SENTINEL_ARTIFACTS", "").strip()
    folder, url, problems = _default(environment), "", []
    if "://" in chosen:
        url = chosen
    elif os.path.isabs(chosen):
        folder = os.path.normpath(chosen)
    elif chosen:
        english = (
            f"SENTINEL_ARTIFACTS must be an absolute path or a URL, not {chosen[:100]!r}: {folder} is used."
        )
        problems.append(
            (english, f"SENTINEL_ARTIFACTS 必须是绝对路径或 URL，而不是 {chosen[:100]!r}：使用 {folder}。")
        )
    days, maximum = DAYS, BYTES
    chosen = environment.get("SENTINEL_ARTIFACTS_DAYS", "")
    try:
        days = _days(chosen or str(DAYS))
    except ValueError:
        english = f"SENTINEL_ARTIFACTS_DAYS must be a number of days such as 30, not {chosen[:40]!r}: it is {DAYS:.0f}."
        problems.append(
            (
                english,
                f"SENTINEL_ARTIFACTS_DAYS 必须是天数（如 30），而不是 {chosen[:40]!r}：按 {DAYS:.0f} 天处理。",
            )
        )
    chosen = environment.get("SENTINEL_ARTIFACTS_BYTES", "")
    try:
        maximum = _bytes(chosen or str(BYTES))
    except ValueError:
        most = f"{BYTES >> 30}G"
        english = f"SENTINEL_ARTIFACTS_BYTES must be a size such as 5G, not {chosen[:40]!r}: it is {most}."
        problems.append(
            (
                english,
                f"SENTINEL_ARTIFACTS_BYTES 必须是大小（如 5G），而不是 {chosen[:40]!r}：按 {most} 处理。",
            )
        )
    return StoreSettings(folder, url, days, maximum, tuple(problems))


def artifact_store() -> str:
    """Return the folder of the artifact store of this process's user."""
    return read_store_settings(os.environ).folder


def own_data(environment: Mapping[str, str]) -> str:
    """Return the folder of what is Sentinel's own and lasts (XDG base directory specification)."""
    data = environment.get("XDG_DATA_HOME") or os.path.join(environment.get("HOME") or "/", ".local", "share")
    return os.path.join(data, "sentinel-kernel")


def own_settings(environment: Mapping[str, str]) -> str:
    """Return the folder of the user's own profiles and words (XDG base directory specification)."""
    settings = environment.get("XDG_CONFIG_HOME") or os.path.join(environment.get("HOME") or "/", ".config")
    return os.path.join(settings, "sentinel-kernel")


def _default(environment: Mapping[str, str]) -> str:
    """Return the folder where nobody says otherwise."""
    return os.path.join(own_data(environment), "artifacts")


def _days(text: str) -> float:
    days = float(text)
    if not (math.isfinite(days) and days >= 0):
        raise ValueError(text)
    return min(days, _MOST_DAYS)


def _bytes(text: str) -> int:
    plain = text.strip().upper().removesuffix("IB").removesuffix("B")
    unit = plain[-1:] if plain[-1:] in _UNITS else ""
    size = float(plain.removesuffix(unit)) * _UNITS[unit]
    if not 0 <= size < 1 << 62:
        raise ValueError(text)
    return int(size)


# --- what is in it


def artifacts(store: str) -> list[Artifact]:
    """Return what is in the store, the oldest first. Raises OSError where it can't be read; none: it is empty."""
    try:
        names = sorted(os.listdir(store), key=lambda name: name.removeprefix(PART))
    except FileNotFoundError:
        return []
    return [found for name in names if (found := _artifact(store, name)) is not None]


def _artifact(store: str, name: str) -> Artifact | None:
    path = os.path.join(store, name)
    manifest = read_manifest(path)
    part = name.startswith(PART)
    if manifest is None and not part:
        return None
    found = manifest or {}
    return Artifact(
        name=name,
        path=path,
        workspace=str(found.get("workspace") or ""),
        saved=str(found.get("saved") or name.removeprefix(PART).rpartition("-")[0]),
        files=_number(found.get("files")),
        bytes=_number(found.get("bytes")),
        left_out=_number(found.get("left_out")),
        whole=not part and not found.get("incomplete"),
        leaves=_leaves(path),
        uploaded=_word(path, UPLOADED),
        upload_failed=_word(path, UPLOAD_FAILED) or _cut_off(path),
    )


def read_manifest(path: str) -> dict[str, Any] | None:
    """Return the manifest of the artifact at ``path``; None where there is none that can be read."""
    try:
        with open(os.path.join(path, MANIFEST), encoding="utf-8") as file:
            manifest = json.loads(file.read(_MANIFEST_BYTES))
    except (OSError, ValueError, RecursionError):
        return None
    return manifest if isinstance(manifest, dict) else None


def _number(value: object) -> int:
    return value if isinstance(value, int) and value >= 0 else 0


def _word(path: str, name: str) -> str:
    try:
        with open(os.path.join(path, name), encoding="utf-8", errors="replace") as file:
            return file.read(_KEY_CHARACTERS)
    except OSError:
        return ""


def _cut_off(path: str) -> str:
    return CUT_OFF if os.path.lexists(os.path.join(path, UPLOAD_FAILED)) else ""


def _leaves(path: str) -> float:
    try:
        return float(_word(path, LEAVING) or 0)
    except ValueError:
        return 0.0


def room(settings: StoreSettings) -> tuple[str, int]:
    """Return why nothing can be saved (a code of workspace/request.py, or nothing), and how many bytes could be."""
    folder = settings.folder
    while not os.path.isdir(folder) and folder != "/":
        folder = os.path.dirname(folder)
    try:
        space = os.statvfs(folder)
    except OSError:
        return "unreadable", 0
    if not os.access(folder, os.W_OK | os.X_OK):
        return "not_writable", 0
    return "", max(0, disk_reserve.room(space))


# --- how long it stays


def due(found: Sequence[Artifact], settings: StoreSettings, now: float) -> list[Artifact]:
    """Return what is older than the store keeps, and the oldest of what is more than it keeps; never the newest."""
    older = [one for one in found[:-1] if now - _age_start(one) > settings.days * 86_400]
    kept = [one for one in found if one not in older]
    size = sum(one.bytes for one in kept)
    for one in kept[:-1]:
        if size <= settings.maximum_bytes:
            break
        older.append(one)
        size -= one.bytes
    return sorted(older, key=lambda one: one.name)


def _age_start(one: Artifact) -> float:
    try:
        return time.mktime(time.strptime(one.saved, "%Y%m%d-%H%M%S"))
    except (ValueError, OverflowError):
        try:
            return os.stat(one.path).st_mtime
        except OSError:
            return time.time()


def retain(settings: StoreSettings, now: float, *, tells: bool) -> list[Artifact]:
    """Drop what is due and was told of in time. With ``tells`` mark the rest of what is due; return it, to be told of.

    What is due no more (the store keeps more now) loses its mark. Raises OSError where the store can't be read.
    """
    found = artifacts(settings.folder)
    leaving = due(found, settings, now)
    told = []
    for one in found:
        mark = os.path.join(one.path, LEAVING)
        if one not in leaving:
            if one.leaves:
                with contextlib.suppress(OSError):
                    os.unlink(mark)
        elif not one.leaves and tells:
            with contextlib.suppress(OSError):  # it can't be marked, so that it is not dropped either
                write_word(one.path, LEAVING, str(int(now + GRACE_SECONDS)))
                told.append(one)
        elif 0 < one.leaves <= now:
            drop(one)
    return told


def drop(one: Artifact) -> None:
    """Delete an artifact. Raises OSError where a part of it stays."""
    import shutil  # noqa: PLC0415 - not before a sandbox starts

    shutil.rmtree(one.path)


def write_word(path: str, name: str, text: str) -> None:
    """Write a small file of an artifact. Raises OSError."""
    with open(os.path.join(path, name), "w", encoding="utf-8") as file:
        file.write(text)


def typed(path: str, manifest: Mapping[str, Any]) -> str:
    """Return the path of a saved file as a restore takes it: of the notebook's folder from there, else in full."""
    for place in manifest.get("folders") or ():
        if path.startswith(f"{place.get('place')}/") and place.get("name") != "workspace":
            return f"{place.get('path')}/{path.removeprefix(str(place.get('place')) + '/')}"
    return path.removeprefix("files/")


# --- who was told


def leave_word(path: str, key: str) -> None:
    """Note in the saved folder ``path`` that nobody was told of it; :func:`open_words` finds it by ``key``."""
    with contextlib.suppress(OSError):  # the files are saved all the same, and the log says where
        write_word(path, _UNTOLD, key)


def word_was_given(path: str) -> None:
    """Note that the person was told of the saved folder ``path``."""
    with contextlib.suppress(OSError):
        os.unlink(os.path.join(path, _UNTOLD))


def word_is_open(path: str) -> bool:
    """Tell whether nobody was told of the saved folder ``path``."""
    return bool(path) and os.path.exists(os.path.join(path, _UNTOLD))


def open_words(store: str, key: str) -> list[tuple[str, int, int]]:
    """Return (path, number of files, number left out) of the folders that nobody was told of under ``key``."""
    found = []
    try:
        newest = sorted(name for name in os.listdir(store) if not name.startswith(PART))[-_LOOKED_AT:]
    except OSError:
        return []
    for name in newest:
        path = os.path.join(store, name)
        mark = os.path.join(path, _UNTOLD)
        try:
            with open(mark, encoding="utf-8") as file:
                if file.read(_KEY_CHARACTERS) != key:
                    continue
        except (OSError, ValueError):
            continue  # none of ours, or no longer whole
        manifest = read_manifest(path)
        if manifest is not None:
            found.append((path, _number(manifest.get("files")), _number(manifest.get("left_out"))))
    return found
