"""Folders shown at the person's word: by the magic, and those that a profile wants to be written."""

from __future__ import annotations

import contextlib
import json
import sqlite3
from typing import TYPE_CHECKING

import pytest
from conversation import Conversation, Exchange
from live_kernel import Notebook, notebook

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.requires("user_namespaces", "overlay")


def begin(talk: Conversation, code: str) -> Exchange:
    return talk.execute(code, allow_stdin=True)


def question(talk: Conversation, exchange: Exchange) -> str:
    """Wait for the host's question about a cell and return its prompt."""
    prompt: str = talk.wait_for_prompt(exchange)["content"]["prompt"]
    assert prompt.startswith("Sentinel asks: ")
    return prompt


def boxes(exchange: Exchange) -> list[str]:
    """Return the plain text of all that the host showed."""
    return [
        content["data"]["text/plain"] for content in exchange.contents("display_data", "update_display_data")
    ]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with data, results and a home beside the notebook's."""
    folder = tmp_path_factory.mktemp("mounting")
    for name in ("data", "results", "agreed/saved", "home/.ssh", "home/rivers"):
        (folder / name).mkdir(parents=True)
    (folder / "data" / "table.csv").write_text("a\n1\n")
    (folder / "home" / "rivers" / "elbe.txt").write_text("1094 km")
    return folder


@pytest.fixture(scope="module")
def book(folder: Path) -> Iterator[Notebook]:
    """Return a notebook whose profile wants one folder to be written."""
    mounts = [{"path": str(folder / name), "mode": "rw"} for name in ("results", "agreed")]
    profiles = folder / "config" / "sentinel-kernel" / "profiles"
    profiles.mkdir(parents=True)
    (profiles / "writing.json").write_text(
        json.dumps(
            {"extends": "strict", "filesystem": {"mounts": mounts, "hidden": [str(folder / "data/conf")]}}
        )
    )
    with notebook(
        folder,
        XDG_CONFIG_HOME=str(folder / "config"),
        HOME=str(folder / "home"),
        XDG_STATE_HOME=str(folder / "state"),
        SENTINEL_WRITABLE=f"/nowhere:{folder / 'agreed'}",
        SENTINEL_ARTIFACTS=str(folder / "agreed" / "saved"),
        SENTINEL_PROFILE="writing",
        SENTINEL_SPARE="off",
    ) as running:
        yield running


@pytest.fixture
def talk(book: Notebook) -> Conversation:
    return Conversation(book.client)


def test_profiles_folder_is_written_once_the_person_has_agreed_and_asked_about_once(
    talk: Conversation, folder: Path
) -> None:
    results = folder / "results"
    write = f"print(open({str(results)!r} + '/first.txt', 'w').write('x'))"
    cell = begin(talk, write)
    prompt = question(talk, cell)
    assert f"the profile 'writing' wants to change the folder {results} of the host itself" in prompt
    assert not list(results.iterdir())
    talk.client.input("y")
    assert talk.finish(cell).text == "1\n", boxes(cell)
    assert (results / "first.txt").read_text() == "x"
    # The same answer holds after a reset, where nobody is asked any more.
    again = talk.run(f"%sentinel_reset\nprint(open({str(results)!r} + '/second.txt', 'w').write('xy'))")
    assert again.text == "2\n", boxes(again)
    assert (results / "second.txt").read_text() == "xy"


def test_folder_that_was_agreed_to_beforehand_is_written_and_asked_about_never(
    talk: Conversation, folder: Path
) -> None:
    cell = talk.run(f"print(open({str(folder / 'agreed')!r} + '/out.txt', 'w').write('xyz'))")
    assert cell.text == "3\n", boxes(cell)
    assert (folder / "agreed" / "out.txt").read_text() == "xyz"
    assert (
        "by the profile (can be read; written once you have agreed)" in boxes(talk.run("%sentinel_mount"))[0]
    )
    # What is written there can't be taken back: there are no dry runs beside it.
    dry = talk.run(f"%%sentinel_dry_run\nopen({str(folder / 'agreed')!r} + '/dry.txt', 'w').write('x')")
    assert dry.content["ename"] == "DryRunError"
    assert "change a folder of this machine directly" in dry.content["evalue"]
    assert not (folder / "agreed" / "dry.txt").exists()


