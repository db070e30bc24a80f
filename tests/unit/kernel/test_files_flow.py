"""What the file magics ask of the supervisor and of the person, step by step, against a supervisor of this test's."""

from __future__ import annotations

import base64
import os
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from sentinel_kernel.kernel.files_arguments import COMMIT, DISCARD, EXPORT, FILES, UNDO, FilesWanted
from sentinel_kernel.kernel.files_entry import FilesEntry
from sentinel_kernel.kernel.files_export import FOLDER, INLINE_BYTES
from sentinel_kernel.kernel.files_page import done_page, failure_text
from sentinel_kernel.policy import disk_reserve
from sentinel_kernel.supervisor import protocol
from sentinel_kernel.workspace.request import EXPORT_BYTES, read_request

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

Json = dict[str, Any]


class Bench:
    """A host's parts around the file magics; ``answer`` plays the supervisor."""

    def __init__(
        self,
        answer: Callable[[Json], Json],
        *,
        person: str = "yes",
        profile: str = "datascience",
        commit: str = "",
    ) -> None:
        self.asked: list[Json] = []
        self.prompts: list[str] = []
        self.shown: list[tuple[str, Json, bool]] = []
        self.page: Json = {}
        self.refused = ""
        self._answer = answer
        self._person = person
        self.cell = SimpleNamespace(
            request=SimpleNamespace(header=b"{}"), silent=False, allow_stdin=bool(person)
        )
        host: Any = SimpleNamespace(
            settings=SimpleNamespace(
                language="en", profile_directories=(), workspace=os.getcwd(), commit=commit
            ),
            lifecycle=SimpleNamespace(
                told={},
                generation=3,
                profile=profile,
                link=SimpleNamespace(gone=False, request=self._request),
            ),
            displays=SimpleNamespace(new_id=lambda: f"id-{len(self.shown)}"),
            outbox=SimpleNamespace(display=self._display),
            questions=SimpleNamespace(reaches=lambda _cell: bool(person), ask=self._ask),
            execution=SimpleNamespace(newest=lambda: self.cell),
            gauge=SimpleNamespace(refresh_soon=lambda: None),
        )
        self.files = host.files = FilesEntry(host)
        self.tell = host.lifecycle.told[protocol.EVENT_FILES]

    def _request(
        self, operation: str, fields: Json, on_reply: Callable[[Json], None], _seconds: float
    ) -> None:
        assert operation == protocol.OP_FILES
        read_request(fields)  # the supervisor takes it
        self.asked.append(fields)
        on_reply(self._answer(fields))

    def _ask(self, _cell: Any, prompt: str, _answers: Any, done: Callable[[str], None]) -> None:
        self.prompts.append(prompt)
        done(self._person)

    def _display(self, bundle: Json, _parent: bytes, display_id: str = "", *, update: bool = False) -> None:
        self.shown.append((display_id, bundle, update))

    def run(self, wanted: FilesWanted) -> None:
        """Run one line to its end."""
        cell: Any = self.cell
        self.files.run(cell, wanted, lambda call: call, self._done, self._refuse)

    def _done(self, page: Json) -> None:
        self.page = page

    def _refuse(self, why: str) -> None:
        self.refused = why

    @property
    def said(self) -> list[str]:
        """What was asked of the supervisor."""
        return [fields["do"] for fields in self.asked]


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


@pytest.mark.parametrize(("count", "said"), [(1, "that wrote it."), (2, "that wrote them.")])
def test_an_undo_says_it_of_one_file_and_them_of_more(count: int, said: str) -> None:
    page = done_page("undone", {"undone": {"count": count, "bytes": 1}, "cell": "1"}, chinese=False)
    assert f"It was cell [1] {said}" in page["text/plain"]


def exports(data: bytes, changed_after: int = 1 << 60, held: int = 1) -> Callable[[Json], Json]:
    def answer(fields: Json) -> Json:
        if fields["do"] == "list":
            return {"ok": True, "entries": [], "count": held}
        offset = fields.get("offset", 0)
        part = data[offset : offset + EXPORT_BYTES]
        end = offset + len(part)
        return {
            "ok": True, "path": "r.bin", "layer": "workspace", "size": len(data),
            "mtime_ns": 1 if offset < changed_after else 2, "offset": offset,
            "data": base64.b64encode(part).decode(), "next": end if end < len(data) else None,
        }  # fmt: skip

    return answer


