"""Cells on the real kernel: refusals, switches, deaths and attacks on the host, as a notebook meets them."""

from __future__ import annotations

import contextlib
import re
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from live_kernel import Notebook, notebook
from waiting import wait_until

from sentinel_kernel.kernel.output_rule import NOTICE_TYPE, VIOLATION_TYPE
from sentinel_kernel.policy.mime import LIMITS_TYPE
from sentinel_kernel.policy.sizes_in_words import size_text
from sentinel_kernel.supervisor.processes import processes_below

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [
    pytest.mark.sandbox,
    pytest.mark.requires("user_namespaces", "overlay", "fresh_proc", "notifications"),
]

MIB = 1024 * 1024


@pytest.fixture
def book(tmp_path: Path) -> Iterator[Notebook]:
    with notebook(tmp_path) as book:
        yield book


def test_a_refusal_is_explained_in_its_cell_and_nothing_is_added_elsewhere(book: Notebook) -> None:
    refused = book.run(
        "import socket\ntry:\n    socket.socket()\nexcept OSError as error:\n    print(error.errno)"
    )
    [violation] = refused.bundles(VIOLATION_TYPE)
    assert refused.text == "1\n"
    assert violation["syscall"] == "socket"
    assert violation["message"]["en"]
    assert violation["message"]["zh"]
    [plain] = refused.bundles("text/plain")
    assert plain.startswith("[SEMANTIC] ")
    assert "HINT → " in plain
    assert book.run("1 + 1").kinds == ["execute_result"]
    assert book.run("pass").kinds == []


def test_repeats_are_counted_in_one_display(book: Notebook) -> None:
    code = "import socket\nfor _ in range(500):\n    try:\n        socket.socket()\n    except OSError:\n        pass"
    result = book.run(code)
    assert result.kinds.count("display_data") == 1
    # Where all of them were told before the cell's first message, the display itself has the count.
    last = [content for kind, content in result.outputs if kind.endswith("display_data")][-1]
    assert last["data"][VIOLATION_TYPE]["count"] == 500


def test_run_all_with_a_switch_in_the_middle(book: Notebook) -> None:
    ids = [
        book.send(code)
        for code in (
            "import socket, time\ntime.sleep(0.3)\nvalue = 1",
            "%sentinel_profile datascience\nprint('value' in globals())",
            "import socket\nsocket.socket().close()\nprint('open')",
            "%sentinel_status",
        )
    ]
    first, switch, after, status = book.collect(*ids)
    assert [result.reply["execution_count"] for result in (first, switch, after, status)] == [1, 2, 3, 4]
    assert switch.text == "True\n"
    assert switch.kinds[0] == "display_data"
    assert "variables" in switch.bundles("text/plain")[0]
    assert after.text == "open\n"
    assert "datascience" in status.bundles("text/plain")[0]


def test_magics_below_code_are_an_error_that_says_so(book: Notebook) -> None:
    result = book.run("x = 1\n%sentinel_reset")
    assert result.reply["ename"] == "UsageError"
    assert book.run("print(x)").text == "1\n"


def test_a_rule_that_kills_is_explained_and_the_next_cell_works(book: Notebook) -> None:
    mount = "import ctypes\nctypes.CDLL(None).mount(b'a', b'/tmp', b'tmpfs', 0, None)\nprint('survived')"
    killed, waiting = book.collect(book.send(mount), book.send("print('later')"))
    assert killed.reply["ename"] == "SandboxDied"
    assert "mount" in killed.reply["evalue"]
    assert "survived" not in killed.text
    # The advice of preflight becomes the violation: one display tells of one call.
    assert killed.kinds.count("display_data") == 1
    # Which of the two is first in the cell depends on what the host hears first: the start of the cell, or its end.
    told = [content["data"] for kind, content in killed.outputs if kind.endswith("display_data")]
    assert told[-1][VIOLATION_TYPE]["action"] == "KILL"
    assert waiting.reply["status"] == "aborted"
    assert book.run("print('again')").text == "again\n"


@pytest.mark.parametrize(
    ("code", "says"),
    [
        ("import os, signal\nos.kill(os.getpid(), signal.SIGKILL)", "SIGKILL"),
        ("import ctypes\nctypes.string_at(0)", "SIGSEGV"),
        ("import os\nos._exit(3)", "exit status 3"),
    ],
)
def test_a_worker_that_dies_says_of_what(book: Notebook, code: str, says: str) -> None:
    dead = book.run(code)
    assert dead.reply["ename"] == "SandboxDied"
    assert says in dead.reply["evalue"]
    assert book.run("print('again')").text == "again\n"


