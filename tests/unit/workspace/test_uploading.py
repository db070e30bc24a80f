"""Saved files are copied to a URL by a program of its own, and where that can't be somebody is told why."""

from __future__ import annotations

import errno
import os
import resource
import sys
import types
from typing import TYPE_CHECKING, Any

import pytest
from lacking import need_module
from waiting import wait_until

from sentinel_kernel import cli, uploads
from sentinel_kernel.kernel.settings import read_settings
from sentinel_kernel.kernel.words import about_places, about_settings
from sentinel_kernel.workspace import store
from sentinel_kernel.workspace.store import MANIFEST, UPLOAD_FAILED, UPLOADED, artifacts
from sentinel_kernel.workspace.uploading import obstacle, start_upload

if TYPE_CHECKING:
    from pathlib import Path

NAME = "20260101-000000-aaaaaa"


class Started:
    """The programs that were started, to be waited for: other tests' children are not taken for them."""

    def __init__(self) -> None:
        self._spawn = os.posix_spawn
        self._pids: list[int] = []

    def __call__(self, *arguments: Any, **words: Any) -> int:
        """Start one."""
        self._pids.append(self._spawn(*arguments, **words))
        return self._pids[-1]

    def wait(self) -> int:
        """Return the status that the last one ended with."""
        return os.waitpid(self._pids.pop(), 0)[1]


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> Started:
    made = Started()
    monkeypatch.setattr(os, "posix_spawn", made)
    return made


@pytest.fixture
def saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    need_module("fsspec")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    path = tmp_path / "sentinel-kernel" / "artifacts" / NAME
    (path / "files").mkdir(parents=True)
    (path / "files" / "a.csv").write_text("1")
    (path / MANIFEST).write_text('{"files": 1, "workspace": "/w"}')
    return path


