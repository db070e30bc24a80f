"""What a cell's end does with files, as a client sees it: new ones come with the reply, and can be taken back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from live_kernel import notebook
from waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from live_kernel import Notebook

pytestmark = [pytest.mark.sandbox, pytest.mark.requires("user_namespaces", "overlay")]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of the module's kernel; its workspace is ``work`` in it."""
    return tmp_path_factory.mktemp("cells")


@pytest.fixture(scope="module")
def book(folder: Path) -> Iterator[Notebook]:
    """Return a notebook whose artifact store has no room at all."""
    (folder / "work").mkdir()
    (folder / "work" / "there.txt").write_text("there")
    with notebook(
        folder, SENTINEL_PROFILE="datascience", SENTINEL_ARTIFACTS="/proc/sentinel", SENTINEL_SPARE="off"
    ) as running:
        yield running


def reply(book: Notebook, code: str) -> Any:
    """Run a cell and return its reply, without waiting for anything else of it."""
    message_id = book.send(code)
    while True:
        message = book.client.get_shell_msg(timeout=60)
        if message["parent_header"]["msg_id"] == message_id:
            return message["content"]


def test_who_has_the_reply_finds_new_files_in_the_folder(book: Notebook, folder: Path) -> None:
    for number in range(5):
        name = f"new-{number}.csv"
        assert reply(book, f"open({name!r}, 'w').write('x' * 100_000)")["status"] == "ok"
        assert (folder / "work" / name).read_text() == "x" * 100_000


def test_what_could_not_be_saved_is_told_before(book: Notebook, folder: Path) -> None:
    book.run("open('there.txt', 'a').write(' and more')")
    log = folder / "kernel.log"
    wait_until(lambda: "would be lost if the sandbox ended now" in log.read_text(), "the warning")
    assert (folder / "work" / "there.txt").read_text() == "there"


def test_undo_takes_back_cell_by_cell(book: Notebook, folder: Path) -> None:
    work = folder / "work"
    book.run("open('undone.csv', 'w').write('1')")
    book.run("open('.held', 'w').write('first')")
    book.run("open('.held', 'w').write('second version')")
    assert (work / "undone.csv").read_text() == "1"
    book.run("%sentinel_undo")
    assert book.run("print(open('.held').read(), end='')").text == "first"
    book.run("%sentinel_undo")
    assert (
        book.run("import os; print(os.path.exists('.held'), os.path.exists('undone.csv'))").text
        == "False True\n"
    )
    book.run("%sentinel_undo")
    assert not (work / "undone.csv").exists()
    assert book.run("print(os.path.exists('undone.csv'))").text == "False\n"
    assert (work / "new-4.csv").exists()


def test_folders_alone_are_told_of_and_undone(book: Notebook, folder: Path) -> None:
    told = book.run("import os; os.makedirs('made/empty')").bundles("text/plain")
    assert any("2 new folders with no files were made on this machine" in text for text in told), told
    assert (folder / "work/made/empty").is_dir()
    told = book.run("%sentinel_undo").bundles("text/plain")
    assert any("2 folders" in text and "made/empty/" in text for text in told), told
    assert not any("nothing to take back" in text for text in told), told
    assert not (folder / "work/made").exists()
    assert book.run("print(os.path.exists('made'))").text == "False\n"


def test_a_folder_that_a_person_has_used_since_stays_for_cells_too(book: Notebook, folder: Path) -> None:
    book.run("import os; os.mkdir('made')")
    (folder / "work/made/mine.csv").write_text("the person's own")
    told = book.run("%sentinel_undo").bundles("text/plain")
    assert any("made" in text and "you changed it on this machine since" in text for text in told), told
    assert not any("%sentinel_discard" in text for text in told), told
    assert book.run("print(open('made/mine.csv').read())").text == "the person's own\n"
    told = book.run("%sentinel_files").bundles("text/plain")
    assert not any("made" in text for text in told), told


def test_undo_leaves_what_was_changed_on_the_host_since(book: Notebook, folder: Path) -> None:
    book.run("open('edited.csv', 'w').write('1')")
    (folder / "work" / "edited.csv").write_text("the person's own")
    told = book.run("%sentinel_undo")
    assert (folder / "work" / "edited.csv").read_text() == "the person's own"
    assert any("edited.csv" in text for text in told.bundles("text/plain"))


def test_a_kernel_can_be_started_that_commits_nothing_by_itself(tmp_path: Path) -> None:
    with notebook(tmp_path, SENTINEL_PROFILE="datascience", SENTINEL_COMMIT="none") as book:
        assert reply(book, "open('new.csv', 'w').write('1')")["status"] == "ok"
        book.run("pass")
        assert not (tmp_path / "work" / "new.csv").exists()
        assert book.run("print(open('new.csv').read())").text == "1\n"  # positive control
