"""What is covered in homes, with real folders and links."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sentinel_kernel.supervisor.home_entries import covered_at_start, covered_below, secrets_left

if TYPE_CHECKING:
    from pathlib import Path


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
    covered = covered_at_start(str(home), [], (str(home), str(python), "/usr"))
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
    assert covered_at_start(str(project), [], (str(project),)) == []
    covered, whole = covered_below(str(project))
    assert sorted(covered) == [f"{project}/old/home/{name}" for name in (".bashrc", ".token")]
    assert whole
    assert secrets_left(str(project), covered) == [".env", "keys/server.key"]
