"""Which files of a sandbox's own folders are told of: those of cells, by folder, and of /tmp itself results alone."""

from __future__ import annotations

import os
import shutil
import time
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from waiting import wait_until

from sentinel_kernel.supervisor import home_files
from sentinel_kernel.supervisor.home_files import HomeFiles

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_COARSE = 5
"""CLOCK_REALTIME_COARSE of <linux/time.h>, which files' times are taken from: it goes on every few milliseconds."""


def _pass_time() -> None:
    """Return when files have other times than before."""
    before = time.clock_gettime(_COARSE)
    wait_until(lambda: time.clock_gettime(_COARSE) > before, "the clock of files' times has gone on")


class _Watched:
    """A home and what was told of it."""

    def __init__(self, home: Path, workspace: str) -> None:
        self.home = home
        self.told: list[dict[str, Any]] = []
        self.files = HomeFiles(lambda _name, fields: self.told.append(fields))
        plan = SimpleNamespace(home=str(home), workspace=workspace)
        self._descriptor = os.open(home, os.O_RDONLY | os.O_DIRECTORY)
        current: Any = SimpleNamespace(
            preparation=SimpleNamespace(plan=plan),
            sandbox=SimpleNamespace(pid=os.getpid(), held=SimpleNamespace(home=self._descriptor)),
        )
        self.files.sandbox_ready(current, 1)
        _pass_time()

    def end_cell(self) -> list[dict[str, Any]]:
        self.told.clear()
        self.files.end_cell({})
        _pass_time()
        return [{name: value for name, value in told.items() if name != "generation"} for told in self.told]

    def close(self) -> None:
        self.files.close()
        os.close(self._descriptor)


@pytest.fixture
def watched(tmp_path: Path) -> Iterator[_Watched]:
    """Return a home that held a file and a folder before."""
    (tmp_path / "proj/notebooks").mkdir(parents=True)
    (tmp_path / "before.csv").touch()
    watched = _Watched(tmp_path, str(tmp_path / "proj/notebooks"))
    yield watched
    watched.close()


def test_files_of_folders_that_cells_make_are_told_of_as_they_come(watched: _Watched) -> None:
    home = watched.home
    assert watched.end_cell() == []
    (home / "proj/results/deep").mkdir(parents=True)
    (home / "proj/results/deep/one.csv").touch()
    one = str(home / "proj/results/deep/one.csv")
    assert watched.end_cell() == [{"home": [one], "new": 1, "own": {"count": 1, "paths": [one]}}]
    assert watched.end_cell() == []
    (home / "proj/results/two.csv").touch()
    two = str(home / "proj/results/two.csv")
    assert watched.end_cell() == [{"home": [two], "new": 1, "own": {"count": 2, "paths": [two, one]}}]


def test_what_was_removed_is_not_there_any_more(watched: _Watched) -> None:
    folder = watched.home / "proj/results"
    folder.mkdir()
    (folder / "one.csv").touch()
    watched.end_cell()
    (folder / "one.csv").unlink()
    folder.rmdir()
    assert watched.end_cell() == [{"own": {"count": 0, "paths": []}}]
    folder.mkdir()
    (folder / "two.csv").touch()
    assert watched.end_cell()[0]["home"] == [str(folder / "two.csv")]


def test_a_folder_that_is_made_anew_is_looked_into(watched: _Watched) -> None:
    folder = watched.home / "results"
    one, two = folder / "one.csv", folder / "deep/two.csv"
    for path in (one, two):
        folder.mkdir()
        path.parent.mkdir(exist_ok=True)
        path.touch()
        assert watched.end_cell() == [
            {"home": [str(path)], "new": 1, "own": {"count": 1, "paths": [str(path)]}}
        ]
        shutil.rmtree(folder)


def test_what_was_moved_is_where_it_is_now(watched: _Watched) -> None:
    (watched.home / "first/deep").mkdir(parents=True)
    (watched.home / "first/deep/one.csv").touch()
    watched.end_cell()
    moved = watched.home / "second"
    (watched.home / "first").rename(moved)
    paths = [str(moved / "deep/one.csv")]
    assert watched.end_cell() == [{"home": paths, "new": 1, "own": {"count": 1, "paths": paths}}]
    (moved / "deep/two.csv").touch()
    assert watched.end_cell()[0]["home"] == [str(moved / "deep/two.csv")]


def test_a_folder_that_is_gone_takes_no_place(watched: _Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(home_files, "_MOST_WATCHED", 3)
    before = len(os.listdir("/proc/self/fd"))
    for number in range(5):
        folder = watched.home / f"folder{number}"
        folder.mkdir()
        assert watched.end_cell() == []
        (folder / "one.csv").touch()
        assert watched.end_cell()[0]["home"] == [str(folder / "one.csv")]
        (folder / "one.csv").unlink()
        assert watched.end_cell() == [{"own": {"count": 0, "paths": []}}]
        folder.rmdir()
    assert watched.end_cell() == []
    assert len(os.listdir("/proc/self/fd")) == before


def test_what_is_watched_and_told_is_bounded(watched: _Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(home_files, "_MOST_WATCHED", 4)
    for number in range(50):
        (watched.home / f"folder{number}").mkdir()
        (watched.home / f"file{number}").touch()
        (watched.home / f"folder{number}" / "inner").touch()
    before = len(os.listdir("/proc/self/fd"))
    (told,) = watched.end_cell()
    assert len(os.listdir("/proc/self/fd")) - before == 2
    assert told["new"] == told["own"]["count"] == 52
    assert len(told["home"]) == len(told["own"]["paths"]) == 20


@pytest.mark.parametrize(
    ("name", "is_folder", "counts"),
    [
        ("rivers.csv", False, True),
        ("results", True, True),
        ("tmpa8x2.csv", False, False),
        ("tmpa8x2", True, False),
        ("socket", False, False),
        ("matplotlib-8sx1", True, False),
        ("joblib_memmapping_folder_12_ab", True, False),
    ],
)
def test_of_tmp_itself_only_results_count(name: str, is_folder: bool, counts: bool) -> None:
    assert home_files._is_result(name, is_folder=is_folder) is counts
