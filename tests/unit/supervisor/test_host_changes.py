"""The overlay of an unchanged folder is left as it is, and of any other it looks again."""

from __future__ import annotations

import os
import select
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from sentinel_kernel.supervisor import host_changes
from sentinel_kernel.supervisor.host_changes import HostChanges

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from sentinel_kernel.supervisor.current import Current

SECONDS = 60


class Watched:
    """A folder with one below it, and who watches them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "d").mkdir(parents=True)
        (folder / "d/f").write_text("old")
        self.lower = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        held = SimpleNamespace(folders=[SimpleNamespace(lower=self.lower)])
        self.current = cast("Current", SimpleNamespace(sandbox=SimpleNamespace(held=held)))
        self.changes = HostChanges()
        self.changes.sandbox_ready(self.current, 1)

    def set(self) -> None:
        """Have the watches set, in a pause after a cell."""
        self.changes.end_cell({})
        due = self.changes.due_seconds()
        assert due is not None
        select.select([], [], [], due)
        self.changes.catch_up()
        ready = select.select(self.changes.descriptors(), [], [], SECONDS)[0]
        assert ready
        self.changes.serve(dict.fromkeys(ready, select.POLLIN))

    @property
    def unchanged(self) -> bool:
        return self.changes.unchanged(self.current)


@pytest.fixture
def watched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Watched]:
    monkeypatch.setattr(host_changes, "_PAUSE_SECONDS", 0.001)
    monkeypatch.setattr(host_changes, "_AGAIN_SECONDS", 0.0)
    made = Watched(tmp_path / "work")
    yield made
    made.changes.close()
    os.close(made.lower)


def _replace(folder: Path) -> None:
    (folder / "d/new").write_text("new")
    (folder / "d/new").rename(folder / "d/f")


CHANGES: dict[str, Callable[[Path], Any]] = {
    "a file that came": lambda folder: (folder / "d/g").write_text("x"),
    "a file that went": lambda folder: (folder / "d/f").unlink(),
    "a file that took another's place": _replace,
    "a file that was written over": lambda folder: (folder / "d/f").write_text("other"),
    "a file that may be read no more": lambda folder: (folder / "d/f").chmod(0),
    "a folder that took another name": lambda folder: (folder / "d").rename(folder / "e"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_every_change_has_the_overlay_look_again_once(watched: Watched, change: str) -> None:
    assert not watched.unchanged  # nobody knows
    watched.set()
    assert not watched.unchanged  # it may have changed before
    assert watched.unchanged
    assert watched.unchanged
    CHANGES[change](watched.folder)
    assert not watched.unchanged
    if "folder" not in change:
        assert watched.unchanged


def test_a_new_folder_is_watched_once_the_watches_are_set_again(watched: Watched) -> None:
    watched.set()
    assert not watched.unchanged
    (watched.folder / "n").mkdir()
    assert not watched.unchanged
    assert not watched.unchanged  # what comes into it is not told of yet
    watched.set()
    assert not watched.unchanged
    assert watched.unchanged
    (watched.folder / "n/f").write_text("x")
    assert not watched.unchanged


def test_another_sandbox_is_not_taken_for_the_one_before(watched: Watched) -> None:
    watched.set()
    assert not watched.unchanged
    other = cast("Current", SimpleNamespace(sandbox=watched.current.sandbox))
    assert not watched.changes.unchanged(other)
    watched.changes.sandbox_ready(other, 2)
    assert not watched.changes.unchanged(other)
    assert not watched.unchanged


def test_more_folders_than_are_watched_are_looked_at_each_time(
    watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host_changes, "_MOST_FOLDERS", 1)
    watched.set()
    assert not watched.unchanged
    assert not watched.unchanged
    watched.changes.end_cell({})
    assert watched.changes.due_seconds() is None  # nor is it tried again


def test_what_failed_for_a_sandbox_that_has_gone_says_nothing_of_the_next(
    watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(host_changes, "_every_folder", lambda *_: False)
        watched.changes.end_cell({})
        due = watched.changes.due_seconds()
        assert due is not None
        select.select([], [], [], due)
        watched.changes.catch_up()
        watched.changes.sandbox_gone({})
        watched.changes.sandbox_ready(watched.current, 2)
        ready = select.select(watched.changes.descriptors(), [], [], SECONDS)[0]
        watched.changes.serve(dict.fromkeys(ready, select.POLLIN))
    watched.set()
    assert not watched.unchanged
    assert watched.unchanged
