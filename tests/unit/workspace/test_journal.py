"""The undo journal: which cell changed what, kept within a bound, and read again by the next process."""

from __future__ import annotations

import contextlib
import errno
import os
from typing import TYPE_CHECKING

import pytest

from sentinel_kernel.workspace import journal as module
from sentinel_kernel.workspace import tracked
from sentinel_kernel.workspace.change import Change
from sentinel_kernel.workspace.journal import Journal
from sentinel_kernel.workspace.layer import Layer
from sentinel_kernel.workspace.marks import key_of
from sentinel_kernel.workspace.person_commit import begin
from sentinel_kernel.workspace.undoing import undo

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class Held:
    """An upper folder, and a journal of it."""

    def __init__(self, folder: Path, undo: contextlib.ExitStack) -> None:
        self.upper = folder / "upper"
        self.history = folder / "history"
        descriptors = []
        for path in (self.upper, self.history):
            path.mkdir()
            descriptors.append(os.open(path, os.O_RDONLY | os.O_DIRECTORY))
            undo.callback(os.close, descriptors[-1])
        self.layers = {"workspace": Layer("workspace", "/w", descriptors[0], -1, -1)}
        self._history = descriptors[1]
        self.journal = Journal(self._history, None)

    def again(self, stamp: int = 0) -> None:
        """Let another process read the journal, which was told of ``stamp``."""
        self.journal = Journal(self._history, None, stamp)

    def cell(self, name: str, **files: str) -> bool:
        """Let a cell write files; tell whether anything was noted."""
        for file, text in files.items():
            (self.upper / file).write_text(text)
        now = {}
        for path in self.upper.iterdir():
            key = key_of(path.stat())
            change = Change(path.name, "workspace", "new", size=key[1], cell_key=key)
            now["workspace", path.name] = change
        noted = self.journal.note(name, now)
        self.journal.follow(now, self.layers)
        return noted is not None

    def former(self, step: int, path: str = "a") -> str:
        """Return the former version of a file that a step kept."""
        before = next(entry for entry in self.journal.steps[step].entries if entry.path == path).before
        assert before is not None
        with open(self.journal.open_version(before)) as file:
            return file.read()


@pytest.fixture
def held(tmp_path: Path) -> Iterator[Held]:
    """Return an empty one."""
    with contextlib.ExitStack() as undo:
        yield Held(tmp_path, undo)


def test_each_cell_has_its_step_with_what_was_before(held: Held) -> None:
    assert held.cell("one", a="first")
    assert not held.cell("idle")
    assert held.cell("two", a="second version", b="x")
    assert [step.cell for step in held.journal.steps] == ["one", "two"]
    assert held.journal.steps[0].entries[0].before is None
    assert held.former(1) == "first"
    held.again()  # as after a kill
    assert [step.cell for step in held.journal.steps] == ["one", "two"]
    assert held.former(1) == "first"
    assert not held.cell("idle")


def test_a_step_without_a_cell_is_a_commit_only_where_it_is_a_persons(held: Held) -> None:
    assert held.cell("", a="of a cell without a number", b="x")
    begin(held.journal).entries += held.journal.steps[-1].entries
    for entry in held.journal.steps[0].entries:
        entry.committed = (1, 1, 1, 1)
    assert [step.is_commit for step in held.journal.steps] == [False, True]
    held.journal.write()
    held.again()
    assert [step.is_commit for step in held.journal.steps] == [False, True]


def test_what_was_removed_again_is_a_step_too(held: Held) -> None:
    held.cell("one", a="first")
    (held.upper / "a").unlink()
    assert held.cell("two")
    assert held.former(1) == "first"


def test_the_person_has_dealt_with_what_is_forgotten(held: Held) -> None:
    held.cell("one", a="1", b="2")
    held.journal.forget([("workspace", "a")])
    assert [entry.path for entry in held.journal.steps[0].entries] == ["b"]
    held.journal.forget([("workspace", "b")])
    assert held.journal.steps == []


