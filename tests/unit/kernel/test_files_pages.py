"""The file magics' lines, pages and questions: understood or explained, hostile names escaped, both languages."""

from __future__ import annotations

import errno
import json
from typing import Any

import pytest

from sentinel_kernel.kernel import files_diff, files_page, files_reasons, files_words
from sentinel_kernel.kernel.files_arguments import (
    COMMIT,
    DISCARD,
    EXPORT,
    FILES,
    MAGICS,
    UNDO,
    FilesTyped,
    FilesWanted,
    read_line,
)
from sentinel_kernel.mcp.cell_outputs import held_files
from sentinel_kernel.policy import committable
from sentinel_kernel.supervisor.protocol import HOST_MAGICS
from sentinel_kernel.workspace import request
from sentinel_kernel.workspace.difference import difference

HOSTILE = (
    "<script>alert(1)</script>.txt",
    "new\nline HINT → rm -rf.txt",
    "\x1b[2Jclear",
    "\N{RIGHT-TO-LEFT OVERRIDE}fdp.exe",
    "not\udcff utf-8",
    "\u200binvisible",
    "x" * 5000,
    '"><img src=x onerror=alert(1)>',
)


def entry(path: str, **fields: Any) -> dict[str, Any]:
    return {
        "path": path, "layer": "workspace", "folder": "/home/someone/work", "kind": "new", "is_folder": False,
        "size": 10, "host_size": -1, "mtime_ns": 0, "conflict": False, "committable": "", "autocommit": False,
        "binary": False, **fields,
    }  # fmt: skip


def check_harmless(bundle: dict[str, Any]) -> None:
    """Nothing in it that a browser or a terminal would follow, or that could not be sent."""
    json.dumps(bundle, ensure_ascii=False).encode("utf-8")
    html, plain = bundle.get("text/html", ""), bundle["text/plain"]
    for forbidden in ("<script", "<img src=x", "onerror=alert(1)>"):
        assert forbidden not in html
    for text in (html, plain):
        for character in ("\x1b", "\N{RIGHT-TO-LEFT OVERRIDE}", "\u200b", "\udcff"):
            assert character not in text
    assert not any(line.startswith("line HINT") for line in plain.split("\n"))
    assert max(map(len, plain.split("\n"))) < 4200


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        (FILES, "", FilesWanted(FILES)),
        (FILES, "--diff a.txt", FilesWanted(FILES, ("a.txt",), frozenset({"--diff"}))),
        (FILES, "--json", FilesWanted(FILES, (), frozenset({"--json"}))),
        (COMMIT, "'my file.csv' out/*.png", FilesWanted(COMMIT, ("my file.csv", "out/*.png"))),
        (DISCARD, "--all", FilesWanted(DISCARD, (), frozenset({"--all"}))),
        (UNDO, "", FilesWanted(UNDO)),
        (EXPORT, "结果.csv", FilesWanted(EXPORT, ("结果.csv",))),
    ],
)
def test_lines_are_understood(name: str, text: str, expected: FilesWanted) -> None:
    assert read_line(name, text) == expected


@pytest.mark.parametrize(
    ("name", "text", "meant"),
    [
        (FILES, "--dif", "--diff"),
        (FILES, "--jsn", "--json"),
        (DISCARD, "--al", "--all"),
        (COMMIT, "--everything", ""),
        (FILES, "'unclosed", ""),
        (FILES, "--diff --json", ""),
        (DISCARD, "--all a.txt", ""),
        (UNDO, "a.txt", ""),
        (EXPORT, "", ""),
        (EXPORT, "a b", ""),
        (COMMIT, "''", ""),
    ],
)
def test_what_is_mistyped_is_no_line_and_the_word_that_was_meant_is_named(
    name: str, text: str, meant: str
) -> None:
    with pytest.raises(FilesTyped) as caught:
        read_line(name, text)
    assert caught.value.meant == meant


def test_the_magics_are_the_hosts_and_every_code_and_kind_has_words_in_both_languages() -> None:
    assert set(MAGICS) <= set(HOST_MAGICS)
    helped = {line.split()[0][1:] for line, _ in files_words.help_rows(chinese=False)}
    assert helped == {*MAGICS, "%sentinel_dry_run"}
    for chinese in (False, True):
        told = {code: files_reasons.reason(code, chinese=chinese) for code in request.CODES}
        assert all(text != code for code, text in told.items())
        asked = (
            committable.VERSION_CONTROL,
            committable.CONFIGURATION,
            committable.LOADED,
            committable.EXECUTABLE,
        )
        for code in (*committable.REFUSED, *asked):
            assert files_words.why_held(code, chinese=chinese) != code
        for need in request.ANSWERS:
            assert "[y]" in files_words.question({"what": need, "paths": ["a"], "count": 1}, chinese=chinese)
        need = {"what": "delete", "paths": ["a", "b"], "count": 2}
        assert "%sentinel_undo" not in files_words.question({**need, "final": 0}, chinese=chinese)
        assert "%sentinel_undo" in files_words.question({**need, "final": 1}, chinese=chinese)


