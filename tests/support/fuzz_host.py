"""Fuzz targets of the host: a worker's messages and clients', checked and forwarded by a host kernel in this process.

What comes out of it goes to jupyter_client and nbclient, as it would to any client: neither may trip over it.
"""

from __future__ import annotations

import atexit
import functools
import json
import logging
import os
import shutil
import socket
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jupyter_client.connect import write_connection_file
from jupyter_client.session import Session as ClientSession
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionComplete, CellExecutionError
from nbformat.v4 import new_code_cell, new_notebook

from sentinel_kernel.kernel import faults, inner, log, outer
from sentinel_kernel.kernel import host as host_module
from sentinel_kernel.kernel.firewall import PUBLISHED
from sentinel_kernel.kernel.host import Host
from sentinel_kernel.kernel.lifecycle import State
from sentinel_kernel.kernel.requests import read_request
from sentinel_kernel.kernel.settings import read_settings
from sentinel_kernel.kernel.supervisor_process import SupervisorProcess
from sentinel_kernel.kernel.wire import CONTENT, DELIMITER, HEADER, PARENT, encode
from sentinel_kernel.supervisor import protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

KEY = "5e1f"
CHANNELS = ("iopub", "shell", "control", "stdin")
CELL = "cell-1"
_REPLACED_AFTER = 2000
LOOKED_AT = 1
"""Every so many messages one is read as clients do, which takes longer than all that the host does."""


class _Link:
    """Stands for the supervisor: it is told everything, and answers at once."""

    gone = False
    has_news = False

    def __init__(self) -> None:
        self.asked: list[str] = []

    def request(self, _operation: str, _fields: Any, on_reply: Any, _seconds: float) -> None:
        json.dumps(_fields).encode("ascii")
        on_reply({"ok": True, "id": 0, "event": protocol.EVENT_REPLY, "problem": {}})

    def take_urgent(self) -> None:
        pass

    def dispatch(self) -> None:
        pass

    def close(self) -> None:
        pass


class HostUnderTest:
    """One host kernel whose worker has a cell that runs, and what it has sent to clients."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="fuzz-host-"))
        file = str(self.folder / "kernel.json")
        write_connection_file(file, key=KEY.encode(), transport="ipc", ip=str(self.folder / "s"))
        settings = read_settings(["-f", file], {**os.environ, "SENTINEL_LANG": "en"}, str(self.folder))
        mine, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        theirs.close()
        host_module.watch_ends = lambda _host: None  # type: ignore[assignment] # signals are this process's own
        self.host = Host(settings, SupervisorProcess(os.getpid(), mine, 1))
        self.host.loop.on_fault = self._fault
        self.host.lifecycle.link = _Link()  # type: ignore[assignment]
        self.sent: list[tuple[str, list[bytes]]] = []
        self.host.publisher.publish = lambda parts: self.sent.append(("iopub", list(map(bytes, parts))))  # type: ignore[method-assign]
        outer.send = self._send  # type: ignore[assignment]
        self.host.faults.note = lambda _what, fault: self._fault(fault)  # type: ignore[method-assign]
        self.client = ClientSession(key=KEY.encode(), check_pid=False)
        self.client.digest_history_size = 0
        self.count = 0
        self._new_worker()

    def _fault(self, fault: Exception) -> None:
        raise AssertionError("The host stumbled.") from fault

    def _send(self, _socket: Any, parts: Sequence[Any]) -> bool:
        self.sent.append(("reply", list(map(bytes, parts))))
        return True

    def _new_worker(self) -> None:
        lifecycle, execution = self.host.lifecycle, self.host.execution
        lifecycle._close_inner()
        lifecycle.generation += 1
        pairs = [socket.socketpair() for _ in inner.CHANNELS]
        self.others = [theirs for _, theirs in pairs]
        ours = [ours.detach() for ours, _ in pairs]
        lifecycle.inner = inner.Inner(
            self.host.loop, lifecycle.generation, ours, lifecycle._ledger, _ended, _ended
        )
        lifecycle.state = State.READY
        lifecycle.ready = {"sizes": {"output_bytes": 1 << 20}, "generation": lifecycle.generation}
        execution.held = False
        execution.running.clear()
        execution._lanes.clear()
        execution._outstanding.clear()
        self.host.questions.worker_gone()
        self.ask("execute_request", {"code": "x", "allow_stdin": True, "silent": False}, CELL)
        for kind in ("kernel_info", "complete", "inspect", "history", "comm_info", "is_complete", "debug"):
            self.ask(f"{kind}_request", {}, f"{kind}-1", "control" if kind == "debug" else "shell")

    def ask(self, msg_type: str, content: Any, msg_id: str, channel: str = "shell") -> None:
        """Have a client ask for something."""
        self.take(channel, self.frames(msg_type, content, msg_id))

    def frames(self, msg_type: str, content: Any, msg_id: str) -> list[bytes]:
        """Return a client's message."""
        header = {"msg_id": msg_id, "msg_type": msg_type, "session": "c", "username": "u", "version": "5.4"}
        return self.signed([encode(header), b"{}", b"{}", encode(content)])

    def signed(self, parts: list[bytes]) -> list[bytes]:
        """Return four frames, and buffers behind them, under the signature of one who has the key."""
        return [b"client", DELIMITER, self.host.session.sign(parts[:4]), *parts]

    def take(self, channel: str, frames: list[bytes]) -> None:
        """Have the host take a client's message, as its loop does."""
        host = self.host
        handle = host.clients._handlers[channel][1]
        host.session._seen.clear()
        try:
            request = read_request(channel, list(frames), host.session)
        except Exception as error:
            if not isinstance(error, faults_expected()):
                raise
            return
        host.firewall.note(request)
        try:
            handle(request)
        except faults_expected():
            return

    def settle(self) -> None:
        """Bring the host back to a cell that runs, now and then, and drop what it keeps for the loop."""
        self.count += 1
        self.sent.clear()
        ended = CELL not in self.host.execution.running
        if ended or self.host.lifecycle.state is not State.READY or self.count % _REPLACED_AFTER == 0:
            for sock in self.others:
                sock.close()
            self.host.loop._timers.clear()
            self.host.limits._output_bytes.clear()
            self._new_worker()
            self.sent.clear()