def test_steps_are_bounded_and_nothing_is_left_of_older_ones(
    held: Held, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_STEPS", 3)
    for number in range(8):
        held.cell(str(number), a="x" * (number + 1))
    assert [step.cell for step in held.journal.steps] == ["5", "6", "7"]
    versions = [name for name in os.listdir(held.history) if name.startswith("v")]
    assert len(versions) == 4  # what is there now, and what was before each of three


def test_what_is_too_large_to_be_kept_is_told(held: Held, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MOST_BYTES", 10)
    held.cell("one", a="x" * 100_000)
    held.cell("two", a="y")
    before = held.journal.steps[-1].entries[0].before
    assert before is not None
    assert (before.version, held.journal.incomplete) == ("", True)
    with pytest.raises(FileNotFoundError):
        held.journal.open_version(before)


@pytest.mark.parametrize("cell", ["two", ""])  # "": nobody knows which
def test_what_may_be_the_last_copy_of_what_was_too_large_is_not_taken_back(
    held: Held, monkeypatch: pytest.MonkeyPatch, cell: str
) -> None:
    monkeypatch.setattr(module, "_MOST_BYTES", 0)
    held.cell("one", a="too large")
    (held.upper / "a").rename(held.upper / "b")
    held.cell(cell)
    key = key_of((held.upper / "b").stat())
    now = {("workspace", "b"): Change("b", "workspace", "new", size=key[1], cell_key=key)}
    outcome = undo(held.layers, held.journal, now)
    assert {path: code for path, _, code in outcome.failed} == {"a": "former_gone", "b": "only_copy"}
    assert (held.upper / "b").read_text() == "too large"


@pytest.mark.parametrize("left", ['{"seen": 3}', "[]", "", "[" * 90_000, '{"lost":true,"steps":[]}'])
def test_what_is_held_is_no_cells_doing_where_the_journal_can_not_be_read(held: Held, left: str) -> None:
    held.cell("one", a="1")
    (held.history / "journal.json").write_text(left)
    held.again()
    assert (held.journal.steps, held.journal.lost, held.journal.incomplete) == ([], True, True)
    assert not held.cell("two", b="2")  # an undo of it would remove what an earlier cell wrote
    assert not held.journal.lost
    assert held.cell("three", b="3")
    assert [entry.path for step in held.journal.steps for entry in step.entries] == ["b"]
    assert held.former(0, "b") == "2"


def test_a_journal_that_is_older_than_what_was_told_is_not_believed(held: Held) -> None:
    held.cell("one", a="1")
    stamp = held.journal.stamp
    held.again(stamp)
    assert [step.cell for step in held.journal.steps] == ["one"]  # control
    held.again(stamp + 1)
    assert (held.journal.steps, held.journal.lost) == ([], True)
    assert not held.cell("two", b="2")
    assert held.journal.stamp > stamp + 1
    held.again(held.journal.stamp)
    assert not held.journal.lost


def test_room_is_set_aside_and_what_can_not_be_written_is_tried_again(
    held: Held, monkeypatch: pytest.MonkeyPatch
) -> None:
    held.cell("one", a="1")
    reserve = (held.history / "reserve").stat()
    assert reserve.st_blocks * 512 >= 2 * (held.history / "journal.json").stat().st_size
    taken: list[bool] = []

    def full(_from: str, _to: str, **_folders: int) -> None:
        taken.append((held.history / "reserve").exists())
        raise OSError(errno.ENOSPC, "full")

    with monkeypatch.context() as now:
        now.setattr(os, "rename", full)
        held.cell("two", b="2")
    assert taken == [True, False]  # with what was set aside, at the second time
    assert held.journal.wanted_bytes > 0
    assert held.journal.write()
    assert held.journal.wanted_bytes == 0
    held.again(held.journal.stamp)
    assert [step.cell for step in held.journal.steps] == ["one", "two"]


def test_all_steps_together_are_bounded(held: Held, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_ENTRIES", 3)
    for number in range(4):
        held.cell(str(number), a="x" * (number + 1), b="x" * (number + 1))
    assert [step.cell for step in held.journal.steps] == ["3"]
    assert held.journal.incomplete
    monkeypatch.setattr(module, "MOST_BYTES", 1600)
    held.cell("4", a="")
    held.again()
    assert [step.cell for step in held.journal.steps] == ["4"]
    monkeypatch.setattr(module, "MOST_BYTES", 1100)
    held.cell("5", a="y")
    held.again()
    assert (held.journal.steps, held.journal.lost) == ([], True)


def test_nothing_is_a_cells_doing_that_lies_beyond_what_is_kept_track_of(
    held: Held, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tracked, "MOST_PATHS", 2)
    held.cell("one", a="1", b="2")  # there may be more
    held.cell("two", c="3")
    assert [step.cell for step in held.journal.steps] == ["one"]


def test_what_is_kept_track_of_is_bounded_by_the_length_of_the_paths_too() -> None:
    found = tracked.Tracked()
    path = "x" * 4000
    most = tracked._MOST_CHARACTERS // len(path)
    assert all(found.take(Change(f"{number:04}{path[4:]}", "workspace", "new")) for number in range(most))
    assert not tracked.may_be_cut(found)
    assert not found.take(Change(path, "workspace", "new"))
    assert (len(found), tracked.may_be_cut(found)) == (most, True)
