"""The landlock rung's folders: whatever a sandbox puts into them, they are removed or given back, and nothing else."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from sentinel_kernel.linux.locks import try_lock_whole
from sentinel_kernel.supervisor import private_folder
from sentinel_kernel.supervisor.private_folder import make_private_folders, sweep_private_folders
from sentinel_kernel.supervisor.untrusted_trees import FOLDER, empty_folder, give_files

DEPTH = 3000
KERNEL, OWNER, STRANGER = 70001, 70002, 70003


def _nest(top: Path, depth: int = DEPTH, mode: int = 0o755) -> None:
    """Make so many folders in each other, with a file and a link out of them in the last."""
    here = os.open(top, FOLDER)
    for _ in range(depth):
        os.mkdir("d", 0o755, dir_fd=here)
        below = os.open("d", FOLDER, dir_fd=here)
        os.fchmod(here, mode)
        os.close(here)
        here = below
    os.close(os.open("file", os.O_CREAT | os.O_WRONLY, dir_fd=here))
    os.symlink("/etc/passwd", "link", dir_fd=here)
    os.close(here)


@pytest.fixture
def base(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder for temporary files, which TMPDIR leads to through a link."""
    folder = tmp_path / "really"
    folder.mkdir()
    (tmp_path / "link").symlink_to(folder)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "link"))
    monkeypatch.setattr(private_folder, "_LONGEST_BASE", len(str(folder)))
    return folder


def test_where_sockets_would_have_too_long_a_name_it_lies_elsewhere(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(private_folder, "_LONGEST_BASE", len(str(base)) - 1)
    monkeypatch.setattr(private_folder, "_SHORT_BASE", str(tmp_path / "short"))
    (tmp_path / "short").mkdir()
    made = _make(tmp_path)
    assert Path(made.path).parent == tmp_path / "short"
    made.close()
    sweep_private_folders()
    assert list((tmp_path / "short").iterdir()) == []
    # 2**22 processes and ids of 32 bits are as many as there are.
    longest = f"/sentinel-{2**32 - 1}-{2**22}-abcdefgh/tmp/o-01234567"
    assert 54 + len(longest) <= 107


def _make(tmp_path: Path, user: int | None = None) -> Any:
    workspace = tmp_path / "work"
    workspace.mkdir(exist_ok=True)
    number = os.geteuid() if user is None else user
    identity: Any = SimpleNamespace(host_uid=number, host_gid=number)
    return make_private_folders(identity, str(workspace), str(tmp_path / "package"), writes=True)


def _open_count() -> int:
    return len(os.listdir("/proc/self/fd"))


def test_a_tree_of_any_depth_is_removed(base: Path, tmp_path: Path) -> None:
    before = _open_count()
    made = _make(tmp_path)
    assert Path(made.path).parent == base  # through no link
    _nest(Path(made.home))
    Path(made.tmp, "closed").mkdir(0o700)
    _nest(Path(made.tmp, "closed"), 3, 0)
    for number in range(2500):
        Path(made.tmp, str(number)).touch()
    made.remove()
    assert list(base.iterdir()) == []
    assert not (tmp_path / "work" / "sentinel-output").exists()
    assert _open_count() == before
    assert Path("/etc/passwd").exists()


def test_what_cannot_be_removed_is_told_and_ends_nothing(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    made = _make(tmp_path)
    Path(made.tmp, "stays").touch()
    with monkeypatch.context() as patched:
        patched.setattr(os, "unlink", lambda *_, **__: os.mkdir("/proc/none"))
        made.remove()
    assert "could not be removed" in capfd.readouterr().err
    for folder in base.iterdir():
        shutil.rmtree(folder)


@pytest.mark.requires("root")
def test_only_the_sandboxs_own_files_are_given_back(tmp_path: Path) -> None:
    top = tmp_path / "output"
    top.mkdir()
    _nest(top)
    victim = tmp_path / "victim"
    victim.touch()
    os.chown(victim, STRANGER, STRANGER)
    os.link(victim, top / "d" / "linked")
    (top / "plain").touch()
    (top / "to_victim").symlink_to(victim)
    folder = os.open(top, FOLDER)
    for name in (".", "d", "d/d", "plain", "to_victim"):
        os.chown(name, KERNEL, KERNEL, dir_fd=folder, follow_symlinks=False)
    deepest = os.path.join("d", *["d"] * 1500)
    os.chown(deepest, KERNEL, KERNEL, dir_fd=folder)
    before = _open_count()
    undone = give_files(folder, KERNEL, (OWNER, OWNER))
    assert (undone.count, _open_count()) == (0, before)
    for name in (".", "d", "d/d", "plain", "to_victim", deepest):
        assert os.stat(name, dir_fd=folder, follow_symlinks=False).st_uid == OWNER
    assert os.stat("d/d/d", dir_fd=folder).st_uid == os.geteuid()
    assert victim.stat().st_uid == STRANGER
    assert empty_folder(folder).count == 0
    os.close(folder)
    assert list(top.iterdir()) == []


@pytest.mark.requires("root")
@pytest.mark.usefixtures("base")
def test_nothing_that_lay_there_before_is_given_to_a_sandbox(tmp_path: Path) -> None:
    output = tmp_path / "work" / "sentinel-output"
    output.mkdir(parents=True)
    os.chown(tmp_path / "work", OWNER, OWNER)
    os.chown(output, OWNER, OWNER)
    secret = tmp_path / "secret"
    secret.write_text("secret")
    os.link(secret, output / "linked")
    _nest(output, 5)
    made = _make(tmp_path, KERNEL)
    assert made.output == str(output)
    assert output.stat().st_uid == KERNEL
    assert secret.stat().st_uid == (output / "d").stat().st_uid == os.geteuid()
    made.remove()
    assert output.stat().st_uid == OWNER
    assert secret.stat().st_uid == os.geteuid()


@pytest.mark.requires("root")
@pytest.mark.usefixtures("base")
def test_a_folder_of_somebody_else_is_not_taken(tmp_path: Path) -> None:
    output = tmp_path / "work" / "sentinel-output"
    output.mkdir(parents=True)
    os.chown(output, STRANGER, STRANGER)
    made = _make(tmp_path, KERNEL)
    assert made.output == f"{output}-2"
    made.undo()
    assert output.stat().st_uid == STRANGER
    assert not Path(made.output).exists()


def test_what_killed_sandboxes_left_is_swept_and_nothing_that_is_in_use(base: Path, tmp_path: Path) -> None:
    used, left = _make(tmp_path), _make(tmp_path)
    _nest(Path(left.tmp), 50)
    left.close()
    (base / "sentinel-notes").mkdir()
    (base / "sentinel-1-2-abcdefgh").symlink_to(tmp_path)
    sweep_private_folders()
    assert sorted(path.name for path in base.iterdir()) == sorted(
        ["sentinel-notes", "sentinel-1-2-abcdefgh", os.path.basename(used.path)]
    )
    used.remove()


def test_a_folder_that_a_sweep_takes_before_it_is_held_is_made_again(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    swept: list[str] = []

    def lock(folder: int) -> bool:
        if not swept:
            swept.extend(os.listdir(base))
            sweep_private_folders()
        return try_lock_whole(folder)

    monkeypatch.setattr(private_folder, "try_lock_whole", lock)
    made = _make(tmp_path)
    assert len(swept) == 1
    assert not (base / swept[0]).exists()
    assert Path(made.tmp).is_dir()
    made.undo()