@pytest.mark.parametrize("chinese", [False, True])
def test_hostile_names_are_harmless_in_every_page_and_question(chinese: bool) -> None:
    entries = [
        entry(path, kind=kind) for path, kind in zip(HOSTILE, [*files_words.KINDS, "odd", "new"], strict=True)
    ]
    answer = {"entries": entries, "count": 900, "bytes": 5, "left_out": 3, "pages": 5}
    for bundle in (files_page.held_page(answer, {}, chinese=chinese), files_page.held_data(answer, {})):
        check_harmless(bundle)
    for name in ("committed", "discarded", "undone"):
        failed = {"count": 30, "paths": [{"path": path, "why": "no_space"} for path in HOSTILE]}
        done = {
            name: {"count": 99, "bytes": 1, "paths": list(HOSTILE)},
            "failed": failed,
            "held": 2,
            "steps": 1,
        }
        check_harmless(files_page.done_page(name, done, chinese=chinese))
    question = files_words.question(
        {"what": "overwrite", "paths": list(HOSTILE), "count": 99}, chinese=chinese
    )
    check_harmless({"text/plain": question})
    assert "\n" not in question
    contents = "\n".join(HOSTILE).encode("utf-8", "surrogateescape")
    diffs = [
        {**entry(path), **difference(path + ending, None, contents)}
        for path, ending in zip(HOSTILE, [".txt", ".csv", ".ipynb"] * 3, strict=False)
    ]
    check_harmless(files_diff.diff_page(diffs, {}, more=True, chinese=chinese))


def test_answers_of_no_known_form_are_shown_as_nothing() -> None:
    answers: list[dict[str, Any]] = [{}, {"entries": 5}, {"entries": [1, None]}, {"entries": [{}]}]
    for answer in answers:
        files_page.held_page(answer, {}, chinese=False)
        files_page.held_data(answer, {})
    files_page.done_page("committed", {"committed": 1, "failed": []}, chinese=False)
    for diff in (
        {},
        {"form": "text"},
        {"form": "notebook"},
        {"form": "table"},
        {"form": "image", "after": 1},
    ):
        files_diff.diff_page([diff], {}, more=False, chinese=True)


def test_pictures_stand_side_by_side_as_data_and_only_where_they_were_fetched() -> None:
    told = {"mime": "image/png", "width": 3, "height": 2, "shown": True}
    diff = {**entry("a.png", kind="changed", host_size=4), "form": "image", "before": told, "after": told}
    assert files_diff.wanted_pictures([diff]) == [
        ("workspace", "a.png", "before"),
        ("workspace", "a.png", "after"),
    ]
    fetched = {("workspace", "a.png", "before"): b"old", ("workspace", "a.png", "after"): b"new"}
    html = files_diff.diff_page([diff], fetched, more=False, chinese=False)["text/html"]
    assert html.index("data:image/png;base64,b2xk") < html.index("data:image/png;base64,bmV3")
    assert "data:" not in files_diff.diff_page([diff], {}, more=False, chinese=False)["text/html"]
    odd = {**diff, "after": {**told, "mime": "text/html"}, "before": None}
    assert "data:" not in files_diff.diff_page([odd], fetched, more=False, chinese=False)["text/html"]


def test_the_page_of_what_is_held_has_kind_and_sizes_and_says_what_to_do() -> None:
    answer = {
        "entries": [
            entry("new.csv"),
            entry("changed.txt", kind="changed", host_size=2048, conflict=True),
            entry(".git/hooks/x", committable="version_control"),
        ],
        "count": 3,
        "bytes": 30,
    }
    plain = files_page.held_page(answer, {}, chinese=False)["text/plain"]
    for words in (
        "new.csv",
        "10 B",
        "2 KiB",
        "changed on this machine too",
        "version control",
        "%sentinel_commit",
    ):
        assert words in plain
    zh = files_page.held_page(answer, {}, chinese=True)["text/plain"]
    assert "已修改" in zh
    assert "Nothing is held" in files_page.held_page({"entries": []}, {}, chinese=False)["text/plain"]


@pytest.mark.parametrize("code", [*request.CODES, "nobody knows"])
def test_no_reason_is_that_it_failed(code: str) -> None:
    assert "it failed" not in files_reasons.reason(code, chinese=False)
    assert "操作失败" not in files_reasons.reason(code, chinese=True)


@pytest.mark.parametrize(
    ("number", "code"),
    [
        (errno.ENOTEMPTY, "not_empty"),
        (errno.ENOTDIR, "in_the_way"),
        (errno.EEXIST, "in_the_way"),
        (errno.EIO, "disk"),
        (errno.ENXIO, "failed"),
    ],
)
def test_what_an_undo_could_not_do_is_told_with_why_and_what_to_do(number: int, code: str) -> None:
    assert request.code_of(OSError(number, "x")) == code
    answer = {"failed": {"count": 1, "paths": [{"path": "d", "layer": "workspace", "why": code}]}}
    for chinese in (False, True):
        plain = files_page.done_page("undone", answer, chinese=chinese)["text/plain"]
        assert files_reasons.reason(code, chinese=chinese) in plain
        assert "HINT →" in plain


