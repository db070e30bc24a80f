"""What a client names to be run: what no file and no cell can be called is refused as such."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from sentinel_kernel.errors import SentinelError
from sentinel_kernel.mcp.notebook_document import read_cells

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


def _book(source: str) -> dict[str, Any]:
    return {"nbformat": 4, "cells": [{"cell_type": "code", "source": source}]}


@pytest.mark.parametrize("path", ["a\0.ipynb", "a\ud800.ipynb", "nowhere.ipynb"])
def test_what_is_no_path_is_an_error_of_the_tool(tmp_path: Path, path: str) -> None:
    with pytest.raises(SentinelError):
        read_cells(str(tmp_path), path, None)


def test_halves_of_characters_are_an_error_of_the_tool(tmp_path: Path) -> None:
    with pytest.raises(SentinelError, match="UTF-8"):
        read_cells(str(tmp_path), None, _book("x = '\ud800'"))
    assert [cell.code for cell in read_cells(str(tmp_path), None, _book("x = 'é'"))] == ["x = 'é'"]


def test_links_that_stay_in_the_workspace_are_followed_and_others_are_not(tmp_path: Path) -> None:
    workspace, other = tmp_path / "workspace", tmp_path / "other"
    (workspace / "folder").mkdir(parents=True)
    other.mkdir()
    (workspace / "folder" / "a.py").write_text("1")
    (other / "a.py").write_text("2")
    for name, target in (
        ("near", "folder"),
        ("whole", str(workspace / "folder")),
        ("up", "folder/../folder"),
    ):
        (workspace / name).symlink_to(target)
        assert [cell.code for cell in read_cells(str(workspace), f"{name}/a.py", None)] == ["1"]
    (workspace / "far").symlink_to(other)
    assert (workspace / "far" / "a.py").read_text() == "2"
    with pytest.raises(SentinelError, match="not in the workspace"):
        read_cells(str(workspace), "far/a.py", None)


def test_folder_that_becomes_a_link_meanwhile_leads_nowhere_else(tmp_path: Path) -> None:
    workspace, other = tmp_path / "workspace", tmp_path / "other"
    (workspace / "folder").mkdir(parents=True)
    other.mkdir()
    (workspace / "folder" / "a.py").write_text("'mine'")
    (other / "a.py").write_text("'other'")
    (workspace / "link").symlink_to(other)
    place = workspace / "folder" / "a.py"
    with _exchanging(workspace, "folder", "link"):

        def looked_up_and_then_opened() -> str:
            """Return what is read where the name is looked at first, and opened by its whole path then."""
            with contextlib.suppress(OSError):
                real = Path(os.path.realpath(place))
                return real.read_text() if real.is_relative_to(workspace) else ""
            return ""

        def given() -> str:
            try:
                return read_cells(str(workspace), "folder/a.py", None)[0].code
            except SentinelError:
                return ""

        # Positive control: the race is won against the plain way, and more than once.
        tries = [_tries_until("'other'", looked_up_and_then_opened) for _ in range(3)]
        read = Counter(given() for _ in range(min(max(2000, 10 * max(tries)), 20_000)))
    assert read["'mine'"]
    assert set(read) <= {"'mine'", ""}


def _tries_until(wanted: str, look: Callable[[], str], most: int = 200_000) -> int:
    for count in range(most):
        if look() == wanted:
            return count
    raise AssertionError(f"{wanted} was never read in {most} tries")


@contextlib.contextmanager
def _exchanging(folder: Path, name: str, other: str) -> Iterator[None]:
    """Have a process exchange two names of a folder all the while."""
    code = (
        "import os, sys\nfrom sentinel_kernel.linux.renaming import exchange\n"
        "folder = os.open(sys.argv[1], os.O_PATH)\nprint(flush=True)\n"
        "while True: exchange(folder, *sys.argv[2:])"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, str(folder), name, other], stdout=subprocess.PIPE
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"\n"
            yield
        finally:
            process.kill()


def test_file_that_is_none_is_refused_and_leaves_no_descriptor(tmp_path: Path) -> None:
    (tmp_path / "folder.py").mkdir()
    os.mkfifo(tmp_path / "pipe.py")
    before = os.listdir("/proc/self/fd")
    for name, why in (
        ("folder.py", "can't be read: Is a directory."),
        ("pipe.py", "no regular file"),
        ("nowhere.py", "can't be read: No such file or directory."),
    ):
        with pytest.raises(SentinelError, match=why):
            read_cells(str(tmp_path), name, None)
    assert os.listdir("/proc/self/fd") == before
