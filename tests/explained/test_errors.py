"""Errors that the sandbox caused say so themselves, in the error and in the reply; those of a program's own do not."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import nbformat
import pytest
from jupyter_client.manager import AsyncKernelManager
from live_kernel import Notebook, Result, kernelspecs, notebook
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError
from waiting import wait_until

from sentinel_kernel.abi.architecture import architecture_of
from sentinel_kernel.kernel.failures import QUESTIONS_A_CELL
from sentinel_kernel.kernel.output_rule import VIOLATION_TYPE

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [
    pytest.mark.sandbox,
    pytest.mark.requires("user_namespaces", "overlay", "fresh_proc", "notifications"),
]


class Case(NamedTuple):
    """A cell, the cause of its error, the line it is told of, and what stands as the subject."""

    name: str
    code: str
    cause: str
    line: int | None
    subject: str = ""


CASES = [
    Case("call", "import socket\nsocket.socket()", "call", 2),
    Case("call-below-empty-lines", "\n\nimport socket\nlevel = 1\nsocket.socket()", "call", 5),
    Case("call-below-a-long-command", "%time \\\n  1 + 1\nimport socket\nsocket.socket()", "call", 4),
    Case("package-below-empty-lines", "\n\nlevel = 1\nimport no_such_river_package", "package_absent", 4),
    Case(
        "call-again",
        "import socket\ntry:\n    socket.socket()\nexcept OSError:\n    pass\nsocket.socket()",
        "call",
        6,
    ),
    Case(
        "call-ctypes",
        "import ctypes, os\nlibc = ctypes.CDLL(None, use_errno=True)\nif libc.socket(2, 1, 0) < 0:\n"
        "    raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))",
        "call",
        3,
    ),
    Case(
        "call-raised-from",
        "import socket\ntry:\n    socket.socket()\nexcept OSError as error:\n"
        "    raise RuntimeError('no gauge') from error",
        "call",
        3,
    ),
    Case(
        "hidden",
        "def load(name):\n    return open(name)\nload('{outside}/rivers.csv')",
        "path_hidden",
        2,
        "rivers.csv",
    ),
    Case(
        "hidden-library",
        "import numpy as np\nnp.load('{outside}/rivers.csv')",
        "path_hidden",
        2,
        "rivers.csv",
    ),
    Case(
        "hidden-in-rust",
        "import polars\npolars.read_csv('{outside}/rivers.csv')",
        "path_hidden",
        2,
        "rivers.csv",
    ),
    Case(
        "hidden-in-arrow",
        "import pyarrow.parquet\npyarrow.parquet.read_table('{outside}/rivers.csv')",
        "path_hidden",
        2,
        "rivers.csv",
    ),
    Case(
        "hidden-in-duckdb",
        "import duckdb\nduckdb.read_csv('{outside}/rivers.csv')",
        "path_hidden",
        2,
        "rivers.csv",
    ),
    Case("hidden-new-file", "open('{outside}/new.csv', 'w')", "path_hidden", 1, "{outside}"),
    Case(
        "hidden-in-a-pool",
        "from concurrent.futures import ThreadPoolExecutor\ndef load():\n    open('{outside}/rivers.csv')\n"
        "with ThreadPoolExecutor(1) as pool:\n    pool.submit(load).result()",
        "path_hidden",
        3,
        "rivers.csv",
    ),
    Case("read-only", "open('/usr/levels.csv', 'w')", "path_read_only", 1, "/usr/levels.csv"),
    Case(
        "read-only-in-rust",
        "import polars\npolars.DataFrame({{'level': [1]}}).write_csv('/usr/levels.csv')",
        "path_read_only",
        2,
        "/usr/levels.csv",
    ),
    Case(
        "read-only-in-arrow",
        "import pyarrow, pyarrow.parquet\npyarrow.parquet.write_table(pyarrow.table({{'level': [1]}}), '/usr/levels')",
        "path_read_only",
        2,
        "/usr/levels",
    ),
    Case(
        "read-only-in-duckdb",
        "import duckdb\nduckdb.connect('/usr/levels.db')",
        "path_read_only",
        2,
        "/usr/levels.db",
    ),
    Case("read-only-root", "import os\nos.mkdir('/levels')", "path_read_only", 2, "/levels"),
    Case("denied", "open('/proc/1/environ')", "path_denied", 1, "/proc/1/environ"),
    Case("covered", "open('.ssh/key')", "path_denied", 1, ".ssh/key"),
    Case("program", "import subprocess\nsubprocess.run(['river-tool'])", "program_absent", 2, "river-tool"),
    Case("own-folder", "import os\nos.rmdir(os.getcwd())", "path_busy", 2),
    Case("own-folder-of-tmp", "import os\nos.rename('/tmp', '/tmp2')", "path_busy", 2, "/tmp"),
    Case("covered-in-a-tree", "import shutil\nshutil.rmtree('.ssh')", "path_busy", 2, ".ssh"),
    Case(
        "program-by-path",
        "import subprocess\nsubprocess.run(['{outside}/river-tool'])",
        "program_absent",
        2,
        "river-tool",
    ),
    Case(
        "lookup",
        "import socket\nsocket.getaddrinfo('rivers.example.org', 80)",
        "name_lookup",
        2,
        "rivers.example.org",
    ),
    Case(
        "lookup-library",
        "import urllib.request\nurllib.request.urlopen('http://rivers.example.org/')",
        "name_lookup",
        2,
        "rivers.example.org",
    ),
    Case("package", "x = 1\nimport no_such_river_package", "package_absent", 2, "no_such_river_package"),
    Case("memory-array", "import numpy as np\nnp.ones(1 << 28)", "memory", 2),
    Case("memory-bytes", "x = bytearray(2 << 30)", "memory", 1),
    Case(
        "memory-held-by-a-function",
        "def load():\n    held = bytearray(500 << 20)\n    size = 600 << 20\n    more = bytearray(size)\nload()",
        "memory",
        4,
    ),
    Case("tmp", "with open('/tmp/full', 'wb') as file:\n    file.write(bytes(17 << 20))", "tmp", 2),
    Case(
        "shm",
        "import os\nfile = os.open('/dev/shm/full', os.O_CREAT | os.O_RDWR)\nos.posix_fallocate(file, 0, 32 << 20)",
        "shm",
        3,
    ),
    Case("file-size", "with open('one', 'wb') as file:\n    file.truncate(1 << 40)", "file_size", 2),
    Case(
        "open-files",
        "import os\nheld = []\ntry:\n    while True:\n        held.append(os.dup(1))\nfinally:\n"
        "    for file in held:\n        os.close(file)",
        "open_files",
        5,
    ),
    Case(
        "pids",
        "import threading\nready = threading.Event()\ntry:\n    while True:\n"
        "        threading.Thread(target=ready.wait, daemon=True).start()\nfinally:\n    ready.set()",
        "pids",
        5,
    ),
    Case(
        "call-absent",
        "import ctypes, os\nlibc = ctypes.CDLL(None, use_errno=True)\n"
        "if libc.syscall({io_setup}, 1, ctypes.byref(ctypes.c_ulong())):\n"
        "    raise OSError(ctypes.get_errno(), 'no asynchronous files')",
        "call_absent",
        4,
    ),
]

LIMITS = "%sentinel_limit tmp=16M shm=16M pids=20 file_size=64M open_files=300"
CLEAN = """
import os, resource
for name in ('/tmp/full', '/dev/shm/full', 'one'):
    if os.path.exists(name):
        os.remove(name)