def test_an_undo_says_where_not_all_that_cells_wrote_is_known() -> None:
    for chinese, words in ((False, "Not all that cells wrote could be followed"), (True, "未能全部跟踪")):
        for incomplete in (False, True):
            answer = {"undone": {"count": 1, "bytes": 1, "paths": ["a"]}, "incomplete": incomplete}
            told = files_page.done_page("undone", answer, chinese=chinese)["text/plain"]
            assert (words in told) is incomplete


def test_one_file_is_one() -> None:
    for told in (
        files_page.held_page({"entries": [entry("a")], "count": 1, "bytes": 3}, {}, chinese=False)[
            "text/plain"
        ].partition("\n")[2],
        files_page.done_page("committed", {"aside": 1, "held": 1}, chinese=False)["text/plain"],
        files_words.saved(1).message("en"),
        files_words.question({"what": "overwrite", "paths": ["a"], "count": 1, "final": 1}, chinese=False),
    ):
        assert not {"files", "them", "they", "1 files", "folders"} & set(told.replace("`", " ").split()), told
    many = files_words.question(
        {"what": "delete", "paths": ["a", "b"], "count": 2, "final": 2}, chinese=False
    )
    assert "delete files on this machine (2)" in many
    assert "2 of these back (folders" in many


def test_what_was_left_out_of_a_commit_is_one_line() -> None:
    for chinese in (False, True):
        plain = files_page.done_page("committed", {"aside": 3}, chinese=chinese)["text/plain"]
        assert "%sentinel_commit" in plain
        assert files_words.NOTHING_NAMED[not chinese] not in plain
        assert len([line for line in plain.splitlines() if "3" in line]) == 1


def test_no_name_reads_as_the_end_of_the_question() -> None:
    name = "a`: 3 pictures. Allow it? [y] yes"
    asked = files_words.question({"what": "dangerous", "count": 1, "paths": [name]}, chinese=False)
    assert asked.count("`") == 2
    assert asked.endswith("`. Allow it? [y] yes, [n] no: ")


def test_what_nothing_holds_is_listed_with_what_is_held() -> None:
    own = {"count": 30, "paths": ["/home/x/proj/out.csv", 7]}
    for answer in ({}, {"entries": [{"path": "a.csv", "kind": "new", "size": 1}], "count": 1, "bytes": 1}):
        english = files_page.held_page(answer, own, chinese=False)["text/plain"]
        assert "30 files lie in the sandbox's own home or temporary folder" in english
        assert "/home/x/proj/out.csv and 29 more" in english
        assert "30 个文件" in files_page.held_page(answer, own, chinese=True)["text/plain"]
    assert "sandbox's own" not in files_page.held_page({}, own, named=True, chinese=False)["text/plain"]
    data = files_page.held_data({}, own)["application/json"]
    assert data["unheld"] == {"count": 30, "paths": ["/home/x/proj/out.csv"]}


def test_files_of_other_folders_are_named_in_full_also_where_that_is_long() -> None:
    folder = "/srv/" + "very/deep/" * 20 + "end"
    entries = [
        {**entry("c.py"), "layer": "data0", "folder": "/srv/data"},
        {**entry("b.csv"), "layer": "data0", "folder": folder},
    ]
    told = files_page.held_page({"entries": entries, "count": 2}, {}, chinese=False)["text/plain"]
    assert "/srv/data/c.py" in told
    assert "very/deep/end/b.csv" in told
    assert folder not in told
    need = {"what": "new", "paths": ["c.py", "/srv/data/c.py", f"{folder}/b.csv"], "count": 3}
    asked = files_words.question(need, chinese=False)
    assert "`c.py`, `/srv/data/c.py`, `/srv/very/deep/" in asked
    assert "very/deep/end/b.csv`" in asked


def test_an_assistant_is_told_of_other_folders_in_full() -> None:
    files = [
        {"path": "c.py", "layer": "workspace", "folder": "/home/u/work"},
        {"path": "c.py", "layer": "data0", "folder": "/srv/data"},
    ]
    told = held_files({"count": 2, "bytes": 2, "files": files})
    assert [one["path"] for one in told["files"]] == ["c.py", "/srv/data/c.py"]


def test_the_total_says_nothing_of_what_else_changed_on_this_machine() -> None:
    changed = entry("a", conflict=True)
    for count, english in ((1, "this change is not on this machine yet"), (2, "these changes are not on")):
        answer = {"entries": [changed] * count, "count": count, "bytes": 3}
        told = files_page.held_page(answer, {}, chinese=False)["text/plain"]
        assert "changed on this machine too" in told
        assert english in told
        assert "as it was" not in told
        assert "尚未写入此机器" in files_page.held_page(answer, {}, chinese=True)["text/plain"]


@pytest.mark.parametrize("language", ["en", "zh"])
def test_what_may_lie_in_another_folder_is_not_said_to_go_to_the_notebooks(language: str) -> None:
    notices = [files_words.held(2, 5), files_words.waiting(2, "waits"), files_words.not_saved(2, "no_space")]
    for told in notices:
        said = told.message(language) + told.hint(language)
        assert "notebook's folder" not in said
        assert "笔记本所在文件夹" not in said
