"""What a cell writes again reaches the folder like the first time, and an undo brings the former file back."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
import zmq
from live_kernel import notebook
from waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from live_kernel import Notebook

pytestmark = [pytest.mark.sandbox, pytest.mark.requires("user_namespaces", "overlay")]


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the workspace of the module's kernel."""
    work = tmp_path_factory.mktemp("again") / "work"
    work.mkdir()
    return work


@pytest.fixture(scope="module")
def book(work: Path) -> Iterator[Notebook]:
    """Return a notebook that commits new files by itself."""
    with notebook(work.parent, SENTINEL_PROFILE="datascience", SENTINEL_SPARE="off") as running:
        yield running


def write(name: str, text: str, mode: str = "w") -> str:
    return f"with open({name!r}, {mode!r}) as file: file.write({text!r})"


def test_what_a_cell_writes_again_reaches_the_folder_and_is_taken_back_step_by_step(
    book: Notebook, work: Path
) -> None:
    book.run(write("res.csv", "v1"))
    assert (work / "res.csv").read_text() == "v1"
    book.run(write("res.csv", "version 2"))
    assert (work / "res.csv").read_text() == "version 2"
    book.run(write("res.csv", " and more", "a"))
    assert (work / "res.csv").read_text() == "version 2 and more"
    book.run(write("res.tmp", "replaced") + "\nimport os; os.replace('res.tmp', 'res.csv')")
    assert (work / "res.csv").read_text() == "replaced"
    for former in ("version 2 and more", "version 2", "v1"):
        book.run("%sentinel_undo")
        assert (work / "res.csv").read_text() == former
        assert book.run("print(open('res.csv').read(), end='')").text == former
    book.run("%sentinel_undo")
    assert not (work / "res.csv").exists()
    assert book.run("print(os.path.exists('res.csv'))").text == "False\n"


def test_what_somebody_has_touched_on_the_host_is_theirs(book: Notebook, work: Path) -> None:
    book.run(write("mine.csv", "cell"))
    (work / "mine.csv").write_text("the person's own")
    book.run(write("mine.csv", "cell again"))
    assert (work / "mine.csv").read_text() == "the person's own"
    told = " ".join(book.run("%sentinel_files").bundles("text/plain"))
    assert "mine.csv" in told
    book.run("%sentinel_discard mine.csv")
    assert book.run("print(open('mine.csv').read(), end='')").text == "the person's own"


def test_what_stays_open_is_written_at_each_cells_end(book: Notebook, work: Path) -> None:
    book.run("log = open('run.log', 'a'); log.write('one\\n'); log.flush()")
    assert (work / "run.log").read_text() == "one\n"
    book.run("log.write('two\\n'); log.flush()")
    wait_until(lambda: (work / "run.log").read_text() == "one\ntwo\n", "the second line")
    book.run("_ = log.write('three\\n'); log.flush()")
    wait_until(lambda: (work / "run.log").read_text() == "one\ntwo\nthree\n", "the third")
    book.run("log.close()")


def test_a_database_is_written_once_its_transaction_is_over(book: Notebook, work: Path) -> None:
    book.run(
        "import sqlite3; c = sqlite3.connect('my.db')\n"
        "_ = c.execute('create table t(a)'); c.commit(); _ = c.execute('insert into t values(1)')"
    )
    assert not list(work.glob("my.db*"))
    book.run("c.commit()")
    assert [path.name for path in work.glob("my.db*")] == ["my.db"]
    book.run("c.close()")


def test_undo_says_whose_the_file_is(book: Notebook, work: Path) -> None:
    book.run(write("u.csv", "cell"))
    (work / "u.csv").write_text("an edit of the person's")
    told = " ".join(book.run("%sentinel_undo").bundles("text/plain"))
    assert "you changed it on this machine since; it stays yours" in told
    assert "Run the line again" not in told
    assert (work / "u.csv").read_text() == "an edit of the person's"