def test_an_interrupt_reaches_the_cell_and_its_children(book: Notebook) -> None:
    msg_id = book.send("import subprocess\nprint('on')\nsubprocess.run(['sleep', '60'])")
    wait_until(lambda: book.client.get_iopub_msg(timeout=20)["msg_type"] == "stream", "the cell runs")
    begun = time.monotonic()
    book.manager.interrupt_kernel()
    [result] = book.collect(msg_id)
    assert result.reply["ename"] == "KeyboardInterrupt"
    assert time.monotonic() - begun < 10


@pytest.mark.parametrize("stops", ["os.kill(os.getpid(), signal.SIGSTOP)", "os.system('kill -STOP $$')"])
def test_an_interrupt_ends_a_cell_that_has_stopped_itself_or_its_program(book: Notebook, stops: str) -> None:
    msg_id = book.send(
        f"import os, signal\nkept = 'kept'\nprint('on', flush=True)\n{stops}\nprint('past it')\n"
    )
    wait_until(lambda: book.client.get_iopub_msg(timeout=20)["msg_type"] == "stream", "the cell runs")
    wait_until(lambda: "T" in _states_below(book.host_pid), "it is stopped")
    book.manager.interrupt_kernel()
    [result] = book.collect(msg_id)
    assert not result.bundles("text/plain"), "nothing is to be told of a cell that ends"
    assert result.reply.get("ename") == "KeyboardInterrupt" or result.text.endswith("past it\n"), result
    assert book.run("print(kept)").text == "kept\n"


def _states_below(pid: int) -> set[str]:
    """Return the states of the processes below one (proc_pid_stat(5))."""
    states = set()
    for one in processes_below(pid):
        with contextlib.suppress(OSError):
            states.add(Path(f"/proc/{one}/stat").read_text().rpartition(")")[2].split()[0])
    return states


_IGNORES = "signal.signal(signal.SIGINT, signal.SIG_IGN)\nwhile True: time.sleep(600)"
_OTHER_DESCRIPTORS = """
held = [n for n in map(int, os.listdir('/proc/self/fd')) if n > 2 and os.path.exists(f'/proc/self/fd/{n}')]
copies = [os.dup(n) for n in held]
for n, other in zip(held, copies[1:] + copies[:1]): os.dup2(other, n)
for n in copies: os.close(n)
"""
"""Each is another one then; what becomes of that is up to the order of the threads: a death, or silence."""


@pytest.mark.parametrize(
    ("code", "says"),
    [(_IGNORES, ("has not ended",)), (_OTHER_DESCRIPTORS, ("has not ended", "The sandboxed Python"))],
    ids=["code that ignores it", "a worker that has lost its connection"],
)
def test_a_cell_that_does_not_end_on_an_interrupt_says_what_to_do(
    book: Notebook, code: str, says: tuple[str, ...]
) -> None:
    msg_id = book.send(f"import os, signal, time\nprint('on', flush=True)\n{code}")
    wait_until(lambda: book.client.get_iopub_msg(timeout=20)["msg_type"] == "stream", "the cell runs")
    told: list[str] = []

    def is_told() -> bool:
        message = book.client.get_iopub_msg(timeout=60)
        if message["msg_type"] == "display_data" and message["parent_header"]["msg_id"] == msg_id:
            told.append(message["content"]["data"]["text/plain"])
        return bool(told)

    for _ in range(2):
        book.manager.interrupt_kernel()
    wait_until(is_told, "it is told")
    assert any(one in told[0] for one in says), told
    assert "restart the kernel" in told[0] or "has not ended" not in told[0]
    book.manager.restart_kernel()
    book.client.wait_for_ready(timeout=60)
    assert book.run("print('again')").text == "again\n"


def test_a_restart_gives_a_fresh_kernel_on_the_same_connection(book: Notebook) -> None:
    book.run("value = 1")
    book.manager.restart_kernel()
    book.client.wait_for_ready(timeout=60)
    assert book.run("print('value' in globals())").text == "False\n"


def test_input_is_asked_and_answered(book: Notebook) -> None:
    reply = book.client.execute_interactive(
        "name = input('Name? ')",
        allow_stdin=True,
        timeout=30,
        stdin_hook=lambda _message: book.client.input("Ada"),
    )
    assert reply["content"]["status"] == "ok"
    assert book.run("print(name)").text == "Ada\n"