def faults_expected() -> type[Exception]:
    """Return what the host drops a message for."""
    from sentinel_kernel.errors import ProtocolError

    return ProtocolError


def _ended(*_arguments: object) -> None:
    """Take no note of a worker's end: there is none."""


@functools.cache
def under_test() -> HostUnderTest:
    """Return the host of this process."""
    logging.disable(logging.CRITICAL)
    log.log._written = 1 << 30
    faults.log = log.log
    made = HostUnderTest()
    atexit.register(shutil.rmtree, made.folder, ignore_errors=True)
    return made


def worker_message(data: bytes) -> None:
    """Have the worker send what the bytes say: a channel, how many frames are as they should be, the rest as given."""
    made = under_test()
    made.sent.clear()
    channel, frames = _worker_frames(data)
    made.host.worker._one(channel, list(frames))
    made.host.worker._end.release()
    if made.count % LOOKED_AT == 0:
        for kind, parts in made.sent:
            check_client(made, kind, parts)
    made.settle()


_PARENTS = (
    CELL,
    "kernel_info-1",
    "complete-1",
    "inspect-1",
    "history-1",
    "comm_info-1",
    "is_complete-1",
    "none",
)
_TYPES = (
    *sorted(PUBLISHED),
    *(f"{kind}_reply" for kind in ("execute", "kernel_info", "complete", "inspect", "history", "comm_info")),
    *("is_complete_reply", "debug_reply", "input_request", "made_up"),
)


def _worker_frames(data: bytes) -> tuple[str, list[bytes]]:
    """Return a message: mostly right, or random bytes would never get behind the first check.

    Bytes: channel; type; parent; which frames are taken from the data as they are. The rest, cut at zero bytes.
    """
    first = data[:4].ljust(4, b"\0")
    channel = CHANNELS[first[0] % 4]
    header = {
        "msg_id": "w-1",
        "msg_type": _TYPES[first[1] % len(_TYPES)],
        "session": "w",
        "username": "u",
        "version": "5.4",
        "date": "2026-01-01T00:00:00.000000Z",
    }
    frames = [encode(header), encode({"msg_id": _PARENTS[first[2] % len(_PARENTS)]}), b"{}", b"{}"]
    given = data[4:].split(b"\0")
    for index in (3, 2, 0, 1):
        if index == 3 or first[3] & (1 << index):
            frames[index] = given.pop(0) if given else b""
    if first[3] & 16:
        frames = frames[: first[3] >> 5]
    return channel, [b"topic", DELIMITER, b"", *frames, *given]


def client_message(data: bytes) -> None:
    """Have a client send what the bytes say, rightly signed: a channel, a type, then frames cut at zero bytes."""
    made = under_test()
    made.sent.clear()
    first = data[:3].ljust(3, b"\0")
    channel = ("shell", "control", "stdin")[first[0] % 3]
    header = {"msg_id": f"m-{made.count}", "msg_type": _REQUESTS[first[1] % len(_REQUESTS)], "session": "c"}
    parts = [encode(header), b"{}", b"{}", b"{}"]
    given = data[3:].split(b"\0")
    for index in (3, 0, 1, 2):
        if index == 3 or first[2] & (1 << index):
            parts[index] = given.pop(0) if given else b""
    if made.host._shutdown is not None or header["msg_type"] == "shutdown_request":
        return
    made.take(channel, made.signed([*parts, *given]))
    made.settle()