def test_undo_of_new_folders_counts_files_and_leaves_nothing_held(book: Notebook, work: Path) -> None:
    book.run("%sentinel_discard --all")
    book.run("os.makedirs('out/a/b')\n" + write("out/a/b/t.txt", "x"))
    assert (work / "out/a/b/t.txt").read_text() == "x"
    told = " ".join(book.run("%sentinel_undo").bundles("text/plain"))
    assert "1 file (1 B)" in told
    assert re.search(r"It was cell \[\d+\] that wrote it\b", told)
    assert "Still held" not in told
    assert not (work / "out").exists()


def test_a_commit_over_a_file_is_taken_back(book: Notebook, work: Path) -> None:
    (work / "theirs.csv").write_text("theirs")
    book.run(write("theirs.csv", "the cell's"))
    assert (work / "theirs.csv").read_text() == "theirs"
    line = book.send("%sentinel_commit theirs.csv", allow_stdin=True)
    book.client.get_stdin_msg(timeout=60)
    book.client.input("y")
    book.collect(line)
    assert (work / "theirs.csv").read_text() == "the cell's"
    book.run("%sentinel_undo")
    assert (work / "theirs.csv").read_text() == "theirs"
    assert book.run("print(open('theirs.csv').read(), end='')").text == "the cell's"


def commit(book: Notebook, line: str) -> str:
    """Commit with a yes to each question; return the questions."""
    running = book.send(f"%sentinel_commit {line}", allow_stdin=True)
    asked = []
    stdin, poller = book.client.stdin_channel.socket, zmq.Poller()
    for socket in (stdin, book.client.shell_channel.socket):
        poller.register(socket, zmq.POLLIN)
    while stdin in dict(poller.poll(60_000)):
        asked.append(book.client.get_stdin_msg(timeout=60)["content"]["prompt"])
        book.client.input("y")
    book.collect(running)
    return " ".join(asked)


def test_all_of_a_commit_is_taken_back_and_then_all_of_the_cell(book: Notebook, work: Path) -> None:
    (work / "had.csv").write_text("had")
    written = {"s.py": "1", "with space.py": "2", "n.csv": "3", "o/deep.py": "4"}
    cell = ["import os; os.mkdir('o')", write("had.csv", "x", "a"), *(write(*one) for one in written.items())]
    book.run("\n".join(cell))
    assert [name for name in written if (work / name).exists()] == ["n.csv"]
    commit(book, "had.csv s.py 'with space.py' o")
    texts = {"had.csv": "hadx", **written}
    assert {name: (work / name).read_text() for name in texts} == texts
    told = " ".join(book.run("%sentinel_undo").bundles("text/plain"))
    assert "4 files" in told
    assert (work / "had.csv").read_text() == "had"
    assert (work / "n.csv").read_text() == "3"
    assert [name for name in written if (work / name).exists()] == ["n.csv"]
    inside = f"print({{name: open(name).read() for name in {list(texts)}}} == {texts})"
    assert book.run(inside).text == "True\n"
    told = " ".join(book.run("%sentinel_undo").bundles("text/plain"))
    assert "5 files" in told
    assert not [name for name in (*written, "o") if (work / name).exists()]
    gone = [name for name in texts if name != "had.csv"]
    seen = book.run(f"print(open('had.csv').read(), [os.path.exists(name) for name in {[*gone, 'o']}])").text
    assert seen == f"had {[False] * 5}\n"


def test_what_the_host_has_changed_since_a_commit_stays_and_the_rest_is_taken_back(
    book: Notebook, work: Path
) -> None:
    (work / "mode.csv").write_text("m")
    (work / "mode.csv").chmod(0o644)
    book.run(
        "\n".join(
            (write("net.pt", "1"), write("theirs now.py", "2"), "import os; os.chmod('mode.csv', 0o600)")
        )
    )
    commit(book, "'theirs now.py' *.pt mode.csv")
    assert (work / "mode.csv").stat().st_mode & 0o777 == 0o600
    (work / "theirs now.py").write_text("theirs")
    told = " ".join(book.run("%sentinel_undo").bundles("text/plain"))
    assert "you changed it on this machine since; it stays yours" in told
    assert (work / "theirs now.py").read_text() == "theirs"
    assert (work / "mode.csv").stat().st_mode & 0o777 == 0o644
    assert not (work / "net.pt").exists()
    told = " ".join(book.run("%sentinel_undo").bundles("text/plain"))
    assert "2 files" in told
    assert book.run("print(open('theirs now.py').read(), os.path.exists('net.pt'))").text == "theirs False\n"


