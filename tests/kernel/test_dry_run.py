"""Dry runs on a real kernel: shown and taken back, variables untouched; each beside the same cell run for real."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from conversation import Conversation, Exchange
from lacking import need_module
from live_kernel import notebook

if TYPE_CHECKING:
    from collections.abc import Iterator

    from live_kernel import Notebook
    from ordinary_user import Identity

pytestmark = [
    pytest.mark.sandbox,
    pytest.mark.requires("user_namespaces", "overlay", "fresh_proc", "notifications"),
]

DRIVER = Path(__file__).parent / "drivers" / "run_cells.py"
DRY = "%%sentinel_dry_run\n"
WRITES = """
import os
open("new.txt", "w").write("made\\n")
open("old.txt", "w").write("the cell's\\n")
os.remove("gone.txt")
os.makedirs("deep/er", exist_ok=True)
open("deep/er/table.csv", "w").write("a,b\\n1,2\\n")
value = 2
print("printed", value)
value + 40
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("dry")


@pytest.fixture(scope="module")
def book(folder: Path) -> Iterator[Notebook]:
    data = {"XDG_DATA_HOME": str(folder / "data"), "XDG_STATE_HOME": str(folder / "state")}
    with notebook(folder, SENTINEL_SPARE="off", SENTINEL_PROFILE="datascience", **data) as running:
        yield running


@pytest.fixture
def talk(book: Notebook) -> Conversation:
    return Conversation(book.client)


@pytest.fixture
def work(folder: Path) -> Path:
    return folder / "work"


def shown(exchange: Exchange) -> str:
    """Return the plain text of what the host has shown about a cell."""
    return "\n".join(content["data"].get("text/plain", "") for content in exchange.contents("display_data"))


def value_of(talk: Conversation, expression: str) -> str:
    """Return what a cell prints of an expression."""
    done = talk.run(f"print({expression})")
    assert done.content["status"] == "ok", done.content
    return done.text.strip()


def names(work: Path) -> set[str]:
    return {path.name for path in work.iterdir()}


def test_a_dry_run_shows_everything_and_keeps_nothing_where_the_same_cell_run_for_real_does(
    talk: Conversation, work: Path
) -> None:
    (work / "old.txt").write_text("the host's\n")
    (work / "gone.txt").write_text("here\n")
    talk.run("value = 1")
    before = names(work)
    dry = talk.run(DRY + WRITES)
    assert dry.content["status"] == "ok", dry.content
    assert "printed 2" in dry.text
    assert [content["data"]["text/plain"] for content in dry.contents("execute_result")] == ["42"]
    page = shown(dry)
    for told in (
        "new.txt",
        "old.txt",
        "gone.txt",
        "deleted",
        "deep/er/table.csv",
        "+the cell's",
        "-the host's",
    ):
        assert told in page, page
    assert value_of(talk, "value") == "1"
    assert names(work) == before
    assert (work / "old.txt").read_text() == "the host's\n"
    seen = "sorted(os.listdir('.')), open('old.txt').read(), open('gone.txt').read()"
    listed = talk.run(f"import os; print({seen})").text
    assert "new.txt" not in listed
    assert "deep" not in listed
    assert "the host's" in listed
    assert "Nothing is held" in shown(talk.run("%sentinel_files"))
    real = talk.run(WRITES)
    assert real.content["execution_count"] > dry.content["execution_count"]
    assert value_of(talk, "value") == "2"
    assert (work / "new.txt").read_text() == "made\n"
    assert "gone.txt" in shown(talk.run("%sentinel_files"))
    # Threads of OpenBLAS end for a fork; what a cell awaits is awaited.
    talk.run("import numpy, asyncio\nfield = numpy.ones((300, 300)); field = field @ field")
    again = talk.run(DRY + "await asyncio.sleep(0)\nprint(float((field @ field)[0, 0])); value = 7")
    assert again.text == "27000000.0\n"
    assert value_of(talk, "value") == "2"
    # What was held before is as it was.
    (work / "kept.txt").write_text("the host's\n")
    talk.run("open('kept.txt', 'w').write('held\\n')")
    dry = talk.run(DRY + "open('kept.txt', 'w').write('tried\\n')")
    assert "-held" in shown(dry)
    assert "+tried" in shown(dry)
    assert value_of(talk, "open('kept.txt').read()") == "held"
    assert (work / "kept.txt").read_text() == "the host's\n"
    gone = talk.run(DRY + "import os; os.remove('kept.txt')")
    assert "deleted" in shown(gone)
    assert value_of(talk, "open('kept.txt').read()") == "held"


