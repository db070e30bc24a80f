"""What a person's commit takes of what is held: all but what is made anew, and paths as they were meant."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest
from growing import grows_evenly

from sentinel_kernel.workspace import change as kinds
from sentinel_kernel.workspace.answering import Workspace, answer
from sentinel_kernel.workspace.cell_end import CellEnds
from sentinel_kernel.workspace.commit import Outcome, commit
from sentinel_kernel.workspace.journal_records import Entry, Seen, Step
from sentinel_kernel.workspace.person_commit import let_stay
from sentinel_kernel.workspace.request import FilesRequest
from sentinel_kernel.workspace.store import StoreSettings

if TYPE_CHECKING:
    from pathlib import Path


def wrote(tmp_path: Path, *paths: str) -> None:
    """Have cells write."""
    for path in paths:
        place = tmp_path / "upper" / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text("x")


def said(workspace: Workspace, do: str, *paths: str, **fields: Any) -> dict[str, Any]:
    """Return the answer to a person."""
    return answer(workspace, FilesRequest(do=do, paths=paths, **fields), lambda *_: None)


def on_host(tmp_path: Path) -> set[str]:
    lower = tmp_path / "lower"
    return {str(path.relative_to(lower)) for path in lower.rglob("*") if path.is_file()}


BYTECODE = "__pycache__/m.cpython-311.pyc"


def test_bytecode_and_checkpoints_are_left_out_of_all_and_asked_about_never(
    workspace: Workspace, tmp_path: Path
) -> None:
    wrote(tmp_path, "m.py", BYTECODE, "old.pyc", ".ipynb_checkpoints/n-checkpoint.ipynb")
    asks = said(workspace, "commit")
    assert [(need["what"], need["paths"]) for need in asks["needs"]] == [("new", ["m.py"])]
    told = said(workspace, "commit", answers=frozenset({"new"}), seen=asks["seen"])
    assert (told["committed"]["count"], told["aside"]) == (1, 3)
    assert on_host(tmp_path) == {"m.py"}


def test_what_is_named_is_written_all_the_same(workspace: Workspace, tmp_path: Path) -> None:
    wrote(tmp_path, "m.py", BYTECODE)
    asks = said(workspace, "commit", BYTECODE)
    assert [need["what"] for need in asks["needs"]] == ["dangerous"]
    told = said(workspace, "commit", BYTECODE, answers=frozenset({"dangerous"}), seen=asks["seen"])
    assert told["aside"] == 0
    assert on_host(tmp_path) == {BYTECODE}


def test_new_files_that_would_not_be_committed_by_themselves_need_a_yes_and_the_others_none(
    workspace: Workspace, tmp_path: Path
) -> None:
    wrote(tmp_path, "a.csv", "b.html", "c.pkl", "-o/d.csv")
    told = said(workspace, "commit", "a.csv")
    assert told["committed"]["paths"] == ["a.csv"]
    asks = said(workspace, "commit")
    (need,) = asks["needs"]
    assert (need["what"], set(need["paths"][:2]), need["paths"][2:]) == (
        "new", {"-o", "-o/d.csv"}, ["c.pkl", "b.html"]
    )  # fmt: skip
    assert (need["count"], need["options"]) == (4, 2)
    (tmp_path / "upper" / "b.html").write_text("another by now")
    again = said(workspace, "commit", answers=frozenset({"new"}), seen=asks["seen"])
    assert again["needs"]
    said(workspace, "commit", answers=frozenset({"new"}), seen=again["seen"])
    assert on_host(tmp_path) == {"a.csv", "b.html", "c.pkl", "-o/d.csv"}


@pytest.mark.parametrize("asked_new", [False, True])
def test_data_that_becomes_settings_while_it_is_committed_is_left_where_nobody_was_asked(
    workspace: Workspace, tmp_path: Path, asked_new: bool
) -> None:
    (tmp_path / "upper" / "a.json").write_text('{"rows": [1]}')
    changes = list(workspace.walk())
    assert [change.autocommit for change in changes] == [True]
    (tmp_path / "upper" / "a.json").write_text('{"command": "sh"}')
    outcome = Outcome()
    layer = workspace.layers["workspace"]
    commit(layer, changes, frozenset(), outcome=outcome, asked_new=asked_new)
    assert outcome.failed == ([] if asked_new else [("a.json", "workspace", "changed_meanwhile")])
    assert on_host(tmp_path) == ({"a.json"} if asked_new else set())


@pytest.mark.parametrize("do", ["commit", "discard"])
@pytest.mark.parametrize("typed", ["out.py", "./out.py", "o*.py", "../out.py", "deep/../out.py"])
def test_a_path_from_another_folder_is_refused_with_the_one_from_the_notebooks(
    workspace: Workspace, tmp_path: Path, do: str, typed: str
) -> None:
    wrote(tmp_path, "sub/out.py", "sub/other.txt")
    assert said(workspace, do, typed) == {
        "ok": False, "code": "no_such_path", "message": "", "near": ["sub/out.py"], "settled": []
    }  # fmt: skip
    assert on_host(tmp_path) == set()


def test_what_is_nowhere_has_nothing_near(workspace: Workspace, tmp_path: Path) -> None:
    wrote(tmp_path, *(f"{number}/out.py" for number in range(20)))
    assert said(workspace, "commit", "absent.py")["near"] == []
    assert said(workspace, "commit", "/elsewhere/out.py")["near"] == []
    assert len(said(workspace, "commit", "out.py")["near"]) == 5


def test_a_path_at_which_the_host_has_what_cells_see_is_told_apart(
    workspace: Workspace, tmp_path: Path
) -> None:
    lower = tmp_path / "lower"
    (lower / "sub").mkdir()
    (lower / "my file.csv").write_text("saved")
    (lower / "sub" / "deep.csv").write_text("saved")
    (lower / "way").symlink_to(tmp_path)
    (tmp_path / "outside.csv").write_text("x")
    wrote(tmp_path, "held.csv")
    told = said(
        workspace, "commit", "my file.csv", "absent.csv", "./sub/deep.csv", "*.txt", "way/outside.csv"
    )
    assert (told["code"], told["settled"]) == ("no_such_path", ["my file.csv", "./sub/deep.csv"])
    assert said(workspace, "commit", "../outside.csv", "/etc/passwd", "x\0y")["settled"] == []


@pytest.mark.parametrize("do", ["commit", "discard"])
def test_paths_at_which_nothing_is_held_are_told_beside_what_was_done(
    workspace: Workspace, tmp_path: Path, do: str
) -> None:
    (tmp_path / "lower" / "saved.csv").write_text("saved")
    wrote(tmp_path, "held.csv", "sub/deep.csv")
    told = said(workspace, do, "held.csv", "absent.csv", "saved.csv", "s*b", "/elsewhere/x")
    assert told["ok"], told
    assert told["unmet"] == {
        "count": 3, "paths": ["absent.csv", "saved.csv", "/elsewhere/x"], "settled": ["saved.csv"]
    }  # fmt: skip
    wrote(tmp_path, "other.csv", "more/deep.csv")
    assert said(workspace, do, "other.csv", "more")["unmet"] == {"count": 0, "paths": [], "settled": []}


def test_another_name_of_a_committed_file_is_held_until_it_is_committed_itself(
    workspace: Workspace, tmp_path: Path
) -> None:
    upper, lower = tmp_path / "upper", tmp_path / "lower"
    (lower / "mine.py").write_text("mine")
    wrote(tmp_path, "a.csv")
    os.link(upper / "a.csv", upper / "mine.py")
    ends = CellEnds(workspace, StoreSettings(str(tmp_path / "store")))
    assert ends.end({"cell": "1", "commit": "new"}, lambda *_: None).committed == ("a.csv",)
    ends.keep()
    assert [change.path for change in workspace.walk()] == ["mine.py"]
    assert (lower / "mine.py").read_text() == "mine"
    asks = said(workspace, "commit", "mine.py")
    told = said(workspace, "commit", "mine.py", answers=frozenset({"overwrite"}), seen=asks["seen"])
    assert told["committed"]["paths"] == ["mine.py"]
    assert (lower / "mine.py").read_text() == "x"
    assert list(workspace.walk()) == []  # positive control: both are settled now


def test_what_lies_in_what_a_commit_took_for_good_stays_and_finding_it_grows_with_its_number(
    workspace: Workspace,
) -> None:
    journal, key = workspace.journal, (1, 1, 1, 1)

    def let(lost: list[str], *written: tuple[str, str]) -> list[tuple[str, str]]:
        gone = Seen(kinds.CHANGED, is_folder=False, key=key)
        commit = Step("", [Entry("w", path, None, key, committed=key, replaced=gone) for path in lost])
        journal.steps = [Step("1", [Entry(*path, None, key)]) for path in written] + [commit]
        let_stay(journal, commit)
        return [(entry.layer, entry.path) for step in journal.steps[:-1] for entry in step.entries]

    lost = ["a", "o/a"]
    apart = [("w", "ab"), ("w", "o"), ("other", "a"), ("w", "b/a")]
    assert let(lost, ("w", "a"), ("w", "a/deep/x"), ("w", "o/a/x"), *apart) == apart
    assert grows_evenly(
        lambda text: let([f"o/{n}" for n in range(len(text))], *[("w", f"p/{n}") for n in range(len(text))]),
        lambda parts: "x" * parts,
    )
