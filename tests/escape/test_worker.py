"""A cell against init, the next worker and the host: signals, leftovers, limits, and hostile messages."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from live_kernel import Notebook, Result

pytestmark = [pytest.mark.sandbox, pytest.mark.requires("user_namespaces", "overlay")]

_RAW = r"""
import json
from ipykernel.kernelapp import IPKernelApp
from jupyter_client.session import json_packer

def raw(msg_type, content):
    app = IPKernelApp.instance()
    parent = app.kernel.get_parent("shell")["header"]
    header = app.kernel.session.msg_header(msg_type)
    frames = [b"x", b"<IDS|MSG>", b"", json_packer(header), json_packer(parent), b"{}", content]
    app.iopub_thread.send_multipart(frames)
"""


def test_no_signal_from_a_cell_ends_pid_one(book: Notebook) -> None:
    told = book.run("""
import os, signal, subprocess
victim = subprocess.Popen(["sleep", "600"])
for number in set(range(1, 65)) - {signal.SIGCHLD}:
    os.kill(1, number)
os.kill(victim.pid, signal.SIGKILL)
print(os.path.exists("/proc/1"), victim.wait())
""").text
    assert told == "True -9\n"


def test_nothing_of_pid_one_is_open_to_a_cell(book: Notebook) -> None:
    told = book.run("""
import os, subprocess
null = os.open("/dev/null", os.O_RDONLY)
victim = subprocess.Popen(["sleep", "600"], pass_fds=[null])
for name in ("mem", "maps", "environ", "root", "cwd", "exe", f"fd/{null}", "fd", "ns/user"):
    for process in (victim.pid, 1):
        path = f"/proc/{process}/{name}"
        try:
            os.stat(path) if "/" in name else os.close(os.open(path, os.O_RDONLY))
            print("ok", end=" ")
        except OSError as error:
            print(error.errno, end=" ")
victim.kill()
""").text
    assert told.split() == ["ok", "13"] * 9
    # Its root and working folder are the sandbox's own; only what tells or takes something of it is closed.


def test_limits_of_pid_one_do_not_keep_the_next_worker_from_coming(book: Notebook) -> None:
    refused = book.run("""
import os, resource
resource.prlimit(1, resource.RLIMIT_NPROC, (0, 0))
""")
    assert refused.reply["ename"] == "PermissionError"
    assert book.run("os._exit(1)").reply["ename"] == "SandboxDied"
    assert book.run("print('next')").text == "next\n"


def test_leftovers_that_ignore_all_signals_do_not_meet_the_next_worker(book: Notebook) -> None:
    book.run("""
import os, signal
for number in set(range(1, 32)) - {signal.SIGKILL, signal.SIGSTOP}:
    signal.signal(number, signal.SIG_IGN)
for _ in range(5):
    if os.fork() == 0:
        os.setsid()
        os.fork()
        while True:
            signal.pause()
