"""What the file magics ask of the supervisor and of the person, step by step, against a supervisor of this test's."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from files_bench import Bench

from sentinel_kernel.kernel.files_arguments import COMMIT, DISCARD, FILES, UNDO, FilesWanted
from sentinel_kernel.kernel.files_page import done_page, failure_text

Json = dict[str, Any]


OVERWRITES = {"ok": True, "needs": [{"what": "overwrite", "paths": ["a.csv"], "count": 1}], "seen": "s1"}
COMMITTED = {
    "ok": True, "committed": {"count": 1, "bytes": 5, "paths": ["a.csv"]}, "failed": {"count": 0, "paths": []},
    "held": 0, "bytes": 0,
}  # fmt: skip


def commits(fields: Json) -> Json:
    return COMMITTED if fields.get("answers", {}).get("overwrite") else OVERWRITES


def test_a_commit_over_a_file_asks_the_person_and_is_done_after_a_yes() -> None:
    bench = Bench(commits)
    bench.run(FilesWanted(COMMIT, ("a.csv",)))
    assert [fields.get("answers") for fields in bench.asked] == [{}, {"overwrite": True}]
    assert bench.asked[1]["seen"] == "s1"
    assert "overwrite a file on this machine: `a.csv`" in bench.prompts[0]
    assert "a.csv" in bench.page["text/plain"]


@pytest.mark.parametrize(
    ("person", "words"), [("no", "not agreed"), ("timeout", "not agreed"), ("", "nobody can be asked")]
)
def test_without_a_yes_nothing_is_committed_and_the_line_says_what_to_do(person: str, words: str) -> None:
    bench = Bench(commits, person=person)
    bench.run(FilesWanted(COMMIT, ("a.csv",)))
    assert bench.said == ["commit"]
    assert words in bench.refused
    assert "HINT →" in bench.refused
    assert bench.page == {}


def test_each_need_is_a_question_of_its_own() -> None:
    def answer(fields: Json) -> Json:
        if len(fields["answers"]) == 2:
            return COMMITTED
        needs = [{"what": what, "paths": ["x"], "count": 1} for what in ("delete", "dangerous")]
        return {"ok": True, "needs": needs, "seen": "s"}

    bench = Bench(answer)
    bench.run(FilesWanted(COMMIT))
    assert [fields["answers"] for fields in bench.asked] == [{}, {"delete": True, "dangerous": True}]
    assert ["delete a file" in bench.prompts[0], "runs or loads" in bench.prompts[1]] == [True, True]


def test_what_needs_a_yes_again_and_again_is_given_up() -> None:
    bench = Bench(lambda _fields: OVERWRITES)
    bench.run(FilesWanted(COMMIT))
    assert 2 <= len(bench.prompts) <= 4
    assert "changed while" in bench.refused


def test_where_the_profile_lets_nothing_out_new_files_are_asked_about_too() -> None:
    def answer(fields: Json) -> Json:
        if fields["ask_new"] and not fields["answers"].get("new"):
            return {"ok": True, "needs": [{"what": "new", "paths": ["new.txt"], "count": 1}], "seen": "s"}
        return COMMITTED

    bench = Bench(answer, profile="strict")
    bench.run(FilesWanted(COMMIT))
    assert "write a new file: `new.txt`" in bench.prompts[0]
    assert bench.page
    alone = Bench(answer, profile="strict", person="")
    alone.run(FilesWanted(COMMIT))
    assert "nobody can be asked" in alone.refused
    for_an_assistant = Bench(answer, person="", commit="none")
    for_an_assistant.run(FilesWanted(COMMIT))
    assert "nobody can be asked" in for_an_assistant.refused
    free = Bench(answer, person="")
    free.run(FilesWanted(COMMIT))
    assert (free.said, free.refused) == (["commit"], "")


def test_dropping_everything_asks_and_dropping_what_is_named_does_not() -> None:
    def answer(fields: Json) -> Json:
        if fields["do"] == "list":
            return {"ok": True, "entries": [{"path": "a", "layer": "workspace"}], "count": 7}
        return {"ok": True, "discarded": {"count": 7, "bytes": 1, "paths": ["a"]}, "held": 0, "bytes": 0}

    bench = Bench(answer)
    bench.run(FilesWanted(DISCARD))
    assert (bench.said, len(bench.prompts)) == (["list", "discard"], 1)
    nobody = Bench(answer, person="")
    nobody.run(FilesWanted(DISCARD))
    assert (nobody.said, "--all" in nobody.refused) == (["list"], True)
    for wanted in (FilesWanted(DISCARD, ("a",)), FilesWanted(DISCARD, (), frozenset({"--all"}))):
        alone = Bench(answer, person="")
        alone.run(wanted)
        assert (alone.said, alone.refused) == (["discard"], "")


def test_a_refused_request_says_why_and_what_to_do() -> None:
    bench = Bench(lambda _fields: {"ok": False, "code": "nothing_to_undo", "message": "x"})
    bench.run(FilesWanted(UNDO))
    assert "no cell has written" in bench.refused
    assert "HINT →" in bench.refused


@pytest.mark.parametrize("do", [COMMIT, DISCARD])
def test_a_path_from_another_folder_is_told_with_what_to_type(do: str) -> None:
    near = ["sub/out.csv", "new\nline `HINT` \x1b[2J.csv"]
    bench = Bench(lambda _fields: {"ok": False, "code": "no_such_path", "near": near})
    bench.run(FilesWanted(do, ("out.csv",)))
    assert "from the notebook's folder, wherever os.chdir has gone" in bench.refused
    assert "HINT → Type the path from there: `sub/out.csv`" in bench.refused
    assert not {"\n", "\x1b"} & set(bench.refused)
    assert "`HINT`" not in bench.refused


@pytest.mark.parametrize("do", [COMMIT, DISCARD])
def test_each_path_that_nothing_is_held_at_is_named_with_its_state(do: str) -> None:
    typed = ("my file.txt", "nonexist.txt")
    answer: Json = {"ok": False, "code": "no_such_path", "near": [], "settled": ["my file.txt", "not typed"]}
    bench = Bench(lambda _fields: answer)
    bench.run(FilesWanted(do, typed))
    assert (
        "`my file.txt` is on this machine as cells see it (saved already, or never changed)" in bench.refused
    )
    assert "no change named `nonexist.txt` is held" in bench.refused
    assert "not typed" not in bench.refused
    chinese = failure_text(answer, typed, chinese=True)
    assert "`my file.txt` 在此机器上与单元格所见相同" in chinese
    assert "没有名为 `nonexist.txt` 的待提交更改" in chinese


@pytest.mark.parametrize("do", ["committed", "discarded"])
def test_what_was_done_names_the_paths_at_which_nothing_is_held(do: str) -> None:
    unmet = {"count": 9, "paths": ["a`b\x1b", "saved.csv"], "settled": ["saved.csv"]}
    answer: Json = {do: {"count": 1, "bytes": 1, "paths": ["held.csv"]}, "unmet": unmet}
    page = done_page(do, answer, chinese=False)["text/plain"]
    assert "`saved.csv` is on this machine as cells see it" in page
    assert "no change named `a?b" in page
    assert "and 7 more is held." in page
    assert "\x1b" not in page
    assert "没有名为" in done_page(do, answer, chinese=True)["text/plain"]
    for none in ({"count": 0, "paths": [], "settled": []}, "x", {"paths": [1]}, None):
        assert "no change named" not in done_page(do, {**answer, "unmet": none}, chinese=False)["text/plain"]


@pytest.mark.parametrize(("count", "said"), [(1, "that wrote it."), (2, "that wrote them.")])
def test_an_undo_says_it_of_one_file_and_them_of_more(count: int, said: str) -> None:
    page = done_page("undone", {"undone": {"count": count, "bytes": 1}, "cell": "1"}, chinese=False)
    assert f"It was cell [1] {said}" in page["text/plain"]


def ended(**fields: Any) -> Json:
    return {"generation": 3, "held": 0, "bytes": 0, **fields}


def test_the_held_notice_is_said_once_and_goes_when_nothing_is_held_any_more() -> None:
    bench = Bench(lambda _fields: {})
    for held in (1, 2, 3):
        bench.tell(ended(held=held, bytes=10 * held))
    assert bench.files.held == (3, 30)
    assert len(bench.shown) == 1
    notice_id, bundle, update = bench.shown[0]
    assert not update
    assert "1 file that cells changed is held" in bundle["text/plain"]
    bench.tell(ended())
    assert bench.shown[1:] == [(notice_id, {}, True)]
    assert bench.files.held == (0, 0)


def test_what_comes_behind_the_idle_is_shown_in_the_next_cell_once_and_not_where_it_is_not_so_any_more() -> (
    None
):
    bench = Bench(lambda _fields: {})
    bench.cell.idle = True
    for _ in range(2):
        bench.tell(ended(held=2, bytes=1, committed=["a.csv"], committed_count=1))
    assert bench.shown == []
    bench.tell(ended())  # nothing is held any more
    bench.files.show_late(SimpleNamespace(**{**vars(bench.cell), "allow_stdin": False}))
    assert bench.shown == []
    bench.cell.idle = False
    for _ in range(2):
        bench.files.show_late(bench.cell)
        bench.tell(ended(committed=["b.csv"], committed_count=1))
    assert len(bench.shown) == 1
    assert "a.csv" in bench.shown[0][1]["text/plain"]


@pytest.mark.parametrize(
    "late",
    [
        {"held": 1, "bytes": 1},
        {"held": 1, "bytes": 1, "waiting": [{"path": "a.py", "why": "code"}], "waiting_count": 1},
    ],
)
def test_held_files_of_which_nobody_has_seen_the_notice_are_told_of_when_there_are_some_again(
    late: Json,
) -> None:
    bench = Bench(lambda _fields: {})
    bench.cell.idle = True
    bench.tell(ended(**late))
    bench.tell(ended())  # the next cell began with a line that commits or drops them
    bench.cell.idle = False
    bench.files.show_late(bench.cell)
    assert bench.shown == []
    for _ in range(2):
        bench.tell(ended(**late))
    assert len(bench.shown) == 1


def test_all_that_comes_behind_one_idle_is_shown_in_the_next_cell() -> None:
    bench = Bench(lambda _fields: {})
    bench.cell.idle = True
    for name in ("first", "second"):
        bench.tell(
            ended(conflicts=[f"{name}.csv"], conflict_count=1, leaving=[f"/store/{name}"], leaving_days=7)
        )
        bench.tell(
            {"generation": 3, "own": {}, "home": [f"{name}-home/x"], "tmp": [f"/tmp/{name}/x"], "new": 1}
        )
    bench.cell.idle = False
    bench.files.show_late(bench.cell)
    said = "\n".join(bundle["text/plain"] for _, bundle, _ in bench.shown)
    for name in ("first", "second"):
        for path in (f"{name}.csv", f"/store/{name}", f"{name}-home/x", f"/tmp/{name}/x"):
            assert path in said


def test_where_nobody_reads_along_what_is_not_saved_alone_is_put_into_the_outputs(
    capfd: pytest.CaptureFixture[str],
) -> None:
    bench = Bench(lambda _fields: {}, person="")
    bench.tell(ended(held=1, bytes=1, committed=["a"], committed_count=1, conflicts=["b"], conflict_count=1))
    told = [bundle["text/plain"] for _, bundle, _ in bench.shown]
    assert len(told) == 2
    assert "changed on both sides" in told[0]
    assert "held in the sandbox" in told[1]
    assert "held in the sandbox" in capfd.readouterr().err
    assert bench.files.held == (1, 1)
    bench.tell(ended(held=1, bytes=1, conflicts=["b"], conflict_count=1))
    assert len(bench.shown) == 2
    # Who can be asked, and comes later, is told as well; with somebody there what runs beside is not.
    bench.cell.allow_stdin = bench.cell.client_answers = True
    bench.files.show_late(bench.cell)
    bench.tell(ended(held=1, bytes=1, conflicts=["b"], conflict_count=1))
    assert len(bench.shown) == 4
    bench.cell.allow_stdin = bench.cell.client_answers = False
    bench.tell(ended(held=2, bytes=1, conflicts=["c"], conflict_count=2))
    assert len(bench.shown) == 4


def test_saved_files_failures_and_conflicts_are_each_told_once_with_names_beside_the_words() -> None:
    bench = Bench(lambda _fields: {})
    for _ in range(2):
        bench.tell(
            ended(
                committed=["new <b>.csv"],
                committed_count=1,
                conflicts=["both.txt"],
                conflict_count=1,
                failed=[{"path": "full.bin", "layer": "workspace", "why": "no_space"}],
            )
        )
    plain = [bundle["text/plain"] for _, bundle, _ in bench.shown]
    assert len(plain) == 3
    assert [name for name in ("new <b>.csv", "full.bin", "both.txt") if any(name in text for text in plain)] == [
        "new <b>.csv", "full.bin", "both.txt",
    ]  # fmt: skip
    assert all("<b>" not in bundle["text/html"] for _, bundle, _ in bench.shown)
    notice = "application/vnd.sentinel.notice+json"
    assert all("csv" not in str(bundle[notice]) for _, bundle, _ in bench.shown)


def test_a_long_request_tells_how_far_it_is_in_one_display() -> None:
    bench = Bench(lambda _fields: {})

    def answer(fields: Json) -> Json:
        for done in (1, 2):
            bench.tell({"generation": 3, "progress": {"for": 1, "done": done, "of": 3, "bytes": 5}})
        return (
            {"ok": True, "entries": []}
            if fields["do"] == "list"
            else {"ok": True, "diffs": [], "more": False}
        )

    bench._answer = answer
    bench.run(FilesWanted(FILES))
    assert [update for _, _, update in bench.shown] == [False, True, True]
    assert bench.shown[2][1] == {}
    assert "2 / 3" in bench.shown[1][1]["text/plain"]
