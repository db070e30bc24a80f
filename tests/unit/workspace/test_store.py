"""The artifact store: settings, and that nothing is dropped before the person was told of it."""

from __future__ import annotations

import json
import os
import time
from typing import TYPE_CHECKING

import pytest

from sentinel_kernel.workspace import store
from sentinel_kernel.workspace.store import (
    GRACE_SECONDS,
    StoreSettings,
    artifacts,
    read_store_settings,
    retain,
)

if TYPE_CHECKING:
    from pathlib import Path

DAY = 86_400


def saved(folder: Path, name: str, size: int = 10) -> Path:
    """Make an artifact."""
    place = folder / name
    (place / "files").mkdir(parents=True)
    (place / "files" / "a").write_bytes(b"x" * size)
    manifest = {"workspace": "/w", "saved": name.rpartition("-")[0], "files": 1, "bytes": size, "left_out": 0}
    (place / "manifest.json").write_text(json.dumps(manifest))
    return place


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"HOME": "/h"}, StoreSettings("/h/.local/share/sentinel-kernel/artifacts")),
        ({"XDG_DATA_HOME": "/x"}, StoreSettings("/x/sentinel-kernel/artifacts")),
        ({"HOME": "/h", "SENTINEL_ARTIFACTS": "/a/../b"}, StoreSettings("/b")),
        (
            {"XDG_DATA_HOME": "/x", "SENTINEL_ARTIFACTS": "s3://b"},
            StoreSettings("/x/sentinel-kernel/artifacts", "s3://b"),
        ),
        (
            {"SENTINEL_ARTIFACTS": "/b", "SENTINEL_ARTIFACTS_BYTES": "2G"},
            StoreSettings("/b", maximum_bytes=2 << 30),
        ),
        ({"SENTINEL_ARTIFACTS": "/b", "SENTINEL_ARTIFACTS_DAYS": "5"}, StoreSettings("/b", days=5.0)),
    ],
)
def test_settings(environment: dict[str, str], expected: StoreSettings) -> None:
    assert read_store_settings(environment) == expected


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("SENTINEL_ARTIFACTS", "some/where"),
        ("SENTINEL_ARTIFACTS_DAYS", "some/where"),
        ("SENTINEL_ARTIFACTS_DAYS", "-5"),
        ("SENTINEL_ARTIFACTS_DAYS", "nan"),
        ("SENTINEL_ARTIFACTS_BYTES", "some/where"),
        ("SENTINEL_ARTIFACTS_BYTES", "-1"),
    ],
)
def test_a_word_that_is_none_is_told_and_never_another_setting(name: str, value: str) -> None:
    settings = read_store_settings({"HOME": "/h", name: value})
    ((english, chinese),) = settings.problems
    assert name in english
    assert name in chinese
    assert settings.folder == "/h/.local/share/sentinel-kernel/artifacts"
    assert (settings.days, settings.maximum_bytes) == (store.DAYS, store.BYTES)


def test_what_is_due_is_told_of_first_and_dropped_days_later(tmp_path: Path) -> None:
    old = saved(tmp_path, "20200101-000000-aaaaaa")
    new = saved(tmp_path, time.strftime("%Y%m%d-%H%M%S") + "-bbbbbb")
    settings = StoreSettings(str(tmp_path), days=30)
    now = time.time()
    assert retain(settings, now + 100 * DAY, tells=False) == []
    assert old.is_dir()  # nobody was told
    assert [one.name for one in retain(settings, now, tells=True)] == [old.name]
    assert old.is_dir()
    assert retain(settings, now + GRACE_SECONDS - 10, tells=True) == []
    assert old.is_dir()
    assert retain(settings, now + GRACE_SECONDS + 10, tells=False) == []
    assert (old.exists(), new.is_dir()) == (False, True)


def test_what_is_more_than_is_kept_goes_the_oldest_first_and_never_the_newest(tmp_path: Path) -> None:
    stamp = time.strftime("%Y%m%d-%H%M%S")
    names = [saved(tmp_path, f"{stamp}-{letter * 6}", 100).name for letter in "abc"]
    settings = StoreSettings(str(tmp_path), maximum_bytes=50)
    assert [one.name for one in retain(settings, time.time(), tells=True)] == names[:2]
    larger = StoreSettings(str(tmp_path), maximum_bytes=1000)
    assert retain(larger, time.time() + 2 * GRACE_SECONDS, tells=True) == []
    assert [one.leaves for one in artifacts(str(tmp_path))] == [0, 0, 0]  # due no more: the marks are gone


def test_what_was_not_written_to_its_end_is_listed_as_such(tmp_path: Path) -> None:
    saved(tmp_path, "20260101-000000-aaaaaa")
    os.rename(tmp_path / "20260101-000000-aaaaaa", tmp_path / ".part-20260101-000000-aaaaaa")
    assert [one.whole for one in artifacts(str(tmp_path))] == [False]


def test_there_is_room_in_a_store_that_is_not_there_yet(tmp_path: Path) -> None:
    why, free = store.room(StoreSettings(str(tmp_path / "not" / "yet")))
    assert (why, free > 0) == ("", True)
