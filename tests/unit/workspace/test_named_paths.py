"""Every answer names a file of another folder than the notebook's in full: two of one name are told apart."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest

from sentinel_kernel.workspace.answering import answer
from sentinel_kernel.workspace.cell_end import CellEnds
from sentinel_kernel.workspace.layer import Layer
from sentinel_kernel.workspace.request import read_request
from sentinel_kernel.workspace.store import StoreSettings

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from sentinel_kernel.workspace.answering import Workspace


@pytest.fixture
def two(workspace: Workspace, tmp_path: Path) -> Iterator[Workspace]:
    """Return the workspace with another folder, ``data``."""
    for name in ("data_upper", "data"):
        (tmp_path / name).mkdir()
    upper, lower = (os.open(tmp_path / name, os.O_RDONLY | os.O_DIRECTORY) for name in ("data_upper", "data"))
    path = str(tmp_path / "data")
    workspace.layers["data0"] = Layer(name="data0", path=path, upper=upper, merged=upper, lower=lower)
    yield workspace
    os.close(upper)
    os.close(lower)


def asks(workspace: Workspace, do: str, **fields: Any) -> dict[str, Any]:
    return answer(workspace, read_request({"op": "files", "id": 1, "do": do, **fields}), lambda *_: None)


def writes(tmp_path: Path, name: str, text: str = "x") -> None:
    for upper in ("upper", "data_upper"):
        (tmp_path / upper / name).write_text(text)


def test_questions_and_what_was_committed_discarded_and_taken_back(two: Workspace, tmp_path: Path) -> None:
    other = str(tmp_path / "data" / "c.py")
    writes(tmp_path, "c.py")
    (need,) = (asked := asks(two, "commit"))["needs"]
    assert need["paths"] == ["c.py", other]
    assert asks(two, "discard", paths=[other])["discarded"]["paths"] == [other]
    writes(tmp_path, "c.py")
    asked = asks(two, "commit", paths=[other])
    assert [need["paths"] for need in asked["needs"]] == [[other]]
    done = asks(two, "commit", paths=[other], answers={"new": True}, seen=asked["seen"])
    assert done["committed"]["paths"] == [other]
    assert (tmp_path / "data" / "c.py").read_text() == "x"
    assert asks(two, "undo")["undone"]["paths"] == [other]
    assert {diff["folder"] for diff in asks(two, "diff")["diffs"]} == {str(tmp_path / "lower")}


def test_what_failed_is_put_beside_or_conflicts(two: Workspace, tmp_path: Path) -> None:
    (tmp_path / "data" / "a.txt").write_text("the person's")
    writes(tmp_path, "a.txt")
    (tmp_path / "data" / "a.txt").write_text("the person's, later")
    os.mkfifo(tmp_path / "data_upper" / "pipe")
    other = str(tmp_path / "data")
    ended = CellEnds(two, StoreSettings(str(tmp_path / "store"))).end({"cell": "1"}, lambda *_: None)
    assert ended.conflicts == (f"{other}/a.txt",)
    asked = asks(two, "commit")
    answers = {need["what"]: True for need in asked["needs"]}
    done = asks(two, "commit", answers=answers, seen=asked["seen"])
    (beside,) = done["beside"]
    assert beside.startswith(f"{other}/a.sentinel-")
    assert [one["path"] for one in done["failed"]["paths"]] == [f"{other}/pipe"]
    failed = asks(two, "undo")["failed"]["paths"]
    assert {one["path"]: one["why"] for one in failed}.get(beside) == "put_beside"


def test_what_a_cells_end_saves_and_what_waits(two: Workspace, tmp_path: Path) -> None:
    for name in ("b.csv", "page.html"):
        (tmp_path / "data_upper" / name).write_text("x")
    told = CellEnds(two, StoreSettings(str(tmp_path / "store"))).end(
        {"cell": "1", "commit": "new"}, lambda *_: None
    )
    assert told.committed == (str(tmp_path / "data" / "b.csv"),)
    assert [one["path"] for one in told.waiting] == [str(tmp_path / "data" / "page.html")]
