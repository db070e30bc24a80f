"""What a sandbox left is saved once, folder by folder, whoever of its survivors knows which of them."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING
from unittest import mock

from sentinel_kernel.policy.committable import Surroundings
from sentinel_kernel.supervisor.held_folders import HeldFolder, HeldFolders
from sentinel_kernel.workspace.commit import Outcome, commit
from sentinel_kernel.workspace.layer import Layer
from sentinel_kernel.workspace.listing import changes
from sentinel_kernel.workspace.rescue import rescue
from sentinel_kernel.workspace.setup import FilesSetup
from sentinel_kernel.workspace.store import read_store_settings

if TYPE_CHECKING:
    from pathlib import Path


def _opened(path: Path, undo: contextlib.ExitStack) -> int:
    path.mkdir()
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    undo.callback(os.close, descriptor)
    return descriptor


def test_who_knows_more_folders_saves_the_rest(tmp_path: Path) -> None:
    setup = FilesSetup("k", read_store_settings({"HOME": str(tmp_path / "home")}), Surroundings())
    with contextlib.ExitStack() as undo:
        folders = [
            HeldFolder(name, f"/host/{name}", _opened(tmp_path / name, undo), -1, -1)
            for name in ("workspace", "data0", "data1")
        ]
        for folder in folders:
            (tmp_path / folder.name / f"{folder.name}.csv").write_text("x")
        history = _opened(tmp_path / "history", undo)
        told = [rescue(HeldFolders(folders[:count], history), setup) for count in (2, 3, 3, 1)]
    assert [(one["files"], one["skipped"], one.get("again", False)) for one in told] == [
        (2, [], False),
        (1, [], False),
        (1, [], True),
        (1, [], True),
    ]
    saved = sorted(path.name for path in (tmp_path / "home").rglob("*.csv"))
    assert saved == ["data0.csv", "data1.csv", "workspace.csv"]


def test_further_names_that_can_not_be_made_leave_no_descriptor_open(tmp_path: Path) -> None:
    with contextlib.ExitStack() as undo:
        upper, lower, parked = (_opened(tmp_path / name, undo) for name in ("upper", "lower", "parked"))
        (tmp_path / "upper" / "a.txt").write_text("x")
        for index in range(5):
            os.link(tmp_path / "upper" / "a.txt", tmp_path / "upper" / f"b{index}.txt")
        layer = Layer("workspace", str(tmp_path / "lower"), upper, upper, lower, parked=parked)
        found, outcome = list(changes(layer, Surroundings())), Outcome()
        before = len(os.listdir("/proc/self/fd"))
        with mock.patch("os.link", side_effect=PermissionError(1, "no")):
            commit(layer, found, frozenset(), outcome=outcome, by_itself=True)
        assert (outcome.count, len(os.listdir("/proc/self/fd"))) == (6, before)