def test_magic_shows_a_folder_and_keeps_the_variables_and_the_worker_may_die(
    talk: Conversation, folder: Path
) -> None:
    talk.run("kept = [1, 2, 3]")
    cell = begin(talk, f"%sentinel_mount {folder / 'data'}\nprint(kept, open('/mnt/data/table.csv').read())")
    assert f"this cell wants to read the folder {folder / 'data'} of the host" in question(talk, cell)
    talk.client.input("y")
    assert talk.finish(cell).text == "[1, 2, 3] a\n1\n\n", boxes(cell)
    assert f"/mnt/data  {folder / 'data'} (can be read)" in boxes(cell)[0]
    (folder / "data" / "conf" / "key.pem").parent.mkdir()
    (folder / "data" / "conf" / "key.pem").write_text("hidden by the profile, and made later")
    late = talk.run("import os; print(os.listdir('/mnt/data'))")
    assert late.text == "['table.csv']\n"
    refused = talk.run("open('/mnt/data/new', 'w')")
    assert refused.reply["content"]["ename"] == "OSError"
    assert "Read-only file system" in refused.reply["content"]["evalue"]
    for magic in ("%sentinel_mount", "%sentinel_status", "%sentinel_gauge"):
        assert "/mnt/data" in boxes(talk.run(magic))[0]
    talk.run("import os, signal; os.kill(os.getpid(), signal.SIGKILL)")
    assert talk.run("print(open('/mnt/data/table.csv').read())").text == "a\n1\n\n"
    removed = talk.run("%sentinel_mount --remove data\nimport os; print(os.path.exists('/mnt/data'))")
    assert removed.text == "False\n", boxes(removed)
    assert "None were shown" not in boxes(talk.run("%sentinel_mount"))[0]  # the profile's folder still is
    (database,) = (folder / "state").rglob("audit.db")
    boxes(talk.run("%sentinel_audit"))  # it waits until all is written
    with contextlib.closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as rows:
        noted = [
            kind for (kind,) in rows.execute("SELECT kind FROM session_events WHERE kind LIKE '%mount%'")
        ]
    assert noted == ["mount"] * 5 + ["unmount"]


@pytest.mark.parametrize(
    ("typed", "why"),
    [
        ("~/nowhere", "there is no such folder on the host. HINT"),
        ("~/rivers/elbe.txt", "it is a file. HINT → Name the folder that it lies in."),
        ("~/.ssh", "it is hidden from every cell"),
        ("/", "is no folder of data"),
        ("/proc/self", "is no folder of data"),
        ("~ rw", "programs on the host would run or obey what a cell writes there"),
        ("/usr/share rw", "programs on the host would run or obey what a cell writes there"),
    ],
)
def test_folder_that_is_not_shown_is_told_of_with_what_to_do(
    talk: Conversation, typed: str, why: str
) -> None:
    cell = talk.finish(begin(talk, f"%sentinel_mount {typed}"))
    assert cell.reply["content"]["ename"] == "MountError"
    assert why in cell.reply["content"]["evalue"]


def test_nobody_to_ask_or_no_is_a_refusal(talk: Conversation) -> None:
    alone = talk.run("%sentinel_mount ~/rivers")
    assert alone.reply["content"]["ename"] == "MountError"
    assert "nobody can be asked here. HINT" in alone.reply["content"]["evalue"]
    cell = begin(talk, "%sentinel_mount ~/rivers\nprint('ran')")
    question(talk, cell)
    talk.client.input("n")
    assert talk.finish(cell).text == ""
    assert "was not allowed" in cell.reply["content"]["evalue"]
    assert talk.run("%sentinel_mount --remove rivers").reply["content"]["ename"] == "MountError"
    assert "is not understood" in talk.run("%sentinel_mount a b c").reply["content"]["evalue"]


def test_folder_goes_with_the_sandbox(talk: Conversation) -> None:
    cell = begin(talk, "%sentinel_mount ~/rivers\nprint(open('/mnt/rivers/elbe.txt').read())")
    question(talk, cell)
    talk.client.input("y")
    assert talk.finish(cell).text == "1094 km\n"
    fresh = talk.run("%sentinel_reset\nimport os; print(os.listdir('/mnt'))")
    assert fresh.text == "[]\n"


def test_folder_of_the_host_that_is_renamed_is_explained_and_what_helps_works(
    talk: Conversation, folder: Path
) -> None:
    (folder / "work" / "raw").mkdir()
    (folder / "work" / "raw" / "a.txt").write_text("a")
    cell = talk.run("import os\nos.mkdir('own'); os.rename('own', 'own2')\nos.rename('raw', 'old')")
    said = cell.reply["content"]["evalue"]
    assert "Invalid cross-device link" in said
    assert "HINT" in said
    assert "shutil.move(old, new)" in said
    moved = talk.run(
        "import shutil\nshutil.move('raw', 'old')\nprint(os.listdir('old'), os.path.exists('raw'))"
    )
    assert moved.text == "['a.txt'] False\n"
    assert (folder / "work" / "raw" / "a.txt").read_text() == "a"
    # A file that can't be renamed across two places is no folder, and not the layer's doing.
    across = talk.run("open('/tmp/x', 'w').close()\nos.rename('/tmp/x', 'x')").reply["content"]["evalue"]
    assert "Sentinel" not in across


