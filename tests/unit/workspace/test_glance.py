"""A glance at upper layers tells of every change, and is none where there is too much to look at."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from sentinel_kernel.workspace import glance as glancing
from sentinel_kernel.workspace.glance import glance

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def layer(tmp_path: Path) -> Iterator[tuple[Path, int]]:
    (tmp_path / "d").mkdir()
    for name in ("a", "b", "d/c"):
        (tmp_path / name).write_text("old")
        os.utime(tmp_path / name, (1, 1))
    descriptor = os.open(tmp_path, os.O_PATH | os.O_DIRECTORY)
    yield tmp_path, descriptor
    os.close(descriptor)


def _write_over(folder: Path) -> None:
    with (folder / "d/c").open("r+") as file:
        file.write("new")


CHANGES = {
    "written over in place": _write_over,
    "made": lambda folder: (folder / "d/e").write_text(""),
    "deleted": lambda folder: (folder / "a").unlink(),
    "renamed": lambda folder: (folder / "a").rename(folder / "z"),
    "made a program": lambda folder: (folder / "a").chmod(0o755),
    "marked": lambda folder: os.setxattr(folder / "a", "user.overlay.x", b"y"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_every_change_is_seen(layer: tuple[Path, int], change: str) -> None:
    folder, descriptor = layer
    before = glance([descriptor])
    assert before is not None
    assert glance([descriptor]) == before
    CHANGES[change](folder)
    assert glance([descriptor]) != before


def test_too_many_files_are_no_glance(layer: tuple[Path, int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(glancing, "MOST_ENTRIES", 4)
    assert glance([layer[1]]) is not None
    monkeypatch.setattr(glancing, "MOST_ENTRIES", 3)
    assert glance([layer[1]]) is None
