"""Ends of cells above plain folders: what is committed by itself, and what is the person's own."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import shutil
import signal
import stat
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from sentinel_kernel.kernel.files_page import failure_text
from sentinel_kernel.linux.files import open_beneath
from sentinel_kernel.policy.committable import VERSION_CONTROL, Surroundings, why_asked
from sentinel_kernel.policy.launch_keys import says_what_to_run
from sentinel_kernel.workspace import answering, cell_end, host_folder, launching, layer, listing
from sentinel_kernel.workspace.bare_folders import MOST_BY_THEMSELVES
from sentinel_kernel.workspace.bounds import Bounds
from sentinel_kernel.workspace.cell_end import CellEnds
from sentinel_kernel.workspace.deleted_folder import contents_of
from sentinel_kernel.workspace.host_folder import sweep_below
from sentinel_kernel.workspace.journal import Journal
from sentinel_kernel.workspace.journal_file import JournalFile
from sentinel_kernel.workspace.request import FilesRequest
from sentinel_kernel.workspace.store import StoreSettings
from sentinel_kernel.workspace.undoing import undo

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from sentinel_kernel.workspace.answering import Workspace


def ends_of(workspace: Workspace, tmp_path: Path) -> CellEnds:
    """Return the ends of its cells."""
    return CellEnds(workspace, StoreSettings(str(tmp_path / "store")))


def test_folders_are_no_files_that_were_saved(workspace: Workspace, tmp_path: Path) -> None:
    (tmp_path / "upper/o").mkdir()
    for name in ("1.csv", "2.txt"):
        (tmp_path / "upper/o" / name).write_text("x")
    ended = ends_of(workspace, tmp_path).end({"cell": "1", "commit": "new"}, lambda *_: None)
    assert (ended.committed_count, set(ended.committed)) == (2, {"o/1.csv", "o/2.txt"})


def test_what_a_stricter_rule_has_held_is_the_persons_whatever_the_rule_is_by_now(
    workspace: Workspace, tmp_path: Path
) -> None:
    upper, lower = tmp_path / "upper", tmp_path / "lower"
    (upper / "o").mkdir()
    for name in ("early.csv", "again.csv", "o/early.csv", "o/again.csv"):
        (upper / name).write_text("strict")

    def cell(rule: str) -> set[str]:
        # Each by a process of its own: it rests between cells.
        stamp, history = workspace.journal.stamp, os.open(tmp_path / "history", os.O_RDONLY | os.O_DIRECTORY)
        workspace.journal = Journal(history, None, stamp)
        ends = ends_of(workspace, tmp_path)
        ended = ends.end({"cell": "1", "commit": rule}, lambda *_: None)
        ends.keep()
        os.close(history)
        assert not ended.failed
        return set(ended.committed)

    assert cell("none") == set()
    assert cell("new") == set()
    assert cell("new") == set()
    for name in ("again.csv", "late.csv", "o/again.csv"):
        (upper / name).write_text("by the new rule")
    assert cell("new") == {"again.csv", "late.csv", "o/again.csv"}
    assert cell("new") == set()
    assert sorted(str(path.relative_to(lower)) for path in lower.rglob("*.csv")) == [
        "again.csv",
        "late.csv",
        "o/again.csv",
    ]
    assert "early.csv" in {change.path for change in workspace.held().values()}


class Rules:
    """Ends of cells by one rule or another, and what the person asks for between them."""

    def __init__(self, workspace: Workspace, tmp_path: Path) -> None:
        self._workspace = workspace
        self._ends = ends_of(workspace, tmp_path)
        self._history = tmp_path / "history"
        self._opened: list[int] = []

    def cell(self, rule: str) -> set[str]:
        """Let a cell end; return what was committed by itself."""
        ended = self._ends.end({"cell": "1", "commit": rule}, lambda *_: None)
        self._ends.keep()
        return set(ended.committed)

    def person(self, do: str, *paths: str, **fields: Any) -> dict[str, Any]:
        """Return the answer to a person who asks for something and says yes to it."""
        told = answering.answer(self._workspace, FilesRequest(do=do, paths=paths, **fields), lambda *_: None)
        assert told["ok"], told
        if "needs" in told:
            yes = frozenset(need["what"] for need in told["needs"])
            return self.person(do, *paths, answers=yes, seen=told["seen"])
        return told

    def process_again(self) -> None:
        """Let another process read the journal, as it rests between cells, or was killed."""
        self._opened.append(os.open(self._history, os.O_RDONLY | os.O_DIRECTORY))
        self._workspace.journal = Journal(self._opened[-1], None, self._workspace.journal.stamp)

    def close(self) -> None:
        """Release what such processes had open."""
        for descriptor in self._opened:
            os.close(descriptor)


@pytest.fixture
def rules(workspace: Workspace, tmp_path: Path) -> Iterator[Rules]:
    made = Rules(workspace, tmp_path)
    yield made
    made.close()


@pytest.mark.parametrize("how", ["a commit", "a cell", "a dry run", "a deletion in a dry run"])
def test_what_a_stricter_rule_has_held_stays_held_where_an_undo_brings_it_back(
    rules: Rules, tmp_path: Path, how: str
) -> None:
    upper, lower = tmp_path / "upper", tmp_path / "lower"
    (upper / "a.csv").write_text("strict")
    assert rules.cell("none") == set()
    (upper / "saved.csv").write_text("by the new rule")
    assert rules.cell("new") == {"saved.csv"}
    if how == "a commit":
        rules.person("commit", "a.csv")
        assert (lower / "a.csv").read_text() == "strict"
        rules.person("undo")
    elif how == "a cell":
        (upper / "a.csv").write_text("by the new rule")
        assert rules.cell("new") == {"a.csv"}
        rules.person("undo")
    else:
        rules.person("trial_begin")
        (upper / "a.csv").unlink()
        if how == "a dry run":
            (upper / "a.csv").write_text("dry")
        assert rules.person("trial_end")["undone"]["count"] == 1
    assert (upper / "a.csv").read_text() == "strict"
    for _ in range(2):
        assert rules.cell("new") == set()
    assert not (lower / "a.csv").exists()
    (upper / "a.csv").write_text("written from then on")  # positive control
    assert rules.cell("new") == {"a.csv"}


@pytest.mark.parametrize("process", ["the same", "another"])
def test_what_an_undo_brought_back_stays_held_whatever_becomes_of_the_rest_of_the_undo(
    rules: Rules, workspace: Workspace, tmp_path: Path, process: str
) -> None:
    upper = tmp_path / "upper"
    (upper / "a.csv").write_text("strict")
    rules.cell("none")
    (upper / "a.csv").unlink()
    rules.cell("new")
    undo(workspace.layers, workspace.journal, workspace.held())  # and nothing is followed
    assert (upper / "a.csv").read_text() == "strict"
    if process == "another":
        rules.process_again()
    assert rules.cell("new") == set()
    assert rules.cell("new") == set()


@pytest.mark.parametrize("room", [True, False])
@pytest.mark.parametrize("how", ["a commit", "a cell", "a dry run", "a deletion in a dry run"])
def test_what_an_undo_brought_back_stays_held_though_the_process_is_killed_behind_it(
    rules: Rules,
    workspace: Workspace,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    how: str,
    room: bool,
) -> None:
    upper, lower = tmp_path / "upper", tmp_path / "lower"
    (upper / "a.csv").write_text("strict")
    rules.cell("none")
    if how == "a commit":
        rules.person("commit", "a.csv")
    elif how == "a cell":
        (upper / "a.csv").write_text("by the new rule")
        assert rules.cell("new") == {"a.csv"}
    else:
        rules.person("trial_begin")
        (upper / "a.csv").unlink()
        if how == "a dry run":
            (upper / "a.csv").write_text("dry")

    def killed(*_: object, **__: object) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    child = os.fork()
    if child == 0:
        try:
            with monkeypatch.context() as now:
                now.setattr(Journal, "follow", killed)
                if not room:
                    now.setattr(JournalFile, "_write", lambda *_: False)
                rules.person("trial_end" if "dry" in how else "undo")
        finally:
            os._exit(1)
    assert os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGKILL
    assert (upper / "a.csv").read_text() == "strict"
    assert not (lower / "a.csv").exists()
    rules.process_again()
    assert workspace.journal.lost is not room
    for _ in range(2):
        assert rules.cell("new") == set()
    (upper / "a.csv").write_text("written from then on")  # positive control
    assert rules.cell("new") == {"a.csv"}


@pytest.fixture(params=["an error", "a bound"])
def blind(request: pytest.FixtureRequest) -> Callable[[], contextlib.AbstractContextManager[None]]:
    """Return what keeps a look from seeing what is in the folder ``o``, for as long as it is entered."""

    @contextlib.contextmanager
    def kept() -> Iterator[None]:
        def opened(folder: int, path: str, flags: int) -> int:
            if path == "o" and flags & os.O_DIRECTORY:
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            return open_beneath(folder, path, flags)

        with pytest.MonkeyPatch.context() as now:
            if request.param == "an error":
                now.setattr(listing, "open_beneath", opened)
            else:
                now.setattr(answering, "Bounds", partial(Bounds, entries=1))
            yield

    return kept


def test_what_one_look_could_not_see_is_not_gone_and_then_new(
    rules: Rules, workspace: Workspace, tmp_path: Path, blind: Callable[[], Any]
) -> None:
    upper, lower = tmp_path / "upper", tmp_path / "lower"
    (upper / "o").mkdir()
    (upper / "o" / "a.csv").write_text("strict")
    rules.cell("none")
    (upper / "o" / "b.py").write_text("by the new rule")
    rules.cell("new")
    (upper / "o" / "c.py").write_text("by the new rule")
    rules.cell("new")
    steps = [[entry.path for entry in step.entries] for step in workspace.journal.steps]
    assert "o/c.py" in steps[-1]
    for again in (False, True):
        if again:
            (upper / "a.py").write_text("for the person to discard")
            rules.cell("new")
        with blind():
            assert rules.cell("new") == set()
            if again:
                rules.process_again()
                rules.person("discard", "a.py")
        assert rules.cell("new") == set()
        assert [[entry.path for entry in step.entries] for step in workspace.journal.steps] == steps
    assert list(lower.rglob("*.csv")) == []
    rules.person("undo")
    assert sorted(os.listdir(upper / "o")) == ["a.csv", "b.py"]
    (upper / "o" / "b.csv").write_text("written from then on")  # positive control
    assert rules.cell("new") == {"o/b.csv"}
    (upper / "o" / "a.csv").unlink()  # and what is gone indeed is told so
    rules.cell("new")
    assert [entry.path for entry in workspace.journal.steps[-1].entries] == ["o/a.csv"]


def test_what_came_unseen_by_a_stricter_rule_stays_held(
    rules: Rules, workspace: Workspace, tmp_path: Path, blind: Callable[[], Any]
) -> None:
    upper, lower = tmp_path / "upper", tmp_path / "lower"
    (upper / "o").mkdir()
    (upper / "o" / "a.csv").write_text("strict")
    with blind():
        rules.cell("none")
        rules.process_again()
        assert rules.cell("new") == set()
        rules.process_again()
    for _ in range(2):
        assert rules.cell("new") == set()
    assert list(lower.iterdir()) == []
    assert "o/a.csv" not in {entry.path for step in workspace.journal.steps for entry in step.entries}
    with blind():
        rules.cell("new")
        (upper / "o" / "b.csv").write_text("unseen, by the new rule")
        rules.cell("new")
    assert rules.cell("new") == {"o/b.csv"}  # positive control


def test_what_came_unseen_and_is_committed_by_itself_is_a_step_in_nobodys_name(
    rules: Rules, workspace: Workspace, tmp_path: Path, blind: Callable[[], Any]
) -> None:
    upper, lower, journal = tmp_path / "upper", tmp_path / "lower", workspace.journal
    (upper / "o").mkdir()
    (upper / "o" / "known.py").write_text("before")
    rules.cell("new")
    assert not journal.incomplete
    with blind():
        (upper / "o" / "x.csv").write_text("unseen")
        assert rules.cell("new") == set()
    assert journal.incomplete
    (upper / "o" / "new.csv").write_text("seen")
    (upper / "o" / "known.py").write_text("by the cell")
    assert rules.cell("new") == {"o/new.csv", "o/x.csv"}
    steps = [(step.cell, sorted(entry.path for entry in step.entries)) for step in journal.steps]
    assert steps == [("1", ["o", "o/known.py"]), ("", ["o/new.csv", "o/x.csv"]), ("1", ["o/known.py"])]
    assert rules.person("undo")["cell"] == "1"
    assert sorted(os.listdir(lower / "o")) == ["new.csv", "x.csv"]
    told = rules.person("undo")
    assert (told["cell"], told["undone"]["count"], told["incomplete"]) == ("", 2, True)
    assert os.listdir(lower / "o") == []
    assert os.listdir(upper / "o") == ["known.py"]
    assert (upper / "o" / "known.py").read_text() == "before"


def test_a_version_of_a_committed_file_that_came_unseen_is_a_step_of_its_own(
    rules: Rules, tmp_path: Path, blind: Callable[[], Any]
) -> None:
    upper, lower = tmp_path / "upper", tmp_path / "lower"
    (upper / "o").mkdir()
    (upper / "o" / "a.csv").write_text("first")
    rules.cell("new")
    with blind():
        (upper / "o" / "a.csv").write_text("unseen")
        assert rules.cell("new") == set()
    assert rules.cell("new") == {"o/a.csv"}
    assert (lower / "o" / "a.csv").read_text() == "unseen"
    for left in (["first"], []):
        rules.person("undo")
        assert [path.read_text() for path in lower.rglob("*.csv")] == left


def test_what_came_unseen_and_is_committed_later_is_held_again_by_an_undo_and_stays(
    rules: Rules,
    workspace: Workspace,
    tmp_path: Path,
    blind: Callable[[], Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    upper, lower = tmp_path / "upper", tmp_path / "lower"
    (upper / "o").mkdir()
    rules.cell("new")
    with blind():
        (upper / "o" / "a.csv").write_text("unseen")
        rules.cell("new")
    with monkeypatch.context() as full:
        full.setattr(cell_end, "commit", lambda *_, **__: None)
        assert rules.cell("new") == set()
    assert [[entry.path for entry in step.entries] for step in workspace.journal.steps] == [["o"]]
    assert rules.cell("new") == {"o/a.csv"}
    assert rules.person("undo")["undone"]["count"] == 1
    for _ in range(2):
        assert rules.cell("new") == set()
    assert os.listdir(lower / "o") == []
    assert (upper / "o" / "a.csv").read_text() == "unseen"
    (upper / "o" / "a.csv").write_text("written from then on")  # positive control
    assert rules.cell("new") == {"o/a.csv"}


def test_what_an_undo_brought_back_stays_held_where_the_next_look_can_not_see_it(
    rules: Rules, workspace: Workspace, tmp_path: Path, blind: Callable[[], Any]
) -> None:
    (tmp_path / "upper" / "o").mkdir()
    (tmp_path / "upper" / "o" / "a.csv").write_text("strict")
    rules.cell("none")
    (tmp_path / "upper" / "o" / "a.csv").write_text("by the new rule")
    assert rules.cell("new") == {"o/a.csv"}
    undo(workspace.layers, workspace.journal, workspace.held())  # and nothing is followed
    assert (tmp_path / "upper" / "o" / "a.csv").read_text() == "strict"
    with blind():
        rules.cell("new")
    for _ in range(2):
        assert rules.cell("new") == set()
    assert not (tmp_path / "lower" / "o" / "a.csv").exists()


def test_a_dry_run_does_not_begin_where_part_of_what_is_held_can_not_be_seen(
    rules: Rules, workspace: Workspace, tmp_path: Path, blind: Callable[[], Any]
) -> None:
    (tmp_path / "upper" / "o").mkdir()
    (tmp_path / "upper" / "o" / "x.py").write_text("held")
    begin = FilesRequest(do="trial_begin")
    with blind():
        told = answering.answer(workspace, begin, lambda *_: None)
    assert (told["ok"], told["code"], told["unseen"]["count"]) == (False, "unseen", 1)
    for chinese in (False, True):
        assert f"`{told['unseen']['paths'][0]}`" in failure_text(told, chinese=chinese)
    rules.person("trial_begin")  # positive control
    (tmp_path / "upper" / "o" / "x.py").write_text("dry")
    assert rules.person("trial_end")["undone"]["count"] == 1
    assert (tmp_path / "upper" / "o" / "x.py").read_text() == "held"


def test_a_dry_run_of_which_not_all_could_be_seen_was_not_all_taken_back(
    rules: Rules, tmp_path: Path, blind: Callable[[], Any]
) -> None:
    (tmp_path / "upper" / "o").mkdir()
    for name in ("a.csv", "b.csv"):
        (tmp_path / "upper" / "o" / name).write_text("before")
    rules.cell("none")
    for name in ("a.csv", "c.csv"):
        rules.person("trial_begin")
        (tmp_path / "upper" / "o" / name).write_text("dry")
        if name == "a.csv":
            assert rules.person("trial_end")["failed"]["count"] == 0  # positive control
            assert (tmp_path / "upper" / "o" / "a.csv").read_text() == "before"
            continue
        with blind():
            failed = rules.person("trial_end")["failed"]
        assert failed["count"] == 1
        assert [one["why"] for one in failed["paths"]] == ["unreadable"]


def test_what_could_not_be_saved_stays_held_once_a_stricter_rule_held_it(
    rules: Rules, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "upper" / "b.csv").write_text("no room")
    with monkeypatch.context() as full:
        full.setattr(cell_end, "commit", lambda *_, **__: None)
        assert rules.cell("new") == set()
    assert rules.cell("none") == set()
    assert rules.cell("new") == set()
    assert not (tmp_path / "lower" / "b.csv").exists()
    (tmp_path / "upper" / "b.csv").write_text("written from then on")  # positive control
    assert rules.cell("new") == {"b.csv"}


def test_a_held_file_stays_held_with_other_permissions_and_under_its_name_where_it_gets_another(
    rules: Rules, tmp_path: Path
) -> None:
    upper, lower = tmp_path / "upper", tmp_path / "lower"
    (upper / "o").mkdir()
    for name in ("a.csv", "b.csv", "o/c.csv"):
        (upper / name).write_text("strict")
    rules.cell("none")
    (upper / "a.csv").chmod(0o600)
    (upper / "o").chmod(0o700)
    os.link(upper / "b.csv", upper / "other.csv")
    os.link(upper / "o" / "c.csv", upper / "third.csv")
    assert rules.cell("new") == {"other.csv", "third.csv"}  # the cell's own doing
    assert rules.cell("new") == set()
    assert sorted(os.listdir(lower)) == ["other.csv", "third.csv"]
    os.utime(upper / "a.csv")  # positive control: as if it were written
    assert rules.cell("new") == {"a.csv"}


def test_a_held_file_stays_held_while_the_host_has_one_of_its_name_and_after(
    rules: Rules, workspace: Workspace, tmp_path: Path
) -> None:
    upper, lower = tmp_path / "upper", tmp_path / "lower"
    (upper / "a.csv").write_text("strict")
    for name in ("o", "gone", "p"):
        (upper / name).mkdir()
        (upper / name / "b.csv").write_text("strict")
    rules.cell("none")
    (lower / "a.csv").write_text("the person's own")
    for name in ("o", "gone"):
        (lower / name).mkdir()
    assert rules.cell("new") == set()
    assert [step.cell for step in workspace.journal.steps] == ["1", "1"]  # that a.csv is another change
    assert rules.cell("new") == set()
    shutil.rmtree(upper / "gone")
    rules.process_again()
    rules.person("commit", "p")
    assert sorted(os.listdir(lower)) == ["a.csv", "gone", "o", "p"]
    (lower / "a.csv").unlink()
    for name in ("o", "gone"):
        (lower / name).rmdir()
    for _ in range(2):
        assert rules.cell("new") == set()
        assert os.listdir(lower) == ["p"]
    (upper / "gone").mkdir()  # positive control
    rules.cell("new")
    assert sorted(os.listdir(lower)) == ["gone", "p"]


def test_a_held_folder_stays_held_where_the_person_discards_something_in_it(
    rules: Rules, tmp_path: Path
) -> None:
    for name in ("o", "p"):
        (tmp_path / "upper" / name).mkdir()
        (tmp_path / "upper" / name / "a.csv").write_text("strict")
    rules.cell("none")
    rules.cell("new")
    rules.person("discard", "o/a.csv")
    rules.cell("new")
    assert list((tmp_path / "lower").iterdir()) == []
    (tmp_path / "upper" / "p" / "b.csv").write_text("by the new rule")  # positive control
    assert rules.cell("new") == {"p/b.csv"}
    rules.person("undo")
    assert rules.cell("new") == set()
    assert list((tmp_path / "lower").iterdir()) == []


def test_an_undo_takes_no_file_of_the_persons_own(
    workspace: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a.csv", "b.csv"):
        (tmp_path / "upper" / name).write_text("CELL!")
    commit = cell_end.commit

    def late(*arguments: Any, **words: Any) -> None:
        (tmp_path / "lower" / "a.csv").write_text("MINE!")  # after the listing, and as long as the cell's
        commit(*arguments, **words)

    monkeypatch.setattr(cell_end, "commit", late)
    ends = ends_of(workspace, tmp_path)
    ended = ends.end({"cell": "1", "commit": "new"}, lambda *_: None)
    assert ended.committed == ("b.csv",)
    assert (tmp_path / "lower" / "b.csv").read_text() == "CELL!"
    undo(workspace.layers, workspace.journal, workspace.held())
    assert (tmp_path / "lower" / "a.csv").read_text() == "MINE!"
    assert not (tmp_path / "lower" / "b.csv").exists()  # positive control


def test_what_waits_is_told_with_the_reason(workspace: Workspace, tmp_path: Path) -> None:
    for name in ("model.pkl", "page.html", "a.csv", "a.yaml"):
        (tmp_path / "upper" / name).write_text("x")
    (tmp_path / "upper" / "b.yaml").write_text("x: 1")
    os.truncate(tmp_path / "upper" / "a.csv", 1 << 40)
    ended = ends_of(workspace, tmp_path).end({"cell": "1", "commit": "new"}, lambda *_: None)
    told = {one["path"]: one["why"] for one in ended.waiting}
    assert told == {"model.pkl": "model", "page.html": "waits", "a.csv": "sparse", "a.yaml": "waits"}
    assert os.listdir(tmp_path / "lower") == ["b.yaml"]


def test_what_was_read_is_not_read_again(
    workspace: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: list[bytes] = []

    def counted(text: bytes) -> bool:
        looked.append(text)
        return says_what_to_run(text)

    monkeypatch.setattr(launching, "says_what_to_run", counted)
    (tmp_path / "upper/a.json").write_text('{"exec": "x"}')
    (tmp_path / "upper/b.json").write_text('{"exec": 1}')
    ends = ends_of(workspace, tmp_path)
    for number in range(3):
        ends.end({"cell": str(number), "commit": "none"}, lambda *_: None)
        ends.keep()
    assert looked == []  # nothing is committed by itself: nobody asks what could be
    waits = {change.path: change.waits for change in workspace.walk()}
    assert waits == {"a.json": "settings", "b.json": ""}
    assert len(looked) == 2
    assert {change.path: change.waits for change in workspace.walk()} == waits
    assert {change.path: change.waits for change in workspace.walk(looks=False)} == waits
    assert len(looked) == 2
    (tmp_path / "upper/b.json").write_text('{"exec": "x"}')
    assert {change.waits for change in workspace.walk()} == {"settings"}
    assert len(looked) == 3


def test_a_look_ends_in_time_in_the_middle_of_a_search_and_all_looks_together_do(
    workspace: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    endless = re.compile(rb"(?:a|aa)*b")  # as a fault in the rule would be
    monkeypatch.setattr(launching, "says_what_to_run", lambda text: endless.match(text) is not None)
    monkeypatch.setattr(launching, "_LOOK_SECONDS", 0.05)
    monkeypatch.setattr(answering, "LOOKS_SECONDS", 0.12)
    former = signal.getsignal(signal.SIGVTALRM)
    for number in range(30):
        (tmp_path / f"upper/{number}.json").write_bytes(b"a" * 10_000)
    ended = ends_of(workspace, tmp_path).end({"cell": "1", "commit": "new"}, lambda *_: None)
    assert (ended.committed_count, ended.held, ended.waiting_count) == (0, 30, 30)
    # The timer counts ticks, which a busy machine gives unevenly.
    assert 1 <= len(workspace.looks.known) <= 10
    assert signal.getitimer(signal.ITIMER_VIRTUAL) == (0, 0)
    assert signal.getsignal(signal.SIGVTALRM) is former


def test_a_later_version_that_says_what_to_run_waits_by_whatever_name_it_came(
    workspace: Workspace, tmp_path: Path
) -> None:
    upper, lower = tmp_path / "upper", tmp_path / "lower"
    ends = ends_of(workspace, tmp_path)

    def end(cell: str) -> Any:
        ended = ends.end({"cell": cell, "commit": "new"}, lambda *_: None)
        ends.keep()
        return ended

    names = ("x.json", "y.json", "z.json")
    for name in names:
        (upper / name).write_text("{}")
    assert end("1").committed_count == 3
    (upper / "x.json").write_text('{"exec": "x"}')
    (upper / "y.json").unlink()
    (upper / "a.csv").write_text('{"exec": "y"}')
    os.link(upper / "a.csv", upper / "y.json")
    (upper / "z.json").write_text('{"a": 1}')
    assert set(end("2").committed) == {"a.csv", "z.json"}  # positive control: that one is data still
    assert [(lower / name).read_text() for name in names] == ["{}", "{}", '{"a": 1}']
    assert {change.waits for change in workspace.walk() if change.path == "x.json"} == {"settings"}


def test_a_further_name_of_a_committed_file_is_looked_at_under_that_name(
    workspace: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listing, "why_new_waits", lambda *_: "")  # as if it were data when it was listed
    (tmp_path / "upper/a.csv").write_text('{"exec": "x"}')
    os.link(tmp_path / "upper/a.csv", tmp_path / "upper/b.json")
    os.link(tmp_path / "upper/a.csv", tmp_path / "upper/c.csv")
    ended = ends_of(workspace, tmp_path).end({"cell": "1", "commit": "new"}, lambda *_: None)
    assert set(ended.committed) == {"a.csv", "c.csv"}
    assert set(os.listdir(tmp_path / "lower")) == {"a.csv", "c.csv"}


def test_a_deleted_folder_counts_with_what_is_in_it(workspace: Workspace, tmp_path: Path) -> None:
    inside = tmp_path / "lower" / "project" / ".git"
    inside.mkdir(parents=True)
    for number in range(5):
        (inside.parent / f"{number}.txt").write_text("precious")
    (tmp_path / "upper" / "other").mkdir()
    layer = workspace.layers["workspace"]
    found = contents_of(layer.lower, "project", lambda path: why_asked("/work", path, Surroundings()))
    assert (found.count, found.bytes, found.reason) == (6, 40, VERSION_CONTROL)
    assert contents_of(layer.lower, "gone", lambda _: "").reason == VERSION_CONTROL


def test_what_killed_commits_left_is_swept_in_every_folder_and_nothing_else(
    workspace: Workspace, tmp_path: Path
) -> None:
    lower = tmp_path / "lower"
    (lower / "d/e").mkdir(parents=True)
    kept = ("f", "d/.sentinel-1.parts", "d/e/.sentinel-held.part")
    for name in (*kept, ".sentinel-0.part", "d/.sentinel-1.part", "d/e/.sentinel-2.part"):
        (lower / name).write_text("x")
    (lower / "link").symlink_to(tmp_path / "upper")
    (tmp_path / "upper/.sentinel-3.part").write_text("x")
    with (lower / "d/e/.sentinel-held.part").open() as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        sweep_below(workspace.layers["workspace"])
    left = {str(path.relative_to(lower)) for path in lower.rglob("*") if path.is_file()}
    assert left == set(kept)
    assert (tmp_path / "upper/.sentinel-3.part").exists()


def test_a_folder_that_was_deleted_and_made_anew_is_told_as_another_one(
    workspace: Workspace, tmp_path: Path
) -> None:
    (tmp_path / "upper" / "first.csv").write_text("1")
    ends = ends_of(workspace, tmp_path)
    ends.end({"cell": "1", "commit": "new"}, lambda *_: None)
    ends.keep()
    shutil.rmtree(tmp_path / "lower")
    (tmp_path / "lower").mkdir()
    (tmp_path / "upper" / "second.csv").write_text("2")
    ended = ends.end({"cell": "2", "commit": "new"}, lambda *_: None)
    assert [(one["path"], one["why"]) for one in ended.failed] == [("second.csv", "folder_gone")]
    assert list((tmp_path / "lower").iterdir()) == []


@pytest.mark.parametrize("number", [errno.ENOENT, errno.ESTALE])
def test_a_folder_that_was_deleted_behind_a_network_file_system_is_told_as_gone(
    workspace: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    (tmp_path / "upper" / "first.csv").write_text("1")
    ends = ends_of(workspace, tmp_path)
    assert ends.end({"cell": "1", "commit": "new"}, lambda *_: None).committed == ("first.csv",)
    ends.keep()
    lower, status_of = workspace.layers["workspace"].lower, os.fstat

    def lost(folder: int, path: str, flags: int) -> int:
        if folder == lower:
            raise OSError(number, os.strerror(number))
        return open_beneath(folder, path, flags)

    def without_status(descriptor: int) -> os.stat_result:
        if descriptor == lower:
            raise OSError(number, os.strerror(number))
        return status_of(descriptor)

    with monkeypatch.context() as now:
        for module in (listing, host_folder, layer):
            now.setattr(module, "open_beneath", lost)
        now.setattr(os, "fstat", without_status)
        outcome = undo(workspace.layers, workspace.journal, workspace.held())
        (tmp_path / "upper" / "second.csv").write_text("2")
        ended = ends.end({"cell": "2", "commit": "new"}, lambda *_: None)
    assert outcome.failed == [("first.csv", "workspace", "folder_gone")]
    assert [(one["path"], one["why"]) for one in ended.failed] == [("second.csv", "folder_gone")]
    (tmp_path / "upper" / "third.csv").write_text("3")
    ended = ends.end({"cell": "3", "commit": "new"}, lambda *_: None)
    assert "third.csv" in ended.committed  # positive control: the folder is there


def _undone(workspace: Workspace) -> Any:
    return answering.answer(workspace, FilesRequest("undo"), lambda *_: None)


def _ended(workspace: Workspace, tmp_path: Path, cell: str) -> Any:
    ends = ends_of(workspace, tmp_path)
    ended = ends.end({"cell": cell, "commit": "new"}, lambda *_: None)
    ends.keep()
    assert ends.worth_telling
    return ended


def test_folders_alone_are_told_of_and_taken_back(workspace: Workspace, tmp_path: Path) -> None:
    upper, lower = tmp_path / "upper", tmp_path / "lower"
    (upper / "o").mkdir()
    (upper / "o/1.csv").write_text("x")
    (upper / "o/empty").mkdir()
    ended = _ended(workspace, tmp_path, "1")
    assert (ended.committed, ended.folders, ended.folder_count) == (("o/1.csv",), ("o/empty",), 1)
    for name in ("a", "a/b", "c"):
        (upper / name).mkdir()
    ended = _ended(workspace, tmp_path, "2")
    assert (ended.committed_count, set(ended.folders), ended.folder_count) == (0, {"a", "a/b", "c"}, 3)
    assert (lower / "a/b").is_dir()
    (lower / "c/mine.txt").write_text("the person's")
    told = _undone(workspace)
    assert told["undone"] == {"count": 0, "bytes": 0, "paths": ["a/b/", "a/"], "folders": 2}
    assert told["failed"]["paths"] == [{"path": "c", "layer": "workspace", "why": "changed_since"}]
    assert (told["cell"], (lower / "a").exists(), (lower / "c/mine.txt").exists()) == ("2", False, True)
    told = _undone(workspace)
    assert told["undone"] == {"count": 1, "bytes": 1, "paths": ["o/1.csv", "o/empty/"], "folders": 1}
    assert (told["failed"]["count"], (lower / "o").exists()) == (0, False)


@pytest.mark.parametrize(("number", "why"), [(errno.EROFS, "not_writable"), (errno.EIO, "disk")])
def test_why_a_folder_stays_is_told_as_it_is(
    workspace: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, why: str
) -> None:
    (tmp_path / "upper/made").mkdir()
    _ended(workspace, tmp_path, "1")

    def refuse(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number))

    with monkeypatch.context() as now:
        now.setattr(os, "rmdir", refuse)
        told = _undone(workspace)
    assert told["failed"]["paths"] == [{"path": "made", "layer": "workspace", "why": why}]
    assert told["undone"] == {"count": 0, "bytes": 0, "paths": []}
    assert (tmp_path / "lower/made").is_dir()


def test_a_folder_that_is_gone_with_the_one_above_it_was_taken_back(
    workspace: Workspace, tmp_path: Path
) -> None:
    (tmp_path / "upper/a/b").mkdir(parents=True)
    _ended(workspace, tmp_path, "1")
    shutil.rmtree(tmp_path / "lower/a")
    told = _undone(workspace)
    assert (told["undone"]["folders"], told["failed"]["count"]) == (2, 0)


def test_a_hosts_folder_that_a_cell_deleted_is_told_of_where_an_undo_brings_it_back(
    workspace: Workspace, tmp_path: Path
) -> None:
    (tmp_path / "lower/data").mkdir()
    (tmp_path / "lower/data/1.csv").write_text("x")
    os.mknod(tmp_path / "upper/data", stat.S_IFCHR, 0)  # a whiteout
    _ended(workspace, tmp_path, "1")
    told = _undone(workspace)
    assert told["undone"] == {"count": 0, "bytes": 0, "paths": ["data/"], "folders": 1}


def test_very_many_folders_with_no_files_wait_for_the_person(workspace: Workspace, tmp_path: Path) -> None:
    upper, lower = tmp_path / "upper", tmp_path / "lower"
    for number in range(MOST_BY_THEMSELVES + 1):
        (upper / f"{number}").mkdir()
    (upper / "o").mkdir()
    (upper / "o/1.csv").write_text("x")
    for cell in ("1", "2"):
        ended = ends_of(workspace, tmp_path).end({"cell": cell, "commit": "new"}, lambda *_: None)
        assert (ended.folder_count, ended.held) == (0, MOST_BY_THEMSELVES + 1)
        assert sorted(path.name for path in lower.iterdir()) == ["o"]
    (upper / "0").rmdir()
    assert _ended(workspace, tmp_path, "3").folder_count == MOST_BY_THEMSELVES
    assert _undone(workspace)["undone"]["folders"] == MOST_BY_THEMSELVES
    assert sorted(path.name for path in lower.iterdir()) == ["o"]