def test_a_small_file_is_within_its_link(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    bench = Bench(exports(b"hello"))
    bench.run(FilesWanted(EXPORT, ("out/<r>.bin",)))
    html = bench.page["text/html"]
    assert 'href="data:application/octet-stream;base64,aGVsbG8="' in html
    assert 'download="&lt;r&gt;.bin"' in html
    assert list(tmp_path.iterdir()) == []


def test_a_large_file_is_copied_where_the_server_gives_it_out_and_never_over_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    data = bytes(range(256)) * (INLINE_BYTES // 256 + 500)
    for bench in (first := Bench(exports(data)), second := Bench(exports(data))):
        bench.run(FilesWanted(EXPORT, ("../.hid den.bin",)))
    copies = sorted(path.name for path in (tmp_path / FOLDER).iterdir())
    assert copies == ["hid den (1).bin", "hid den.bin"]
    assert {(tmp_path / FOLDER / name).read_bytes() for name in copies} == {data}
    assert f'href="{FOLDER}/hid%20den%20%281%29.bin?download=1"' in second.page["text/html"]
    assert str(tmp_path / FOLDER) in first.page["text/plain"]


def test_a_copy_is_the_folders_owners_and_leaves_the_disks_reserve_free(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    if os.geteuid() == 0:
        os.chown(tmp_path, 47001, 47001)
    bench = Bench(exports(bytes(INLINE_BYTES + 1)))
    bench.run(FilesWanted(EXPORT, ("r.bin",)))
    owner = tmp_path.stat().st_uid
    assert [path.stat().st_uid for path in (tmp_path / FOLDER, tmp_path / FOLDER / "r.bin")] == [owner] * 2
    monkeypatch.setattr(disk_reserve, "LEFT_FREE_PERCENT", 100)
    monkeypatch.setattr(disk_reserve, "LEFT_FREE_BYTES", 1 << 62)
    full = Bench(exports(bytes(INLINE_BYTES + 1)))
    full.run(FilesWanted(EXPORT, ("r.bin",)))
    assert "No space left" in full.refused
    assert [path.name for path in (tmp_path / FOLDER).iterdir()] == ["r.bin"]


def test_a_large_file_that_is_not_held_is_given_out_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    bench = Bench(exports(bytes(INLINE_BYTES + 1), held=0))
    bench.run(FilesWanted(EXPORT, ("out/r.bin",)))
    assert 'href="r.bin?download=1"' in bench.page["text/html"]
    assert list(tmp_path.iterdir()) == []


def test_where_nobody_can_click_the_copy_is_private_and_the_page_says_where(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.chdir(tmp_path)
    bench = Bench(exports(b"hello"), person="", profile="strict")
    bench.run(FilesWanted(EXPORT, ("r.bin",)))
    place = tmp_path / "data" / "sentinel-kernel" / FOLDER / "r.bin"
    assert place.read_bytes() == b"hello"
    assert str(place) in bench.page["text/plain"]
    assert "<a " not in bench.page["text/html"]


def test_a_file_that_changes_meanwhile_leaves_no_half_copy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    bench = Bench(exports(bytes(INLINE_BYTES + 200_000), changed_after=INLINE_BYTES))
    bench.run(FilesWanted(EXPORT, ("r.bin",)))
    assert "changed while" in bench.refused
    assert list((tmp_path / FOLDER).iterdir()) == []


def test_a_planted_link_in_place_of_the_folder_is_not_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / FOLDER).symlink_to(elsewhere)
    monkeypatch.chdir(tmp_path / "work")
    bench = Bench(exports(bytes(INLINE_BYTES + 1)))
    bench.run(FilesWanted(EXPORT, ("r.bin",)))
    assert "could not be exported" in bench.refused
    assert list(elsewhere.iterdir()) == []


def test_in_strict_a_large_copy_beside_the_notebook_asks_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    bench = Bench(exports(bytes(INLINE_BYTES + 1)), person="no", profile="strict")
    bench.run(FilesWanted(EXPORT, ("r.bin",)))
    assert f"write a new file: `{FOLDER}/r.bin`" in bench.prompts[0]
    assert list(tmp_path.iterdir()) == []


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


def test_where_nobody_reads_along_nothing_is_put_into_the_outputs(capfd: pytest.CaptureFixture[str]) -> None:
    bench = Bench(lambda _fields: {}, person="")
    bench.tell(ended(held=1, bytes=1, committed=["a"], committed_count=1, conflicts=["b"], conflict_count=1))
    assert bench.shown == []
    assert "held in the sandbox" in capfd.readouterr().err
    assert bench.files.held == (1, 1)


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
