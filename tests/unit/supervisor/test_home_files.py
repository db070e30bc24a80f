"""Which files of a sandbox's own folders are told of: those of cells, by folder, and of /tmp itself results alone."""

from __future__ import annotations

import os
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from sentinel_kernel.supervisor import home_files
from sentinel_kernel.supervisor.home_files import HomeFiles

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


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

    def end_cell(self) -> list[dict[str, Any]]:
        self.told.clear()
        self.files.end_cell({})
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