def test_a_script_is_held_back_and_the_rest_of_the_output_passes(book: Notebook) -> None:
    result = book.run("from IPython.display import Javascript, display\ndisplay(Javascript('alert(1)'))")
    assert not result.bundles("application/javascript")
    [notice] = result.bundles(NOTICE_TYPE)
    assert notice["kind"] == "held"


SOCKET = """
import os, zmq
def streams():
    for name in os.listdir('/proc/self/fd'):
        try:
            target = os.readlink('/proc/self/fd/' + name)
        except OSError:
            continue
        if target.startswith('socket:'):
            yield int(name)
"""

ENDLESS = (
    SOCKET
    + """
import socket
part = b'\\x01\\xff' + bytes(255)
for fd in streams():
    try:
        peer = socket.socket(fileno=os.dup(fd))
        if peer.family != socket.AF_UNIX or peer.type != socket.SOCK_STREAM:
            continue
        peer.getpeername()
        peer.settimeout(5)
        for _ in range(20_000):
            peer.sendall(part * 16)
    except OSError:
        pass
"""
)


def test_an_endless_message_from_a_cell_leaves_the_host_flat(book: Notebook) -> None:
    book.run("pass")
    before = book.host_bytes()
    result = book.run(ENDLESS)
    assert result.reply["ename"] == "SandboxDied"
    assert book.host_bytes() - before < 32 * MIB
    assert book.run("print('again')").text == "again\n"


def test_a_closed_channel_ends_in_an_explanation_not_in_silence(book: Notebook) -> None:
    result = book.run(SOCKET + "import time\nfor fd in streams():\n    os.close(fd)\ntime.sleep(60)")
    assert result.reply["ename"] == "SandboxDied"
    assert book.run("print('again')").text == "again\n"


def test_without_namespaces_every_cell_says_why(tmp_path: Path) -> None:
    with notebook(tmp_path, SENTINEL_PROFILE="no-such-profile", SENTINEL_LANG="zh") as book:
        result = book.run("print(1)")
        assert result.reply["ename"] == "SandboxUnavailable"
        assert "修复方法" in result.reply["evalue"]


def test_status_gives_limits_in_bytes_as_they_are_on_this_machine(tmp_path: Path) -> None:
    with notebook(tmp_path, SENTINEL_PROFILE="datascience") as book:
        page = "".join(book.run("%sentinel_status").bundles("text/plain"))
        assert re.search(r"memory [\d.]+ [MG]iB, ", page), page
        assert "%" not in page.replace("%sentinel", "")
        [limits] = book.run("%sentinel_limit").bundles(LIMITS_TYPE)
        value = limits["limits"][0]["value"]
        assert f"memory {size_text(value)}, " in page
        # What programs see of the machine is the limit to the last KiB; that of one process follows what is in use
        # and what the machine has left (tests/unit/supervisor/test_memory_limits.py).
        seen = book.run("print(open('/proc/meminfo').readline().split()[1])")
        assert int(seen.text) == value >> 10


def test_what_was_set_for_the_interpreters_own_memory_is_not_seen_by_cells_and_their_children(
    book: Notebook,
) -> None:
    look = "import os, subprocess, sys\nprint('GLIBC_TUNABLES' in os.environ)\n"
    child = "print(subprocess.run(['env'], capture_output=True, text=True).stdout.count('GLIBC_TUNABLES'))"
    assert book.run(look + child).text == "False\n0\n"


def test_a_command_of_sentinels_that_is_typed_in_a_cell_says_that_it_is_for_a_terminal(
    book: Notebook,
) -> None:
    code = "import subprocess, sys\nfor module in ('cli', 'kernel.host', 'supervisor', 'worker', 'policy.profile'):\n"
    code += "    command = [sys.executable, '-m', f'sentinel_kernel.{module}', 'doctor']\n"
    code += "    done = subprocess.run(command, capture_output=True, text=True)\n"
    code += "    print(done.returncode, done.stderr.splitlines()[-1].partition(': ')[2])"
    said = book.run(code).text.splitlines()
    assert said[0] == "1 sentinel-kernel doctor"
    assert len(said) == 5
    assert all("No module named" in line or "ModuleNotFoundError" in line for line in said[1:])