def test_a_deletion_that_was_committed_is_taken_back(book: Notebook, work: Path) -> None:
    (work / "dear.csv").write_text("dear")
    (work / "folder").mkdir()
    (work / "folder/in.csv").write_text("in")
    book.run("import shutil; os.remove('dear.csv'); shutil.rmtree('folder')")
    asked = commit(book, "dear.csv")
    assert "bring" not in asked
    assert not (work / "dear.csv").exists()
    told = " ".join(book.run("%sentinel_undo").bundles("text/plain"))
    assert "1 file" in told
    assert (work / "dear.csv").read_text() == "dear"
    assert book.run("print(os.path.exists('dear.csv'))").text == "False\n"
    asked = commit(book, "folder")
    assert "%sentinel_undo can't bring 2 of these back" in asked
    told = " ".join(book.run("%sentinel_undo").bundles("text/plain"))
    assert "its former version was not kept" in told
    book.run("%sentinel_undo")
    assert book.run("print(open('dear.csv').read(), end='')").text == "dear"


def test_a_change_on_both_sides_is_told_and_put_beside_with_its_ending(book: Notebook, work: Path) -> None:
    book.run(write("both.csv", "the cell's"))
    book.run("x = open('both.csv', 'a'); _ = x.write(' more'); x.flush()")
    wait_until(lambda: (work / "both.csv").read_text() == "the cell's more", "what is open")
    (work / "both.csv").write_text("the person's own")
    book.run("_ = x.write(' and more'); x.close()")
    told = " ".join(book.run("%sentinel_files --diff both.csv").bundles("text/plain"))
    assert "changed on both sides" in told
    line = book.send("%sentinel_commit both.csv", allow_stdin=True)
    book.client.get_stdin_msg(timeout=60)
    book.client.input("y")
    told = " ".join(book.collect(line)[0].bundles("text/plain"))
    beside = [path.name for path in work.glob("both.sentinel-*.csv")]
    assert len(beside) == 1
    assert beside[0] in told
    assert "both.csv" not in told
    assert (work / beside[0]).read_text() == "the cell's more and more"
    assert (work / "both.csv").read_text() == "the person's own"
    (told,) = book.run("%sentinel_undo").bundles("text/plain")
    assert beside[0] in told
    assert "an undo leaves both" in told
    assert "It was cell" not in told
    assert (work / beside[0]).read_text() == "the cell's more and more"
    assert (work / "both.csv").read_text() == "the person's own"


@pytest.mark.parametrize("name", ["f.py", "f.csv"])
@pytest.mark.parametrize("paths", ["**", "the folder"])
def test_what_a_moved_folder_held_is_somewhere_whatever_is_undone(
    book: Notebook, work: Path, name: str, paths: str
) -> None:
    sub = f"sub-{name}-{len(paths)}"
    (work / sub).mkdir()
    (work / sub / name).write_text("dear")
    book.run("%sentinel_discard --all")
    book.run(f"import shutil; shutil.move({sub!r}, {sub + '2'!r})")
    asked = commit(book, "**" if paths == "**" else sub)
    assert "can't bring 2 of these back" in asked
    assert not (work / sub).exists()
    (told,) = book.run("%sentinel_undo").bundles("text/plain")
    assert "its former version was not kept" in told
    assert "run the line again" not in told
    if paths == "**" and name == "f.py":  # else it was committed by itself before, or is held
        assert "it may be the last copy" in told
    for _ in range(2):
        there = book.run(f"print(open({f'{sub}2/{name}'!r}).read(), end='')").text
        assert there == "dear"
        assert (work / f"{sub}2" / name).exists() == (paths == "**" or name == "f.csv")
        book.run("%sentinel_undo")