os._exit(0)
""")
    told = book.run("import os; print(sum(n.isdigit() for n in os.listdir('/proc')), os.getppid())").text
    assert told == "2 1\n"


def _judged(book: Notebook, msg_type: str, content: bytes) -> Result:
    return book.run(f"{_RAW}\nraw({msg_type!r}, {content!r})")


_BUNDLE = json.dumps({"data": {"text/plain": "rest", "TYPE": "alert(1)"}, "metadata": {}, "transient": {}})
_COMM = json.dumps(
    {"comm_id": "x", "data": {"method": "update", "state": {"outputs": [{"data": {"TYPE": "alert(1)"}}]}}}
)
_SCRIPT, _VIOLATION = "application/javascript", "application/vnd.sentinel.violation+json"
_FORMS = {
    "plain": ("display_data", _BUNDLE.replace("TYPE", _SCRIPT).encode()),
    "escaped": ("display_data", _BUNDLE.replace("TYPE", r"application/\u006aavascript").encode()),
    "escaped slash": ("display_data", _BUNDLE.replace("TYPE", r"application\/javascript").encode()),
    "letters of another case": ("display_data", _BUNDLE.replace("TYPE", "Application/JavaScript").encode()),
    "with a parameter": ("display_data", _BUNDLE.replace("TYPE", f"{_SCRIPT};charset=utf-8").encode()),
    "behind a space": ("display_data", _BUNDLE.replace("TYPE", f"\u00a0{_SCRIPT}").encode()),
    "update": ("update_display_data", _BUNDLE.replace("TYPE", _SCRIPT).encode()),
    "given twice": ("display_data", b'{"data":{},' + _BUNDLE.replace("TYPE", _SCRIPT).encode()[1:]),
    "long": (
        "display_data",
        b'{"x":"' + bytes([121]) * 70000 + b'",' + _BUNDLE.replace("TYPE", _SCRIPT).encode()[1:],
    ),
    "long and escaped": (
        "display_data",
        b'{"x":"'
        + bytes([121]) * 70000
        + b'",'
        + _BUNDLE.replace("TYPE", r"text/javascr\u0069pt").encode()[1:],
    ),
    "utf-16": ("display_data", _BUNDLE.replace("TYPE", _SCRIPT).encode("utf-16")),
    "byte order mark": ("display_data", b"\xef\xbb\xbf" + _BUNDLE.replace("TYPE", _SCRIPT).encode()),
    "widget's state": ("comm_msg", _COMM.replace("TYPE", _SCRIPT).encode()),
    "widget's state, escaped": ("comm_msg", _COMM.replace("TYPE", r"text/\u006aavascript").encode()),
    "unknown type": ("DISPLAY_DATA", _BUNDLE.replace("TYPE", _SCRIPT).encode()),
    "violation": ("display_data", _BUNDLE.replace("TYPE", _VIOLATION).encode()),
    "violation, escaped": (
        "display_data",
        _BUNDLE.replace("TYPE", r"application/vnd.s\u0065ntinel.x").encode(),
    ),
}


def test_no_form_of_a_script_or_a_forged_violation_reaches_a_client(book: Notebook) -> None:
    for name, (msg_type, content) in _FORMS.items():
        outputs = _judged(book, msg_type, content).outputs
        worker = [body for _, body in outputs if "sentinel-box" not in json.dumps(body)]
        text = json.dumps(worker).lower()
        assert "javascript" not in text, name
        assert "sentinel" not in text, name
    allowed = _judged(
        book, "display_data", _BUNDLE.replace("TYPE", "text/latex").encode()
    )  # positive control
    assert allowed.bundles("text/latex") == ["alert(1)"]


def _high_water_bytes(book: Notebook) -> int:
    status = Path(f"/proc/{book.host_pid}/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) * 1024


def test_json_of_many_empty_lists_does_not_fill_the_host(book: Notebook) -> None:
    size = 6 << 20
    plain = f'{{"data":{{"text/plain":"{"x" * size}"}},"metadata":{{}}}}'
    book.run(
        f"{_RAW}\nraw('display_data', {plain!r}.encode())"
    )  # positive control: as many bytes, one string
    before = _high_water_bytes(book)
    told = book.run(
        f"{_RAW}\nraw('display_data', b'{{\"application/javascript\":[' + b'[],' * {size // 3} + b'[]]}}')"
    )
    assert told.reply["status"] == "ok"
    assert _high_water_bytes(book) - before < 8 * size


def test_forged_count_does_not_make_the_next_sandbox_fail(book: Notebook) -> None:
    book.run(f'{_RAW}\nraw(\'execute_input\', b\'{{"execution_count":2147483647,"code":""}}\')')
    assert book.run("%sentinel_reset\nprint('next')").reply["status"] == "ok"


def test_broken_protocol_on_the_live_channel_ends_the_worker_and_not_the_host(book: Notebook) -> None:
    host = book.host_pid
    died = book.run("""
import os, socket
for name in os.listdir("/proc/self/fd"):
    try:
        sock = socket.socket(fileno=os.dup(int(name)))
    except OSError:
        continue
    listens = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
    if sock.family == socket.AF_UNIX and not listens and str(sock.getsockname()).endswith("/iopub"):
        sock.send(b"\\x01\\x00" * 4000)
    else:
        sock.detach()
input()
""")
    assert died.reply["ename"] == "SandboxDied"
    assert book.run("print('next')").text == "next\n"
    assert book.host_pid == host