def test_an_artifact_is_copied_by_a_program_that_outlives_who_started_it(
    saved: Path, tmp_path: Path, started: Started, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SENTINEL_ARTIFACTS", f"file://{tmp_path}/there")
    start_upload(str(saved))
    wait_until((saved / UPLOADED).exists, "the copy", 60)
    started.wait()
    assert (tmp_path / "there" / NAME / "files" / "a.csv").read_text() == "1"
    (one,) = artifacts(str(saved.parent))
    assert (one.uploaded, one.upload_failed) == (f"file://{tmp_path}/there/{NAME}", "")


def test_a_copy_that_ends_before_its_end_leaves_a_word(
    saved: Path, started: Started, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/true")
    start_upload(str(saved))
    started.wait()
    assert "cut off" in artifacts(str(saved.parent))[0].upload_failed


def test_a_copy_is_started_though_the_disk_has_no_room_for_a_word(
    saved: Path, started: Started, monkeypatch: pytest.MonkeyPatch
) -> None:
    word = saved / UPLOAD_FAILED
    word.symlink_to("/dev/full")
    monkeypatch.setattr(sys, "executable", "/bin/true")
    start_upload(str(saved))
    assert started.wait() == 0
    monkeypatch.setattr(sys, "executable", str(saved / "absent"))
    start_upload(str(saved))
    word.unlink()
    assert artifacts(str(saved.parent))[0].upload_failed == ""  # positive control
    word.touch()  # what is left of a word that there is no room for
    assert "cut off" in artifacts(str(saved.parent))[0].upload_failed


@pytest.mark.parametrize("full", ["for another file", "for a word"])
def test_a_whole_copy_is_one_though_the_disk_has_no_room_for_a_word(
    saved: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    full: str,
) -> None:
    word, url = saved / UPLOAD_FAILED, f"file://{tmp_path}/there"
    monkeypatch.setenv("SENTINEL_ARTIFACTS", url)

    def no_room(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    if full == "for a word":
        word.symlink_to("/dev/full")
    else:
        word.write_text(
            "cut off, in more words than the URL of where it was copied to has, so that some may be left"
        )
    with monkeypatch.context() as now:
        now.setattr(store, "write_word", no_room)
        assert cli.main(["artifacts", "upload", NAME]) == 0
    shown = capsys.readouterr()
    assert f"{NAME} was copied to {url}/{NAME}." in shown.out
    assert ("could not be noted" in shown.err) == (full == "for a word")
    assert (tmp_path / "there" / NAME / "files" / "a.csv").read_text() == "1"
    (one,) = artifacts(str(saved.parent))
    assert (one.uploaded, one.upload_failed) == ("" if full == "for a word" else f"{url}/{NAME}", "")
    word.unlink(missing_ok=True)
    assert cli.main(["artifacts", "upload", NAME]) == 0  # positive control, and without a word of before
    assert artifacts(str(saved.parent))[0].uploaded == f"{url}/{NAME}"


def test_who_copies_has_the_memory_that_who_started_it_does_without(
    saved: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[tuple[int, int]] = []

    def upload(*_: object) -> str:
        found.append(resource.getrlimit(resource.RLIMIT_DATA))
        return "there"

    monkeypatch.setattr(uploads, "upload", upload)
    monkeypatch.setenv("SENTINEL_ARTIFACTS", f"file://{tmp_path}/there")
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (1 << 40, hard))  # less than all, and enough for this test
    try:
        assert cli.main(["artifacts", "upload", saved.name]) == 0
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))
    assert found == [(hard, hard)]


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("foo://bucket/x", "does not know (foo://)"),
        ("simplecache::foo://user:secret@bucket/x", "does not know (foo://)"),
        ("s3://bucket/x", "takes s3fs, not installed"),
        ("sftp://user:secret@host/x", "takes paramiko, not installed"),
    ],
)
@pytest.mark.usefixtures("saved")
def test_the_first_cell_and_the_list_say_why_nothing_can_be_copied(
    url: str, why: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for module in ("s3fs", "paramiko"):
        monkeypatch.setitem(sys.modules, module, None)
    monkeypatch.delitem(sys.modules, "fsspec.implementations.sftp", raising=False)
    monkeypatch.setenv("SENTINEL_ARTIFACTS", url)
    assert (
        about_settings(read_settings(["-f", "/k.json"], os.environ, "/")) == []
    )  # nothing is imported at a start
    (told,) = about_places()
    assert why in told.message("en")
    assert "secret" not in told.message("en") + told.message("zh")
    assert cli.main(["artifacts", "list"]) == 0
    shown = capsys.readouterr()
    assert NAME in shown.out
    assert why in shown.err


def test_without_fsspec_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fsspec.registry", None)
    told = obstacle("s3://bucket")
    assert told is not None
    assert "sentinel-jupyter-kernel[artifacts]" in told[0]


@pytest.mark.parametrize(
    "raised", ["RuntimeError('half \\x1b installed')", "SystemExit('half \\x1b installed')"]
)
@pytest.mark.parametrize("module", ["registry", "paramiko"])
@pytest.mark.usefixtures("saved")
def test_a_broken_package_is_told_as_what_keeps_files_from_being_copied(
    module: str,
    raised: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    import fsspec.registry

    (tmp_path / f"{module}.py").write_text(f"raise {raised}")
    if module == "registry":
        monkeypatch.setattr(fsspec, "__path__", [str(tmp_path), *fsspec.__path__])
        monkeypatch.delitem(sys.modules, "fsspec.registry")
    else:
        monkeypatch.syspath_prepend(tmp_path)
        monkeypatch.delitem(sys.modules, module, raising=False)
        monkeypatch.delitem(sys.modules, "fsspec.implementations.sftp", raising=False)
    monkeypatch.setenv("SENTINEL_ARTIFACTS", "sftp://user:secret@host/x")
    (told,) = about_places()
    for words in (told.message("en"), told.message("zh")):
        assert "half ? installed" in words
        assert "secret" not in words
    assert cli.main(["artifacts", "list"]) == 0
    assert "half ? installed" in capsys.readouterr().err


def test_a_module_without_a_specification_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    need_module("fsspec")
    monkeypatch.setitem(sys.modules, "s3fs", types.ModuleType("s3fs"))
    assert obstacle("s3://bucket") is None