def test_errors_and_interrupts_are_the_cells_own_and_what_it_started_ends_with_it(
    talk: Conversation, book: Notebook
) -> None:
    started = "import subprocess, sys\nchild = subprocess.Popen(['sleep', '1000'], start_new_session=True)\n"
    failed = talk.run(DRY + started + "print(child.pid, flush=True)\n1 / 0")
    assert failed.content["status"] == "error"
    assert failed.content["ename"] == "ZeroDivisionError"
    assert "line 4" in re.sub(r"\x1b\[[0-9;]*m", "", "".join(failed.content["traceback"]))
    assert len(failed.contents("error")) == 1
    assert value_of(talk, f"__import__('os').path.exists('/proc/{int(failed.text.split()[0])}')") == "False"
    assert "NameError" in talk.run("child").content["ename"]
    # An interrupt reaches the copy, and nobody is asked.
    cell = talk.execute(DRY + "open('late.txt', 'w').write('x')\nprint('on')\nimport time\ntime.sleep(1000)")
    talk.wait_for(lambda: "on" in cell.text, "the copy runs")
    book.manager.interrupt_kernel()
    talk.finish(cell)
    assert cell.content["ename"] == "KeyboardInterrupt"
    assert "late.txt" in shown(cell)
    assert value_of(talk, "__import__('os').path.exists('late.txt')") == "False"
    asks = talk.run(DRY + "input('who?')", allow_stdin=True)
    assert asks.content["ename"] == "StdinNotImplementedError"


def test_beside_other_threads_files_alone_are_dry_and_what_is_typed_wrong_is_told(
    talk: Conversation, work: Path
) -> None:
    talk.run(
        "import threading\nstop = threading.Event()\nthread = threading.Thread(target=stop.wait)\nthread.start()"
    )
    dry = talk.run(DRY + "open('beside.txt', 'w').write('x')\nvalue = 3\nprint('ran')")
    assert dry.text.index("variables DO change") < dry.text.index("ran")
    assert "1 other thread runs here" in dry.text
    assert "线程" not in dry.text
    assert "beside.txt" in shown(dry)
    assert value_of(talk, "value, __import__('os').path.exists('beside.txt')") == "3 False"
    assert "beside.txt" not in names(work)
    talk.run("stop.set(); thread.join()")
    assert "variables DO change" not in talk.run(DRY + "value = 4").text
    assert value_of(talk, "value") == "3"
    for code, told in (
        ("%%sentinel_dry_run --all\npass", "alone on its line"),
        ("value = 5\nget_ipython().run_cell_magic('sentinel_dry_run', '', 'pass')", "first line"),
        ("%sentinel_dry_run\npass", "Did you mean %%sentinel_dry_run?"),
    ):
        done = talk.run(code)
        assert done.content["ename"] == "UsageError"
        assert told in done.content["evalue"]


def test_a_bar_of_tqdms_costs_nothing_of_a_dry_run(talk: Conversation) -> None:
    need_module("tqdm")
    bar = "from tqdm import tqdm\nfor _ in tqdm(range(3)): pass\n"
    monitors = "[one.name for one in __import__('threading').enumerate() if 'tqdm' in type(one).__module__]"
    talk.run(f"{bar}value = 1")
    assert value_of(talk, monitors) == "['tqdm_monitor']"
    dry = talk.run(f"{DRY}{bar}value = 2")
    assert "3/3" in dry.text
    assert "variables DO change" not in dry.text
    assert value_of(talk, "value") == "1"
    talk.run(bar)
    assert value_of(talk, monitors) == "['tqdm_monitor']"


def test_where_the_copy_or_the_worker_is_killed_nothing_is_left(tmp_path: Path) -> None:
    data = {"XDG_DATA_HOME": str(tmp_path / "data"), "XDG_STATE_HOME": str(tmp_path / "state")}
    with notebook(tmp_path, SENTINEL_SPARE="off", SENTINEL_PROFILE="datascience", **data) as running:
        talk = Conversation(running.client)
        writes = "import os\nopen('killed.txt', 'w').write('x')\n"
        dry = talk.run(f"{DRY}{writes}os.kill(os.getpid(), 9)")
        assert dry.content["ename"] == "DryRunDied"
        assert "killed.txt" in shown(dry)
        gone = talk.run(f"{DRY}{writes}os.kill(os.getppid(), 9)")
        assert gone.content["ename"] == "SandboxDied"
        assert value_of(talk, "__import__('os').path.exists('killed.txt')") == "False"
        assert "killed.txt" not in names(tmp_path / "work")
        talk.run(writes)
        assert "killed.txt" in names(tmp_path / "work")


