"""What is covered in homes, with real folders and links."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sentinel_kernel.supervisor import home_entries, showing
from sentinel_kernel.supervisor.home_entries import covered_at_start, covered_below, secrets_left
from sentinel_kernel.supervisor.mount_layers import Task

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def test_what_the_interpreter_is_found_by_stays(tmp_path: Path) -> None:
    home = tmp_path / "ada"
    python = home / ".local" / "share" / "uv" / "python" / "cpython-3.12.1"
    for folder in (python / "bin", home / ".ssh", home / ".cache" / "hub", home / ".local" / "bin"):
        folder.mkdir(parents=True)
    (home / ".bashrc").touch()
    (python.parent / "cpython-3.12").symlink_to(python.name)
    (python.parent / "cpython-3.11").mkdir()
    (home / ".pythons").symlink_to(python.parent)
    (home / ".keys").symlink_to(home / ".ssh")
    covered = covered_at_start(str(home), [], (str(home), str(python), "/usr"))[0]
    assert sorted(path.removeprefix(f"{home}/") for path in covered) == [
        ".bashrc",
        ".cache",
        ".keys",
        ".local/bin",
        ".local/share/uv/python/cpython-3.11",
        ".ssh",
    ]


def test_a_folder_that_is_no_home_shows_all_and_its_secrets_are_named(tmp_path: Path) -> None:
    project = tmp_path / "project"
    (project / ".git").mkdir(parents=True)
    (project / ".env").touch()
    (project / "keys").mkdir()
    (project / "keys" / "server.key").touch()
    (project / "old" / "home").mkdir(parents=True)
    (project / "old" / "home" / ".bashrc").touch()
    (project / "old" / "home" / ".token").touch()
    assert covered_at_start(str(project), [], (str(project),)) == ([], [])
    covered, whole = covered_below(str(project))
    assert sorted(covered) == [f"{project}/old/home/{name}" for name in (".bashrc", ".token")]
    assert whole
    assert secrets_left(str(project), covered) == [".env", "keys/server.key"]


def test_homes_behind_any_number_of_files_are_covered(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    for number in range(1500):
        (data / f"{number}.csv").touch()
    for number in range(300):
        (data / f"user{number}").mkdir()
        (data / f"user{number}" / ".bashrc").touch()
    covered, cut = covered_at_start(str(tmp_path), [str(data)], ())
    assert (len(covered), cut) == (300, [])


def test_a_folder_with_more_than_is_looked_at_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small, large, slow = (tmp_path / name for name in ("small", "large", "slow"))
    for folder, count in ((small, 5), (large, 6), (slow, 1)):
        for number in range(count):
            (folder / f"user{number}" / ".ssh").mkdir(parents=True)
        for number in range(9):
            (folder / f"{number}.csv").touch()
    monkeypatch.setattr(home_entries, "_MOST_INNER", 5)
    covered, cut = covered_at_start(str(tmp_path), [str(small), str(large)], ())
    assert (len(covered), cut) == (10, [str(large)])
    monkeypatch.setattr(home_entries, "_SECONDS", -1.0)
    assert covered_at_start(str(tmp_path), [str(slow)], ()) == ([], [str(slow)])
    assert covered_at_start(str(tmp_path), [str(tmp_path / "gone")], ()) == ([], [str(tmp_path / "gone")])


def test_the_start_and_a_later_look_take_the_same_folders_for_homes(tmp_path: Path) -> None:
    kinds = {
        "settings": (".config", ".cache"),
        "programs": (".local", ".config", "notes.txt"),
        "shell": (".zshrc",),
        "project": (".cache", ".git"),
        "data": ("a.csv",),
    }
    for name, entries in kinds.items():
        for entry in entries:
            (tmp_path / name / entry).mkdir(parents=True)
    expected = {
        f"{tmp_path}/settings/.config",
        f"{tmp_path}/settings/.cache",
        f"{tmp_path}/programs/.local",
        f"{tmp_path}/programs/.config",
        f"{tmp_path}/shell/.zshrc",
    }
    at_start, cut = covered_at_start("/usr", [str(tmp_path)], ())
    later, whole = covered_below(str(tmp_path))
    assert set(at_start) == set(later) == expected
    assert (cut, whole) == ([], True)
    itself, _ = covered_at_start(str(tmp_path / "settings"), [], ())
    assert len(itself) == 2


def test_a_look_that_stopped_in_a_folder_of_files_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(5):
        (tmp_path / f"{number}.csv").touch()
    assert covered_below(str(tmp_path)) == ([], True)  # positive control
    monkeypatch.setattr(home_entries, "_ENTRIES", 4)
    assert covered_below(str(tmp_path)) == ([], False)


def test_a_folder_that_may_be_written_is_whole_only_where_both_looks_were(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deep = tmp_path / "data" / "a" / "b" / "c" / "d" / "e" / "f"
    deep.mkdir(parents=True)

    def told(mode: str) -> object:
        task = Task(kind="look", path=str(tmp_path / "data"), mode=mode, work_folders=str(tmp_path))
        return showing._look(task)[0]["looked_through"]

    assert (told("ro"), told("rw")) == (False, False)
    deep.rmdir()
    deep.parent.rmdir()
    assert (told("ro"), told("rw")) == (True, True)  # positive control
    monkeypatch.setattr(showing, "_LOOKED_AT", 1)
    assert (told("ro"), told("rw")) == (True, False)