def test_question_says_which_secrets_are_covered_and_which_could_be_read(
    talk: Conversation, folder: Path
) -> None:
    backup = folder / "backup" / "ada"
    backup.mkdir(parents=True)
    for name in (".bashrc", ".pgpass", "api_token.txt", "rivers.csv"):
        (backup / name).write_text("x")
    cell = begin(
        talk, f"%sentinel_mount {backup.parent}\nimport os\nprint(sorted(os.listdir('/mnt/backup/ada')))"
    )
    prompt = question(talk, cell)
    assert "Hidden files of homes in it" in prompt
    assert "CELLS COULD READ THEM: 'ada/api_token.txt'." in prompt
    talk.client.input("y")
    shown = talk.finish(cell).text
    assert "rivers.csv" in shown
    # What is there has a mask over it; nothing of it can be read.
    read = talk.run(
        "print([open(f'/mnt/backup/ada/{name}').read() for name in ('.pgpass', 'api_token.txt')])"
    )
    assert read.text == "['', 'x']\n"
    refused = begin(talk, f"%sentinel_mount {backup} rw")
    assert talk.finish(refused).content["ename"] == "MountError"


def test_what_takes_a_yes_is_proposed_where_the_cells_client_can_be_asked_alone(
    talk: Conversation, folder: Path
) -> None:
    path = folder / "home" / "rivers" / "none-knows.txt"
    path.write_text("1")
    for allow_stdin in (True, False):
        told = talk.run(f"open('{path}')", allow_stdin=allow_stdin)
        assert told.content["ename"] == "FileNotFoundError"
        said = "\n".join([told.content["evalue"], *boxes(told)])
        assert ("%sentinel_mount" in said) is allow_stdin, said
        assert ("nobody can be asked here" in said) is not allow_stdin, said
    dry = talk.run(f"%sentinel_dry_run\nopen('{path}')", allow_stdin=True)
    assert "%sentinel_mount" in "\n".join([dry.content["evalue"], *boxes(dry)])


@contextlib.contextmanager
def wanting(tmp_path: Path, results: Path) -> Iterator[Conversation]:
    """Yield a client of a kernel of its own, whose profile wants ``results`` to be written."""
    profiles = tmp_path / "config" / "sentinel-kernel" / "profiles"
    profiles.mkdir(parents=True)
    (profiles / "mine.json").write_text(
        json.dumps({"extends": "strict", "filesystem": {"mounts": [{"path": str(results), "mode": "rw"}]}})
    )
    (tmp_path / "home").mkdir()
    with notebook(
        tmp_path,
        XDG_CONFIG_HOME=str(tmp_path / "config"),
        HOME=str(tmp_path / "home"),
        XDG_STATE_HOME=str(tmp_path / "state"),
        SENTINEL_PROFILE="mine",
        SENTINEL_SPARE="off",
    ) as running:
        yield Conversation(running.client)


def test_folder_that_was_first_refused_to_the_profile_is_written_at_its_own_place_once_asked_again(
    tmp_path: Path,
) -> None:
    results = tmp_path / "results"
    results.mkdir()
    with wanting(tmp_path, results) as talk:
        write = f"print(open({str(results)!r} + '/out.txt', 'w').write('x'))"
        cell = begin(talk, write)
        question(talk, cell)
        talk.client.input("n")
        talk.finish(cell)
        assert f"%sentinel_mount {results} rw" in boxes(cell)[0]
        said = "".join(boxes(cell)) + cell.reply["content"]["evalue"]
        assert "only once the person at the notebook has agreed, and nobody has" in said
        assert f"SENTINEL_WRITABLE={results}" in said
        assert "shows that place read-only" not in said
        again = begin(talk, f"%sentinel_mount {results} rw\n{write}")
        question(talk, again)
        talk.client.input("y")
        assert talk.finish(again).text == "1\n", boxes(again)
        assert (results / "out.txt").read_text() == "x"
        assert "--remove" not in boxes(again)[0]
        # The newer answer is the one that holds after a reset.
        fresh = talk.run(f"%sentinel_reset\n{write}")
        assert fresh.text == "1\n", boxes(fresh)


def test_folder_that_the_first_cell_names_itself_is_asked_about_once(tmp_path: Path) -> None:
    results = tmp_path / "results"
    results.mkdir()
    with wanting(tmp_path, results) as talk:
        write = f"print(open({str(results)!r} + '/a', 'w').write('x'))"
        cell = begin(talk, f"%sentinel_mount {results} rw\n{write}")
        assert "this cell wants to change the folder" in question(talk, cell)
        talk.client.input("y")
        # A second question would be waited for here without an end.
        assert talk.finish(cell).text == "1\n", boxes(cell)
        assert (results / "a").read_text() == "x"
        assert not [box for box in boxes(cell) if "can only be read" in box]


def test_folder_that_the_profile_wants_written_and_the_host_obeys_is_said_to_be_read_all_the_same(
    tmp_path: Path,
) -> None:
    results = tmp_path / "results"
    (results / ".git").mkdir(parents=True)
    with wanting(tmp_path, results) as talk:
        told = [boxes(talk.run("pass"))[0]]
        for above in ("", "%sentinel_reset\n"):  # in a fresh sandbox nobody was asked yet
            again = talk.finish(begin(talk, f"{above}%sentinel_mount {results} rw"))
            told.append(again.reply["content"]["evalue"])
        for words in told:
            assert "cells can't change it: programs on the host would run or obey" in words
            assert "Cells can read it all the same" in words
            assert "is not shown" not in words
