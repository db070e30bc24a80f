"""A file gets a free name on file systems without such a rename, and without second names too."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING, Any

import pytest

from sentinel_kernel.linux import renaming

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(params=["renameat2", "link", "neither"])
def folder(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """Return a folder of a file system that has as much; ``neither`` has a plain rename alone."""

    def refuse(code: int) -> Any:
        def refused(*_: object, **__: object) -> None:
            raise OSError(code, os.strerror(code))

        return refused

    if request.param != "renameat2":
        monkeypatch.setattr(renaming, "_renameat2", refuse(errno.EINVAL))
    if request.param == "neither":
        monkeypatch.setattr(renaming.os, "link", refuse(errno.EPERM))
    (tmp_path / "made").write_text("new")
    (tmp_path / "taken").write_text("theirs")
    descriptor = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    yield descriptor
    os.close(descriptor)


def test_a_name_is_given_where_it_is_free_alone(folder: int, tmp_path: Path) -> None:
    with pytest.raises(FileExistsError):
        renaming.rename_to_free_name(folder, "made", folder, "taken")
    assert (tmp_path / "taken").read_text() == "theirs"
    renaming.rename_to_free_name(folder, "made", folder, "free")
    assert sorted(os.listdir(tmp_path)) == ["free", "taken"]
    assert (tmp_path / "free").read_text() == "new"


def test_a_rename_that_fails_leaves_no_empty_file(
    folder: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    if "neither" not in request.node.name:
        return  # nothing is put there first

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(renaming.os, "rename", full)
    with pytest.raises(OSError, match="No space"):
        renaming.rename_to_free_name(folder, "made", folder, "free")
    assert sorted(os.listdir(tmp_path)) == ["made", "taken"]