IDLE = """
kernel = get_ipython().kernel
kernel.session.send(
    kernel.iopub_socket, "status", {"execution_state": "idle"}, parent=kernel.get_parent("shell")
)
"""
LATER = "open('started.txt', 'w').close()\nimport select; select.select([], [], [], {seconds})\n"


@pytest.mark.parametrize("before", ["", IDLE])
def test_a_cell_that_says_for_itself_that_it_has_ended_is_ended_and_what_it_does_is_held_back(
    before: str, talk: Conversation, work: Path
) -> None:
    later = LATER.format(seconds=600 if before else 3)
    late = "import subprocess, sys\nsubprocess.Popen([sys.executable, '-c', later], start_new_session=True)\n"
    writes = "open('reached.csv', 'w').close()\n"
    read = "open(f'/proc/{name}/cmdline', 'rb').read()"
    here = "sorted(__import__('os').listdir('.'))"
    files = value_of(talk, here)
    for code in (later, f"later = {later + writes!r}\n{late}{later}"):
        dry = talk.run(f"{DRY}{before}{code}{writes}")
        assert ("reached.csv" in shown(dry)) == (not before), shown(dry)
        assert dry.content.get("ename") == ("DryRunDied" if before else None)
        assert value_of(talk, here) == files
        assert not {"reached.csv", "started.txt"} & names(work)
        left = f"[name for name in __import__('os').listdir('/proc') if name.isdecimal() and b'reached' in {read}]"
        assert value_of(talk, left) == "[]"


@pytest.mark.soak
def test_an_ordinary_users_dry_run_keeps_nothing_either(ordinary_user: Identity) -> None:
    prefix, work = ordinary_user.home / "prefix", ordinary_user.home / "work"
    ordinary_user.run(ordinary_user.python, "-m", "sentinel_kernel.cli", "install", "--prefix", str(prefix))
    ordinary_user.run("mkdir", "-p", str(work))
    ordinary_user.run("sh", "-c", f"echo the host > {work}/old.txt; echo here > {work}/gone.txt")
    look = "print(value, sorted(os.listdir('.')), open('old.txt').read())"
    closed = "import os\nos.mkdir('closed'); open('closed/x', 'w').close(); os.chmod('closed', 0)"
    cells = (
        "import os\nvalue = 1",
        DRY + WRITES,
        look,
        WRITES,
        look,
        DRY + closed,
        "open('later.txt', 'w').close()",
    )
    environment = ordinary_user.environment() | {
        "JUPYTER_PATH": str(prefix / "share" / "jupyter"),
        "SENTINEL_PROFILE": "datascience",
        "SENTINEL_LANG": "en",
    }
    done = ordinary_user.run(
        ordinary_user.python,
        str(DRIVER),
        "sentinel",
        env=environment,
        cwd=work,
        input=json.dumps(cells),
        timeout=200,
    )
    texts = [cell["text"] for cell in json.loads(done.stdout)]
    assert texts[1].startswith("printed 2")
    assert texts[2].split() == ["1", "['gone.txt',", "'old.txt']", "the", "host"]
    assert texts[4].split()[0] == "2"
    assert "gone.txt" not in texts[4]
    # What can't be taken back stays in the sandbox, and so does all that is new from then on.
    assert not {"closed", "later.txt"} & names(work)
    assert {"new.txt", "deep"} <= names(work)


def test_beside_a_cell_that_is_on_its_way_to_the_worker_there_is_none(talk: Conversation, work: Path) -> None:
    """What the other one writes would be shown as the dry run's, and taken back."""
    subshell = talk.ask("create_subshell_request", channel="control").content["subshell_id"]
    for number in range(3):
        cell = talk.execute(f"open('way{number}.csv', 'w').write('x'); __import__('time').sleep(0.5)")
        dry = talk.finish(talk.execute(f"{DRY}1", subshell=subshell))
        talk.finish(cell)
        assert dry.content.get("ename") == "DryRunError"
        assert f"way{number}.csv" in names(work)
    talk.ask("delete_subshell_request", {"subshell_id": subshell}, channel="control")
