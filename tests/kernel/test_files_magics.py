"""The file magics on a real kernel: notices, questions, hostile names, conflicts, exports, runs without a person."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from conversation import Conversation, Exchange
from kernel_roles import roles
from live_kernel import notebook
from waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from live_kernel import Notebook

pytestmark = [
    pytest.mark.sandbox,
    pytest.mark.requires("user_namespaces", "overlay", "fresh_proc", "notifications"),
]

HOSTILE = (
    "<script>alert(1).txt",
    "new\nline.txt",
    "\x1b[2Jclear.txt",
    "\N{RIGHT-TO-LEFT OVERRIDE}txt.exe",
    "not\udcff utf-8.txt",
)
SOMEBODY = 47123
NOTICE = "application/vnd.sentinel.notice+json"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("files")


@pytest.fixture(scope="module")
def book(folder: Path) -> Iterator[Notebook]:
    data = {"XDG_DATA_HOME": str(folder / "data"), "XDG_STATE_HOME": str(folder / "state")}
    with notebook(folder, SENTINEL_SPARE="off", SENTINEL_PROFILE="datascience", **data) as running:
        yield running


@pytest.fixture
def talk(book: Notebook) -> Conversation:
    talk = Conversation(book.client)
    done = talk.run("%sentinel_discard --all")
    assert done.content["status"] == "ok", done.content
    return talk


@pytest.fixture
def work(folder: Path) -> Path:
    return folder / "work"


def shown(exchange: Exchange) -> str:
    """Return the plain text of what the host has shown about a cell."""
    return "\n".join(content["data"].get("text/plain", "") for content in exchange.contents("display_data"))


def writes(path: str, text: str) -> str:
    return f"with open({path!r}, 'w') as file:\n    file.write({text!r})"


def asked(talk: Conversation, code: str, *answers: str) -> Exchange:
    """Run a cell whose questions are answered in turn; return it with its questions."""
    cell = talk.execute(code, allow_stdin=True)
    for answer in answers:
        talk.wait_for_prompt(cell)
        talk.client.input(answer)
    return talk.finish(cell)


@pytest.fixture
def closed(tmp_path: Path) -> Iterator[tuple[Notebook, Path]]:
    """Return a notebook whose folder may not be written to, and that folder."""
    work = tmp_path / "work"
    work.mkdir()
    if os.geteuid() == 0:
        os.chown(work, SOMEBODY, SOMEBODY)  # root's cells write as the folder's owner
    work.chmod(0o555)
    places = {"XDG_DATA_HOME": str(tmp_path / "data"), "SENTINEL_SPARE": "off"}
    with notebook(tmp_path, SENTINEL_PROFILE="datascience", **places) as book:
        yield book, work
    work.chmod(0o755)


def test_a_folder_that_may_not_be_written_to_is_told_without_what_can_not_help(
    closed: tuple[Notebook, Path],
) -> None:
    book, _ = closed
    first = book.run(f"{writes('x.csv', 'x')}\n{writes('y.csv', 'y')}", allow_stdin=True)
    [told] = first.bundles(NOTICE)
    [text] = first.bundles("text/plain")[:2]
    assert told["kind"] == "notice"
    assert "2 files could not be saved on this machine" in text
    assert "may not be written to" in text
    assert "%sentinel_commit" not in text


def test_what_is_found_out_behind_a_cells_idle_is_shown_in_the_next_one(
    closed: tuple[Notebook, Path],
) -> None:
    book, work = closed
    book.run(writes("x.csv", "x"), allow_stdin=True)
    work.chmod(0o755)
    # Nothing tells the first cell's end of it, so that it does not wait. Clients take nothing more behind an idle.
    cells = [book.run("1", allow_stdin=True) for _ in range(3)]
    told = [text for cell in cells for text in cell.bundles("text/plain") if "saved on this machine" in text]
    assert len(told) == 1
    assert "x.csv" in told[0]
    assert (work / "x.csv").read_text() == "x"


def test_without_a_person_a_cell_tells_of_what_is_not_saved_alone_and_what_asks_is_refused(
    talk: Conversation, work: Path
) -> None:
    (work / "kept.txt").write_text("the host's")
    cell = talk.run(writes("kept.txt", "the cell's") + "\n" + writes("result.csv", "a,b\n1,2\n"))
    listed = talk.run("%sentinel_files")
    assert "kept.txt  changed" in shown(listed)
    assert (work / "result.csv").read_text() == "a,b\n1,2\n"
    assert [kind for kind in cell.kinds if kind not in ("busy", "idle")] == ["execute_input", "display_data"]
    assert "1 file that cells changed is held in the sandbox" in shown(cell)
    saved = talk.run(writes("more.csv", "a,b\n1,2\n"))
    assert [kind for kind in saved.kinds if kind not in ("busy", "idle")] == ["execute_input"]
    refused = talk.run("%sentinel_commit kept.txt")
    assert refused.content["ename"] == "FilesError"
    assert "nobody can be asked here" in refused.content["evalue"]
    assert "HINT →" in refused.content["evalue"]
    assert (work / "kept.txt").read_text() == "the host's"


def test_notices_come_once_and_name_files_beside_their_words_alone(talk: Conversation, work: Path) -> None:
    for number in range(2):
        (work / f"own {number}.txt").write_text("the person's")
    cells = [talk.execute(writes(f"note {number}.txt", "x"), allow_stdin=True) for number in range(2)]
    cells.append(talk.execute(writes("own 0.txt", "changed"), allow_stdin=True))
    cells.append(talk.execute(writes("own 1.txt", "changed"), allow_stdin=True))
    for cell in cells:
        talk.finish(cell)
    talk.run("%sentinel_files")

    def told() -> list[Any]:
        contents = [content for cell in cells for content in cell.contents("display_data")]
        return [content["data"] for content in contents if NOTICE in content["data"]]

    talk.wait_for(lambda: len(told()) >= 2, "both notices")
    words = [bundle[NOTICE]["message"]["en"] for bundle in told()]
    assert sorted("held in the sandbox" in text for text in words) == [False, True]
    assert all("note" not in str(bundle[NOTICE]).replace("notebook", "") for bundle in told())
    assert any("note 0.txt" in bundle["text/plain"] for bundle in told())


def test_a_yes_commits_a_no_does_not_and_the_gauge_counts_what_is_held(
    talk: Conversation, work: Path
) -> None:
    (work / "over.txt").write_text("old\n")
    talk.run(writes("over.txt", "new\n"))
    assert "files held 1 (4 B)" in shown(talk.run("%sentinel_files\n%sentinel_gauge"))
    no = asked(talk, "%sentinel_commit over.txt", "n")
    assert "not agreed to" in no.content["evalue"]
    assert (work / "over.txt").read_text() == "old\n"
    yes = asked(talk, "%sentinel_commit over.txt", "y")
    assert "over.txt" in shown(yes)
    assert (work / "over.txt").read_text() == "new\n"
    assert "Nothing is held" in shown(talk.run("%sentinel_files"))


def test_what_would_not_have_been_saved_by_itself_asks_once_and_the_rest_is_saved_without(
    talk: Conversation, work: Path
) -> None:
    option = "--checkpoint-action=exec=sh results.csv"
    waiting = ("conftest.py", "net.pkl", "page.html", "launch.json", option, "~/x.csv")
    code = f"import os; os.mkdir('~')\nfor name in {('saved.csv', *waiting)!r}: open(name, 'w').write('x')"
    assert talk.run(code).content["status"] == "ok"
    assert (work / "saved.csv").read_text() == "x"
    line = "%sentinel_commit\nopen('after.csv', 'w').write('the cell went on')"
    alone = talk.run(line)
    assert "nobody can be asked here" in alone.content["evalue"]
    assert "HINT →" in alone.content["evalue"]
    no = talk.execute(line, allow_stdin=True)
    prompt = talk.wait_for_prompt(no)["content"]["prompt"]
    assert "write new files (7): `" in prompt
    named = prompt.partition("(7): `")[2].partition("`. ")[0].split("`, `")
    assert [set(named[:3]), named[3:4]] == [{option, "~", "~/x.csv"}, ["net.pkl"]]  # the worst first
    assert set(named) == {*waiting, "~"}
    assert "Of these 3 begin with - or ~, which programs take for an option" in prompt
    talk.client.input("n")
    assert "not agreed to" in talk.finish(no).content["evalue"]
    assert not [name for name in (*waiting, "~", "after.csv") if (work / name).exists()]
    assert asked(talk, line, "y").content["status"] == "ok"
    assert [(work / name).read_text() for name in waiting] == ["x"] * len(waiting)


def test_undo_takes_back_one_cell_after_the_other(talk: Conversation, work: Path, folder: Path) -> None:
    for number in (1, 2):
        talk.run(writes(f"step{number}.txt", "x"))
        talk.run("%sentinel_files")
    assert (work / "step2.txt").exists()
    first = shown(talk.run("%sentinel_undo"))
    assert "step2.txt" in first
    kept = first.partition("sentinel-kernel artifacts restore ")[2].split()[0]
    (copy,) = (folder / "data").rglob(f"{kept}/files/step2.txt")
    assert copy.read_text() == "x"
    assert [(work / f"step{number}.txt").exists() for number in (1, 2)] == [True, False]
    assert "step1.txt" in shown(talk.run("%sentinel_undo"))
    assert not (work / "step1.txt").exists()


def test_undo_knows_what_a_cell_wrote_over_in_place_among_many_files(talk: Conversation, work: Path) -> None:
    made = talk.run(
        "import os; os.mkdir('many')\nfor i in range(250):\n    open(f'many/{i}.xyz', 'w').write('old')"
    )
    assert made.content["status"] == "ok"
    talk.run("open('many/7.xyz', 'r+').write('new')")  # as long as before: no number of the layer tells
    undone = talk.run("%sentinel_undo\nprint(open('many/7.xyz').read(), len(os.listdir('many')))")
    assert "7.xyz" in shown(undone)
    assert undone.text == "old 250\n"
    assert not [*work.glob("many/*")]


def test_hostile_names_are_escaped_and_nothing_of_them_is_followed(talk: Conversation, work: Path) -> None:
    names = [name.encode("utf-8", "surrogateescape") for name in HOSTILE]
    talk.run(
        f"for name in {names!r}:\n    open(name, 'w').write('x')\nimport os\nos.symlink('/etc/passwd', 'link.txt')"
    )
    for line in ("%sentinel_files", "%sentinel_files --diff", "%sentinel_files --json"):
        page = talk.run(line)
        for content in page.contents("display_data"):
            html, plain = content["data"].get("text/html", ""), content["data"]["text/plain"]
            assert "<script" not in html
            for character in ("\x1b", "\N{RIGHT-TO-LEFT OVERRIDE}"):
                assert character not in html + plain
            assert "\nline.txt" not in plain
        assert "link.txt" in shown(page)
    assert not (work / "link.txt").is_symlink()
    assert "root:" not in shown(talk.run("%sentinel_files --diff link.txt"))


def test_a_conflict_is_shown_and_a_commit_keeps_both(talk: Conversation, work: Path) -> None:
    (work / "both.txt").write_text("as it was\n")
    talk.run(writes("both.txt", "the cell's\n"))
    talk.run("%sentinel_files")
    (work / "both.txt").write_text("the person's, later\n")
    assert "changed on this machine too" in shown(talk.run("%sentinel_files both.txt"))
    page = asked(talk, "%sentinel_commit both.txt", "y")
    assert "Put beside: both.sentinel-" in shown(page)
    assert (work / "both.txt").read_text() == "the person's, later\n"
    (beside,) = [path for path in work.iterdir() if path.name.startswith("both.sentinel-")]
    assert beside.read_text() == "the cell's\n"


def test_an_export_without_a_person_says_where_the_copy_is(talk: Conversation, folder: Path) -> None:
    talk.run("with open('.hidden.bin', 'wb') as file:\n    file.write(bytes(300_000))")
    page = shown(talk.run("%sentinel_export .hidden.bin"))
    place = folder / "data" / "sentinel-kernel" / "sentinel-exports" / "hidden.bin"
    assert str(place) in page
    assert place.read_bytes() == bytes(300_000)


def test_options_are_completed_and_paths_are_left_to_the_worker(talk: Conversation) -> None:
    for code, expected in (("%sentinel_files --d", ["--diff"]), ("%sentinel_discard -", ["--all"])):
        reply = talk.ask("complete_request", {"code": code, "cursor_pos": len(code)})
        assert reply.content["matches"] == expected
    talk.run(writes("completed.txt", "x"))
    code = "%sentinel_commit comple"
    reply = talk.ask("complete_request", {"code": code, "cursor_pos": len(code)})
    assert any("completed.txt" in match for match in reply.content["matches"])


def test_what_can_not_be_done_says_why_and_what_to_type(talk: Conversation) -> None:
    for line, words in (
        ("%sentinel_commit absent.txt", "no change named `absent.txt` is held"),
        ("%sentinel_export absent.txt", "cells see no file of that name. HINT →"),
        ("%sentinel_files --dif", "Did you mean --diff?"),
        ("%sentinel_filse", "Did you mean %sentinel_files?"),
    ):
        assert words in talk.run(line).content["evalue"]
    for line in ("%sentinel_files absent.txt", "%sentinel_files --diff absent.txt"):
        assert "Nothing of that name is held" in shown(talk.run(line))


def test_a_path_from_where_the_cell_has_gone_is_told_from_the_notebooks_folder(
    talk: Conversation, work: Path
) -> None:
    talk.run(
        "import os; os.makedirs('deep', exist_ok=True); os.chdir('deep'); open('out.py', 'w').write('1')"
    )
    for magic in ("%sentinel_commit", "%sentinel_discard"):
        assert "Type the path from there: `deep/out.py`" in talk.run(f"{magic} out.py").content["evalue"]
    assert not (work / "deep" / "out.py").exists()
    done = asked(talk, "%sentinel_commit deep/out.py\nos.chdir('..')", "y")
    assert done.content["status"] == "ok"
    assert (work / "deep" / "out.py").read_text() == "1"


@pytest.mark.parametrize("ended_by", ["rule", "rule and restart", "init", "supervisor"])
def test_where_held_files_are_is_told_whatever_ended_their_sandbox(tmp_path: Path, ended_by: str) -> None:
    data = {"XDG_DATA_HOME": str(tmp_path / "data"), "XDG_STATE_HOME": str(tmp_path / "state")}
    with notebook(tmp_path, SENTINEL_SPARE="off", **data) as running:
        talk = Conversation(running.client)
        talk.run(writes("keep.py", "1"))
        assert "keep.py  new" in shown(talk.run("%sentinel_files"))
        if ended_by.startswith("rule"):
            killed = talk.run("import ctypes; ctypes.CDLL(None).mount(b'a', b'/mnt', b'tmpfs', 0, 0)")
            assert killed.content["ename"] == "SandboxDied"
            assert "keep.py" not in shown(killed)
        else:
            os.kill(roles(running.manager.provisioner.pid)[ended_by], signal.SIGKILL)
        if ended_by.endswith("restart"):
            running.manager.restart_kernel()
            running.client.wait_for_ready(60)
        told: list[str] = []

        def is_told() -> bool:
            told.append(shown(talk.run("pass")))
            return "one changed file was saved in" in told[-1]

        wait_until(is_told, "what is saved beside the next cells is told of", 60)
        assert "sentinel-kernel artifacts restore" in told[-1]
        listed = shown(talk.run("%sentinel_files"))
        assert "Nothing is held" in listed
        assert "one changed file was saved in" in listed
        assert "saved in" not in shown(talk.run("pass"))
        assert not (tmp_path / "work/keep.py").exists()


def test_a_folder_that_was_made_anew_is_told_as_another_one_and_a_reset_takes_it(tmp_path: Path) -> None:
    data = {"XDG_DATA_HOME": str(tmp_path / "data"), "XDG_STATE_HOME": str(tmp_path / "state")}
    work = tmp_path / "work"
    with notebook(tmp_path, SENTINEL_SPARE="off", SENTINEL_PROFILE="datascience", **data) as running:
        talk = Conversation(running.client)
        talk.run("1")
        work.rename(tmp_path / "old")
        shutil.rmtree(tmp_path / "old")
        work.mkdir()
        said = shown(asked(talk, writes("result.csv", "a")))
        assert "the folder was deleted on this machine; one that has its name now is another" in said
        assert "no change of that name" not in said
        assert "%sentinel_reset" in said
        assert list(work.iterdir()) == []
        talk.run("%sentinel_reset")
        talk.run(writes("later.csv", "b"))
        assert (work / "later.csv").read_text() == "b"


def test_files_in_the_sandboxs_own_home_are_told_of_once_for_each_folder(
    talk: Conversation, work: Path
) -> None:
    hidden = asked(talk, "import os, pathlib\nhome = pathlib.Path.home()\n(home / '.hidden').write_text('x')")
    assert "home folder" not in shown(hidden)
    first = asked(talk, "(home / 'results.csv').write_text('x'); (home / 'more').mkdir()")
    assert "1 file of this cell lies in the sandbox's own copy of the home folder" in shown(first)
    assert "results.csv" in shown(first)
    assert "shutil.move" in shown(first)
    later = asked(talk, "(home / 'other.csv').write_text('x')\nprint((home / 'results.csv').exists())")
    assert later.text == "True\n"
    assert "home folder" not in shown(later)
    below = asked(talk, "(home / 'more' / 'deep.csv').write_text('x')")
    assert "more/deep.csv" in shown(below)
    listed = shown(talk.run("%sentinel_files"))
    assert "3 files lie in the sandbox's own home or temporary folder" in listed
    assert "more/deep.csv" in listed
    asked(talk, "import shutil\nshutil.move(home / 'results.csv', 'results.csv')")
    assert "2 files lie in the sandbox's own home" in shown(talk.run("%sentinel_files"))
    assert (work / "results.csv").exists()


def test_files_above_a_notebook_below_tmp_are_told_of_once(talk: Conversation, work: Path) -> None:
    assert work.is_relative_to("/tmp"), work
    in_tmp_itself = asked(talk, "open('/tmp/scratch.csv', 'w').close()")
    assert "own /tmp" not in shown(in_tmp_itself)
    first = asked(talk, "open('../above.csv', 'w').write('x')")
    assert (
        "1 file of this cell lies in the sandbox's own /tmp, beside or above the notebook's folder"
        in shown(first)
    )
    assert str(work.parent / "above.csv") in shown(first)
    assert "own /tmp" not in shown(asked(talk, "open('../other.csv', 'w').close()"))
    assert "own home or temporary folder" in shown(talk.run("%sentinel_files"))
    assert not (work.parent / "above.csv").exists()


def watches(host: int) -> int:
    """Return how many folders of the host the supervisor of a kernel watches."""
    found = 0
    for tasks in Path(f"/proc/{host}/task").iterdir():
        for child in (tasks / "children").read_text().split():
            for opened in Path(f"/proc/{child}/fdinfo").iterdir():
                with contextlib.suppress(FileNotFoundError):
                    found += opened.read_text().count("inotify wd:")
    return found


def test_what_comes_to_a_watched_folder_is_seen_by_the_next_cell(
    book: Notebook, talk: Conversation, work: Path
) -> None:
    (work / "watched").mkdir(exist_ok=True)
    (work / "watched/module.py").write_text("old")
    read = "import pathlib; late = pathlib.Path('watched/late.txt'); print(late.exists())"
    read += "\nprint(pathlib.Path('watched/module.py').read_text())"
    talk.run(read)
    wait_until(lambda: watches(book.manager.provisioner.pid) > 1, "the folder is watched", 60)
    assert talk.run(read).text == talk.run(read).text == "False\nold\n"
    (work / "watched/late.txt").write_text("late")
    (work / "watched/other").write_text("new")
    (work / "watched/other").rename(work / "watched/module.py")
    assert talk.run(read).text == "True\nnew\n"
    assert talk.run("print(late.read_text())").text == "late\n"


def test_what_is_saved_behind_its_cells_end_is_told_in_the_next(tmp_path: Path) -> None:
    log, told = tmp_path / "kernel.log", "changed files were saved in"
    data = {"XDG_DATA_HOME": str(tmp_path / "data"), "XDG_STATE_HOME": str(tmp_path / "state")}
    with notebook(tmp_path, SENTINEL_SPARE="off", **data) as running:
        talk = Conversation(running.client)
        talk.run("for i in range(4000):\n    open(f'{i}.xyz', 'w').close()")
        asked_for = talk.run("%sentinel_reset\n1")
        wait_until(lambda: told in log.read_text(), "the files are saved", 60)
        assert told in shown(asked_for) + shown(talk.run("1"))
        assert told not in shown(talk.run("1"))