_REQUESTS = (
    *("execute_request", "kernel_info_request", "complete_request", "inspect_request", "history_request"),
    *("comm_open", "comm_msg", "comm_close", "comm_info_request", "is_complete_request", "interrupt_request"),
    *("debug_request", "create_subshell_request", "input_reply", "made_up", "sentinel_carry_request"),
)


def check_client(made: HostUnderTest, kind: str, parts: list[bytes]) -> None:
    """Have two clients read what the host has sent: the library's, and nbclient's way to a notebook."""
    place = parts.index(DELIMITER)
    frames = parts[place + 1 :]
    header, parent = json.loads(frames[HEADER]), json.loads(frames[PARENT])
    assert header["session"] == made.host.session.session_id
    known, of = made.host.firewall.known, str(parent.get("msg_id"))
    assert (
        not parent or of.startswith("sentinel-carry-") or known._cells.header(of) or known._others.header(of)
    )
    strict(frames[CONTENT])
    message = made.client.deserialize(made.client.feed_identities(parts)[1])
    if kind == "iopub":
        assert header["msg_type"] in PUBLISHED
        as_nbclient(message)
    elif header["msg_type"] == "execute_reply":
        content = message["content"]
        if content["status"] == "error":
            CellExecutionError.from_cell_and_msg(new_code_cell("x"), content)
    elif header["msg_type"] == "kernel_info_reply":
        int(message["content"]["protocol_version"].split(".")[0])


def strict(part: bytes) -> Any:
    """Return JSON as pages read it: no NaN, no half letters, nothing infinite."""
    value = json.loads(part, parse_constant=_no_constant)
    text = json.dumps(value, allow_nan=False, ensure_ascii=False)
    text.encode("utf-8")
    return value


def _no_constant(name: str) -> Any:
    raise AssertionError(name)


@functools.cache
def _notebook() -> tuple[NotebookClient, Any]:
    cell = new_code_cell("x")
    notebook = new_notebook(cells=[cell])
    return NotebookClient(notebook), cell


def as_nbclient(message: Any) -> None:
    """Put a message into a notebook as nbclient does."""
    client, cell = _notebook()
    cell.outputs = []
    cell.metadata["execution"] = {}
    client.clear_before_next_output = False
    client.reset_execution_trackers()
    client.widget_state, client.widget_buffers = {}, {}
    try:
        client.process_message(message, cell, 0)
    except CellExecutionComplete:
        return
    json.dumps(cell, allow_nan=False)


def seeds(name: str) -> list[bytes]:
    """Return messages that are right."""
    if name == "requests":
        return [
            b"\0\0\0" + encode({"code": "%sentinel_status", "allow_stdin": True}),
            b"\0\2\0" + encode({"code": "%sentinel_pro", "cursor_pos": 13}),
            b"\0\5\0" + encode({"comm_id": "a" * 20, "target_name": "sentinel", "data": {"op": "status"}}),
            b"\0\6\0" + encode({"comm_id": "a" * 20, "data": {"op": "violations", "last": 3}}),
            b"\2\x0d\0" + encode({"value": "y"}),
        ]
    bundle = {
        "data": {"text/plain": "x", "text/html": "<b>x</b>"},
        "metadata": {},
        "transient": {"display_id": "d"},
    }
    state = {"_model_module": "@jupyter-widgets/base", "_model_name": "LayoutModel", "msg_id": CELL}
    opened = {
        "comm_id": "c",
        "target_name": "jupyter.widget",
        "data": {"state": state, "buffer_paths": [["a"]]},
    }
    contents = {
        "stream": {"name": "stdout", "text": "x"},
        "error": {"ename": "E", "evalue": "", "traceback": ["x"]},
        "status": {"execution_state": "idle"},
        "execute_input": {"code": "x", "execution_count": 1},
        "display_data": bundle,
        "update_display_data": bundle,
        "execute_result": {**bundle, "execution_count": 1},
        "comm_open": opened,
        "comm_msg": {"comm_id": "c", "data": {"method": "update", "state": state, "buffer_paths": []}},
        "comm_close": {"comm_id": "c", "data": {}},
        "clear_output": {"wait": True},
        "execute_reply": {"status": "ok", "execution_count": 1, "payload": []},
        "input_request": {"prompt": "? ", "password": False},
        "kernel_info_reply": {"status": "ok", "protocol_version": "5.4", "language_info": {}, "banner": ""},
    }
    channels = {"execute_reply": 1, "kernel_info_reply": 1, "input_request": 3}
    return [
        bytes((channels.get(kind, 0), _TYPES.index(kind), 1 if kind.startswith("kernel_info") else 0, 0))
        + encode(content)
        for kind, content in contents.items()
    ]