if isinstance(globals().get('held'), list):
    for number in held:
        try:
            os.close(number)
        except OSError:
            pass
resource.setrlimit(resource.RLIMIT_NOFILE, (300, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
file = x = held = None
"""
"""Takes away what a cell has left."""

OWN = {
    "raised": "raise PermissionError(1, 'not for guests')",
    "raised-after-a-refusal": "import socket\ntry:\n    socket.socket()\nexcept OSError:\n    pass\n"
    "raise PermissionError(1, 'not for guests')",
    "of-another-line-than-the-refusals": "import os, socket\nfor _ in range(3):\n    try:\n        socket.socket()\n"
    "    except OSError:\n        pass\nos.nice(-1)",
    "raised-in-a-pool-after-a-refusal": "import multiprocessing, socket\ndef check():\n    try:\n"
    "        socket.socket()\n    except OSError:\n        pass\n    raise PermissionError(1, 'not for guests')\n"
    "with multiprocessing.get_context('fork').Pool(1) as pool:\n    pool.apply(check)",
    "other-error-while-handling": "try:\n    open('{outside}/rivers.csv')\nexcept OSError:\n    {{}}['Elbe']",
    "raised-with-a-hidden-path": "raise FileNotFoundError(2, 'No such file', '{outside}/rivers.csv')",
    "raised-in-the-words-of-rust": "raise OSError('Read-only file system (os error 30): {outside}/rivers.csv')",
    "raised-with-a-hidden-path-alone": "raise FileNotFoundError('{outside}/rivers.csv')",
    "nowhere-in-rust": "import polars\npolars.read_csv('{outside}/nowhere.csv')",
    "nowhere-in-duckdb": "import duckdb\nduckdb.read_csv('{outside}/nowhere.csv')",
    "nowhere": "open('{outside}/nowhere.csv')",
    "nowhere-in-the-home": "import os\nopen(os.path.expanduser('~/nowhere.csv'))",
    "removed": "import os\nos.remove('kept.csv')\nopen('kept.csv')",
    "closed": "import os\nopen('closed', 'w').close()\nos.chmod('closed', 0)\nopen('closed')",
    "closed-of-the-host": "import os\nos.chmod('shown.csv', 0)\nopen('shown.csv')",
    "no-program": "import subprocess\nsubprocess.run(['no-such-program-anywhere'])",
    "no-part-of-a-package": "import json.nothing",
    "raised-memory": "raise MemoryError",
    "absurd-list": "[0] * 10**14",
    "never-a-host": "import socket\nsocket.getaddrinfo('rivers.invalid', 80)",
    "full-device": "with open('/dev/full', 'w') as file:\n    file.write('level')",
    "own-limit": "import os, resource\nhard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]\n"
    "resource.setrlimit(resource.RLIMIT_NOFILE, (60, hard))\nheld = []\nwhile True:\n    held.append(os.dup(1))",
    "nothing-to-read": "import socket\na, b = socket.socketpair()\na.setblocking(False)\na.recv(1)",
    "child-failed": "import subprocess\nsubprocess.run(['false'], check=True)",
    "child-killed-by-itself": "import subprocess\nsubprocess.run(['sh', '-c', 'kill -9 $$'], check=True)",
    "own-interrupt": "raise KeyboardInterrupt",
    "words": "raise RuntimeError('[Errno 28] No space left on device: Too many open files')",
}


class Place(NamedTuple):
    """A running kernel and a folder of the host that it does not show."""

    book: Notebook
    outside: str

    def fill(self, code: str) -> str:
        """Return a cell with its places."""
        calls = architecture_of(os.uname().machine).syscalls
        return code.format(outside=self.outside, io_setup=calls["io_setup"])


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    folder = tmp_path_factory.mktemp("errors")
    outside = folder / "outside"
    outside.mkdir()
    (outside / "rivers.csv").write_text("Elbe,1094\n")
    tool = outside / "river-tool"
    tool.write_text("#!/bin/sh\n")
    tool.chmod(0o755)
    work = folder / "work"
    (work / ".ssh").mkdir(parents=True)
    (work / ".ssh" / "key").write_text("secret")
    (work / "shown.csv").write_text("Oder,866\n")
    (work / "kept.csv").write_text("Oder,866\n")
    search = f"{os.environ['PATH']}:{outside}"
    # The workspace shows a home, so that what is secret in it is covered.
    with notebook(folder, PATH=search, HOME=str(work), SENTINEL_SPARE="off") as book:
        assert book.run(LIMITS).reply["status"] == "ok"
        yield Place(book, str(outside))


def records(result: Result) -> list[dict[str, Any]]:
    """Return each violation of a cell in its last state."""
    found: dict[str, dict[str, Any]] = {}
    for kind, content in result.outputs:
        if kind in ("display_data", "update_display_data") and VIOLATION_TYPE in content["data"]:
            record = content["data"][VIOLATION_TYPE]
            found[record["id"]] = record
    return list(found.values())


def error_of(result: Result) -> dict[str, Any]:
    """Return the error that a cell ended with; the reply says the same."""
    errors = [content for kind, content in result.outputs if kind == "error"]
    assert result.reply["status"] == "error"
    assert {name: result.reply[name] for name in ("ename", "evalue", "traceback")} == errors[-1]
    return errors[-1]


def faults_of(place: Place, case: Case) -> list[str]:
    """Return what is wrong with how a case was told."""
    result = place.book.run(place.fill(case.code))
    place.book.run(CLEAN)
    error, told = error_of(result), records(result)
    found = [record for record in told if record["cause"] == case.cause]
    if not found:
        return [f"{case.name}: {error['evalue']} {told}"]
    record = found[-1]
    message, hint = record["message"]["en"], record["hint"]["en"]
    subject = (record["subject"] or {"text": ""})["text"]
    first = next(iter(record["remedies"]), {"kind": ""})
    # A command for the host's terminal stands with the hint, which only says so.
    command = first["text"] if first["kind"] == "command" else ""
    message = f"Probably: {message}" if record["confidence"] == "likely" else message
    tried, below = (f" TRY: {command}", f"\nTRY → {command}") if command else ("", "")
    checks = {
        f"line {record['line']}": record["line"] == case.line,
        f"subject {subject}": place.fill(case.subject) in subject,
        f"evalue {error['evalue']}": error["evalue"].endswith(f"[Sentinel: {message} HINT: {hint}{tried}]"),
        f"traceback {error['traceback'][-1]}": error["traceback"][-1]
        == f"\n[SEMANTIC] {message}\nHINT → {hint}{below}",
        # One event is one display: a cell that was refused twice has two.
        f"{len(told)} displays": len(told) == (2 if case.name == "call-again" else 1),
    }
    return [f"{case.name}: {what}" for what, right in checks.items() if not right]


def test_errors_of_the_sandbox_say_so(place: Place) -> None:
    assert [fault for case in CASES for fault in faults_of(place, case)] == []


def test_errors_of_a_programs_own_are_left_alone(place: Place) -> None:
    faults = []
    for name, code in OWN.items():
        result = place.book.run(place.fill(code))
        place.book.run(CLEAN)
        error = error_of(result)
        # What was refused on the way is told as ever: by itself.
        refused = ["call"] if "refusal" in name or name == "never-a-host" else []
        told = [record["cause"] for record in records(result)]
        if "Sentinel" in error["evalue"] or "SEMANTIC" in str(error["traceback"]) or told != refused:
            faults.append(f"{name}: {error['evalue']} {told}")
    assert faults == []


def test_what_is_new_in_a_hidden_folder_is_not_said_to_exist(place: Place) -> None:
    told = [
        records(place.book.run(place.fill(f"open('{{outside}}/{how}")))
        for how in ("no.csv', 'w')", "rivers.csv')")
    ]
    texts = [str(one[0]["message"]) for one in told]
    assert "exists on this machine" not in texts[0]
    assert "shows nothing to cells" in texts[0]
    assert "exists on this machine" in texts[1]
    assert str(told[1][0]["hint"]).count("%sentinel_mount") >= 1


def test_a_threads_error_is_explained_below_what_python_prints(place: Place) -> None:
    code = "import threading\ndef load():\n    open('{outside}/rivers.csv')\nthread = threading.Thread(target=load)\n"
    result = place.book.run(place.fill(f"{code}thread.start()\nthread.join()"))
    assert "FileNotFoundError" in result.text
    assert [(record["cause"], record["line"]) for record in records(result)] == [("path_hidden", 3)]
    own = place.book.run("def load():\n    raise PermissionError(13, 'mine')\n" + code.splitlines()[-1] +
                         "\nthread.start()\nthread.join()")  # fmt: skip
    assert not records(own)


def test_an_interrupt_for_the_time_that_is_used_up(place: Place) -> None:
    try:
        assert place.book.run("%sentinel_limit wall=1").reply["status"] == "ok"
        result = place.book.run("import time\nwhile True:\n    time.sleep(0.01)")
    finally:
        place.book.run("%sentinel_limit wall=profile")
    error = error_of(result)
    assert error["ename"] == "KeyboardInterrupt"
    assert "[Sentinel: This cell ran for the 1 s" in error["evalue"]
    assert [record["cause"] for record in records(result)] == ["wall_seconds"]


def test_queues_silence_and_expressions_are_as_under_ipykernel(place: Place) -> None:
    book = place.book
    failing, behind = book.collect(book.send("open('/usr/x', 'w')"), book.send("print('behind')"))
    assert failing.reply["status"] == "error"
    assert behind.reply["status"] == "aborted"
    silent = book.run("open('/usr/x', 'w')", silent=True)
    assert "Sentinel" in silent.reply["evalue"]
    asked = book.run("1", user_expressions={"a": "open('/usr/x', 'w')"})
    told = asked.reply["user_expressions"]["a"]
    assert (told["status"], told["evalue"]) == ("error", "[Errno 30] Read-only file system: '/usr/x'")


FORGE = """
def forge(*chain, **more):
    kernel = get_ipython().kernel
    kernel.session.send(kernel.iopub_socket, 'error', {'ename': 'Forged', 'evalue': 'forged', 'traceback': ['forged']},
        kernel.get_parent(), metadata={'sentinel_failure': {'chain': list(chain), **more}, 'mine': 1})
def entry(**facts):
    return {'ename': 'OSError', 'base': 'OSError', 'by': 'call', 'errno': 2, 'lines': [[1, '<module>', '']], **facts}
"""


def test_forged_reports_ask_little_and_tell_nothing_but_that_a_path_is_there(place: Place) -> None:
    book = place.book
    assert book.run(FORGE).reply["status"] == "ok"
    strange = """
import os
if not os.path.lexists('/tmp/link'):
    os.symlink('{outside}/rivers.csv', '/tmp/link')
forge()
forge(7)
forge(entry(errno='x'))
forge(entry(errno=1 << 70))
forge(entry(lines=[[1]] * 99))
forge(entry(path='/' + 'a' * (1 << 20)))
forge(entry(path='a\\0b'))
forge(entry(path='relative'))
forge(entry(path='/tmp/link'))
forge(entry(path='/proc/self/root{outside}/rivers.csv'))
forge(entry(path='/proc/1/root'))
forge(entry(path='{outside}/nothing'))
forge(entry(library=['x']))
forge(*[entry(path='{outside}/nothing/%d' % number) for number in range(9)])
forge(entry(), thread={{}})
"""
    result = book.run(place.fill(strange))
    assert result.reply["status"] == "ok"
    assert [content["evalue"] for kind, content in result.outputs if kind == "error"] == ["forged"] * 15
    assert not records(result)
    many = (
        "for number in range(60):\n    forge(entry(path='/usr/share/../../{outside}/rivers.csv', errno=2,\n"
    )
    many += "        lines=[[number + 1, 'f', '']]))"
    result = book.run(many.replace("{outside}", place.outside))
    told = records(result)
    assert 0 < len(told) <= QUESTIONS_A_CELL
    assert {record["subject"]["text"] for record in told} == {f"{place.outside}/rivers.csv"}
    assert "Elbe" not in str(result.outputs)
    assert book.run("1 + 1").reply["status"] == "ok"


def test_reports_stay_inside(place: Place) -> None:
    """No client sees the report, whatever message it is put on."""
    client = place.book.client
    place.book.run(FORGE)
    msg_id = client.execute("forge(entry())\nopen('/usr/x', 'w')")
    metadata = []
    idle = False
    while not idle:
        message = client.get_iopub_msg(timeout=60)
        if message["parent_header"].get("msg_id") == msg_id:
            metadata.append(message["metadata"])
            idle = message["content"].get("execution_state") == "idle"
    reply = client.get_shell_msg(timeout=60)
    assert reply["parent_header"]["msg_id"] == msg_id
    assert {"mine": 1} in metadata
    assert "sentinel_failure" not in str([*metadata, reply["metadata"]])
    assert {"status", "engine"} <= reply["metadata"].keys() or "started" in reply["metadata"]


def test_no_look_up_is_left_over(place: Place) -> None:
    error_of(place.book.run("open('/usr/x', 'w')"))
    children = f"/proc/{place.book.host_pid}/task/{place.book.host_pid}/children"

    def zombies() -> int:
        supervisors = Path(children).read_text().split()
        below = [f"/proc/{pid}/task/{pid}/children" for pid in supervisors]
        found = [pid for file in below for pid in Path(file).read_text().split()]
        count = 0
        for pid in found:
            with contextlib.suppress(OSError):
                count += Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
        return count

    wait_until(lambda: zombies() <= 1, "look-ups are reaped, save the last one")


@pytest.mark.requires("user_namespaces")
def test_nbclient_gets_the_words(tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("open('/usr/x', 'w')")])
    manager = AsyncKernelManager(
        kernel_name="sentinel", kernel_spec_manager=kernelspecs(tmp_path), transport="ipc"
    )
    manager.connection_file = str(tmp_path / "k.json")
    client = NotebookClient(book, km=manager, resources={"metadata": {"path": str(work)}}, timeout=60)
    client.owns_km = True  # so that it ends the kernel, and closes what it has opened
    with pytest.raises(CellExecutionError) as told:
        client.execute(env={**os.environ, "SENTINEL_LANG": "en", "SENTINEL_SPARE": "off"})
    assert "[SEMANTIC] This path can't be written" in str(told.value)
    assert "HINT →" in str(told.value)
    assert "[Sentinel: " in told.value.evalue
