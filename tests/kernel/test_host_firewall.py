"""The message firewall: what a worker may say on which channel and in whose name, and what it costs to break that."""

from __future__ import annotations

import array
import os
import socket
import threading
from typing import Any

import pytest
from hosted_kernel import FakeWorker, HostedKernel, json_parts

from sentinel_kernel.kernel.firewall import PUBLISHED, Firewall
from sentinel_kernel.kernel.known_requests import (
    MOST_BYTES,
    MOST_CELLS,
    MOST_OPEN,
    MOST_OPEN_BYTES,
    MOST_OTHERS,
)
from sentinel_kernel.kernel.loop import Loop
from sentinel_kernel.kernel.wire import CONTENT, DELIMITER, HEADER, PARENT, encode

MIB = 1024 * 1024


def published(kernel: HostedKernel, msg_id: str) -> list[dict[str, Any]]:
    """Return all that is published until the idle of a cell, whatever its parent."""
    found = []
    while True:
        message = kernel.client.get_iopub_msg(timeout=20)
        found.append(message)
        if (
            message["content"] == {"execution_state": "idle"}
            and message["parent_header"].get("msg_id") == msg_id
        ):
            return found


def texts(messages: list[dict[str, Any]]) -> list[str]:
    return [message["content"]["text"] for message in messages if message["msg_type"] == "stream"]


def stream(worker: FakeWorker, text: str, parent: dict[str, Any], **header: Any) -> None:
    """Publish a text, with a header of its own choice."""
    parts = json_parts("stream", {"name": "stdout", "text": text}, parent)
    if header:
        parts[0] = encode({"msg_id": text, "msg_type": "stream", "session": "w", **header})
    worker.send("iopub", [b"topic", DELIMITER, b"", *parts])


def test_headers_and_parents_are_the_hosts_whatever_a_worker_says(
    kernel: HostedKernel, worker: FakeWorker
) -> None:
    msg_id = kernel.client.execute("a")
    request, header = worker.start_cell()
    stream(
        worker, "forged", {**header, "username": "root", "session": "other", "msg_type": "shutdown_request"}
    )
    stream(worker, "unknown", {"msg_id": "of-no-client", "session": kernel.client.session.session})
    # Each of these ends jupyter_client, or has a page drop the message.
    for text, odd in (("version", {"version": "x"}), ("number", {"version": 5}), ("name", {"username": []})):
        stream(worker, text, header, **(odd if text != "name" else {"username": "a\x1b[31m"}))
    stream(worker, "old", header)  # no version at all: read by the rules of version 4
    worker.end_cell(request)
    messages = published(kernel, msg_id)
    own = next(message for message in messages if message["msg_type"] == "execute_input")["parent_header"]
    assert own["msg_id"] == msg_id
    by_text = {m["content"]["text"]: m for m in messages if m["msg_type"] == "stream"}
    assert by_text.keys() == {"forged", "unknown", "version", "number", "name", "old"}
    assert by_text["forged"]["parent_header"] == own
    assert by_text["unknown"]["parent_header"] == {}
    for message in messages:
        assert message["header"]["version"].startswith("5.")
        assert message["header"]["username"].isprintable()


def test_a_channel_carries_its_own_types_alone_and_each_state_once(
    kernel: HostedKernel, worker: FakeWorker
) -> None:
    msg_id = kernel.client.execute("a")
    request, header = worker.start_cell()
    for made_up in ("shutdown_request", "execute_request", "input_request", "execute_reply", "x" * 300, ""):
        worker.publish(made_up, {"text": "x"}, header)
    for state in ("dead", "restarting", "autorestarting", "terminating", "busy", "busy", ["idle"], "idle\n"):
        worker.publish("status", {"execution_state": state}, header)
        worker.publish("status", {"execution_state": state}, {})
    worker.end_cell(request)
    messages = published(kernel, msg_id)
    assert {message["msg_type"] for message in messages} <= PUBLISHED
    states = [
        (message["content"]["execution_state"], message["parent_header"].get("msg_id"))
        for message in messages
        if message["msg_type"] == "status"
    ]
    assert sorted(states, key=str) == sorted([("busy", msg_id), ("busy", None), ("idle", msg_id)], key=str)


@pytest.mark.parametrize(
    "odd",
    [
        b'{"data":{"a/b+json":1e999},"metadata":{}}',
        b'{"data":{"a/b+json":[{"a":[-1' + b"0" * 400 + b'.0]}]},"metadata":{}}',
        b'{"data":{},"metadata":{},"data":{"text/plain":"twice"}}',
        b'{"data":{"text/plain":"\\ud800"},"metadata":{}}',
        b'{"data":{"a/b+json":' + b"9" * 5000 + b'},"metadata":{}}',
        b'{"data":{},"metadata":{},"execution_count":"x"}',
        b'{"data":{},"metadata":{},"execution_count":-1}',
    ],
)
def test_numbers_keys_and_letters_that_clients_differ_over_are_dropped(odd: bytes) -> None:
    from sentinel_kernel.kernel.output_rule import judge

    good = b'{"data":{"a/b+json":1e308,"text/plain":"\\ud83d\\ude00"},"metadata":{},"execution_count":1}'
    assert not judge("display_data", good, ()).drop  # positive control
    assert judge("display_data", odd, ()).malformed


@pytest.mark.parametrize(
    ("msg_type", "content"),
    [
        ("execute_result", {"data": {}, "metadata": {}}),  # nbclient reads a count that is not there
        (
            "comm_msg",
            {"comm_id": "c", "data": {"state": {}, "buffer_paths": [[["a"]]]}},
        ),  # and keeps paths as keys
        ("execute_reply", {"execution_count": 1}),
        ("execute_reply", {"status": "error", "ename": "E", "evalue": "", "traceback": [1], "transient": {}}),
        ("kernel_info_reply", {"status": "ok", "protocol_version": "x"}),
        ("status", {"execution_state": "idle", "execution_count": []}),
    ],
)
def test_what_clients_end_at_is_malformed(msg_type: str, content: dict[str, Any]) -> None:
    from sentinel_kernel.kernel.output_rule import judge

    assert judge(msg_type, encode(content), ()).malformed


def test_replies_that_end_clients_are_made_anew(kernel: HostedKernel, worker: FakeWorker) -> None:
    asked = {
        "kernel_info": (kernel.client.kernel_info, {"status": "ok", "protocol_version": "x.y"}),
        "complete": (lambda: kernel.client.complete("a"), {"status": "ok", "matches": [5]}),
        "execute": (lambda: kernel.client.execute("a"), {"execution_count": 1}),
    }
    for kind, (ask, content) in asked.items():
        ask()
        request = worker.take("shell")
        assert request[1]["msg_type"] == f"{kind}_request"
        worker.reply(request, content)
        reply = kernel.reply()  # jupyter_client reads a kernel_info_reply's version, and would end here
        assert reply["msg_type"] == f"{kind}_reply"
        assert reply["content"]["status"] in ("ok", "error")
        assert isinstance(reply["content"].get("matches", []), list)


def test_descriptors_that_a_worker_sends_are_never_the_hosts(
    kernel: HostedKernel, worker: FakeWorker
) -> None:
    msg_id = kernel.client.execute("a")
    request, header = worker.start_cell()
    kernel.wait_arrived(worker)
    before = len(os.listdir(f"/proc/{kernel.process.pid}/fd"))
    reader, writer = os.pipe()
    sock = worker.sockets["iopub"]
    for index in range(20):
        parts = [
            b"topic",
            DELIMITER,
            b"",
            *json_parts("stream", {"name": "stdout", "text": f"{index};"}, header),
        ]
        raw = b"".join(
            bytes((1 if part is not parts[-1] else 0, len(part))) + part
            if len(part) < 256
            else bytes((3 if part is not parts[-1] else 2,)) + len(part).to_bytes(8, "big") + part
            for part in parts
        )
        rights = array.array("i", [writer] * 10)
        assert sock.sendmsg([raw], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)]) == len(raw)
    os.close(writer)
    worker.end_cell(request)
    assert "".join(texts(published(kernel, msg_id))) == "".join(f"{index};" for index in range(20))
    assert os.read(reader, 1) == b""  # nobody holds the other end: it is closed everywhere
    os.close(reader)
    assert len(os.listdir(f"/proc/{kernel.process.pid}/fd")) == before


def test_who_breaks_the_protocol_and_writes_on_makes_the_host_keep_little(
    kernel: HostedKernel, worker: FakeWorker
) -> None:
    kernel.client.execute("a")
    worker.start_cell()
    before = kernel.resident_bytes()
    ended = threading.Event()
    empty = b"\0\0" * 32768  # messages of one empty frame: fifty times as large in the host as on the way

    def flood() -> None:
        sock = worker.sockets["iopub"]
        sock.settimeout(20)
        try:
            while not ended.is_set():
                sock.sendall(empty)
        except OSError:
            return

    flooding = threading.Thread(target=flood)
    flooding.start()
    worker.sockets["control"].sendall(b"\xff" * 64)  # no flags of ZMTP's
    assert kernel.operation("start")["reason"] == "restart"
    most = kernel.resident_bytes()
    ended.set()
    flooding.join(30)
    assert most - before < 64 * MIB
    assert kernel.reply()["content"]["ename"] == "SandboxDied"


def test_what_a_client_sends_ends_no_kernel(kernel: HostedKernel, worker: FakeWorker) -> None:
    session, shell = kernel.client.session, kernel.client.shell_channel
    odd: list[Any] = [
        *(
            {},
            {"code": 5},
            {"code": "\ud800"},
            {"code": "%sentinel_mount \0"},
            {"code": "x", "user_expressions": 1},
        ),
        *({"comm_id": [], "data": 1}, {"comm_id": "a" * 20, "target_name": "sentinel", "data": {"op": []}}),
        *({"cursor_pos": "x", "code": "%sentinel_"}, {"value": {}}, {"a": [[[[]]]] * 50}),
    ]
    for msg_type in (
        "execute_request",
        "complete_request",
        "comm_open",
        "comm_msg",
        "comm_close",
        "comm_info_request",
    ):
        for content in odd:
            shell.send(
                session.msg(msg_type, encode({**content, "stop_on_error": False}), metadata={"cellId": 5})
            )
    for content in odd:
        kernel.client.stdin_channel.send(session.msg("input_reply", encode(content)))
        kernel.client.control_channel.send(session.msg("debug_request", encode(content)))
    raw = [b"<IDS|MSG>", b"", b"{}", b"{}", b"{}", b"{}"]
    for cut in range(len(raw)):
        shell.socket.send_multipart(raw[: cut + 1])
    last = kernel.client.execute("last")
    while (request := worker.take("shell"))[1]["msg_id"] != last:
        if request[1]["msg_type"] == "execute_request":
            worker.end_cell(request)
    worker.end_cell(request)
    while kernel.reply()["parent_header"]["msg_id"] != last:
        pass
    assert kernel.process.poll() is None
    assert "fault of the host" not in kernel.log.read_text()


def test_a_loop_whose_calls_fail_goes_on_while_somebody_takes_note() -> None:
    loop = Loop()
    met: list[Exception] = []

    def fails() -> None:
        raise ZeroDivisionError

    loop.call_later(0, fails)
    loop.call_later(0, loop.stop)
    loop.on_fault = met.append
    loop.run(lambda: False)
    assert [type(fault) for fault in met] == [ZeroDivisionError]
    loop.on_fault = None
    loop.call_later(0, fails)
    with pytest.raises(ZeroDivisionError):
        loop.run(lambda: False)
    loop.close()


def note_request(firewall: Firewall, number: int) -> None:
    from types import SimpleNamespace

    made: Any = SimpleNamespace(
        msg_id=str(number),
        msg_type="execute_request" if number % 2 else "comm_msg",
        header=encode({"msg_id": str(number), "pad": "x" * 2500}),
    )
    firewall.note(made)


def test_a_request_that_has_to_end_is_not_forgotten() -> None:
    firewall = Firewall("s")
    for number in range(20_000):
        note_request(firewall, number)
    assert all(firewall.known.parent(str(number)) != b"{}" for number in range(20_000))
    for number in range(20_000, 120_000):  # what never ends is bounded, too
        note_request(firewall, number)
    for newest in (firewall.known._cells, firewall.known._others):
        assert len(newest.open.by_id) <= MOST_OPEN
        assert newest.open.bytes <= MOST_OPEN_BYTES
        assert newest.told.keys() == newest.open.by_id.keys()
        assert not newest.ended.by_id


def test_what_is_remembered_of_requests_is_bounded() -> None:
    firewall = Firewall("s")
    for number in range(20_000):
        note_request(firewall, number)
        assert firewall.known.is_first(str(number), "busy", 1)
        if number > 0:
            assert firewall.known.is_first(str(number), "idle", 1)
    for newest, most in ((firewall.known._cells, MOST_CELLS), (firewall.known._others, MOST_OTHERS)):
        for headers in (newest.open, newest.ended):
            assert len(headers.by_id) <= most
            assert sum(map(len, headers.by_id.values())) == headers.bytes <= MOST_BYTES
        assert newest.told.keys() == newest.open.by_id.keys()  # each has an idle to come
    assert len(firewall.known._cells.ended.by_id) > 3000
    assert not firewall.known.is_first("19999", "idle", 1)
    assert not firewall.known.is_first("19999", "busy", 1)
    assert firewall.known.parent("0") != b"{}"  # the oldest of all: it has still to end
    assert firewall.known.is_first("0", "idle", 1)
    old = [b"t", DELIMITER, b"", *json_parts("stream", {}, {"msg_id": "1"})]
    new = [b"t", DELIMITER, b"", *json_parts("stream", {}, {"msg_id": "19999"})]
    assert firewall.admit("iopub", [*old])[2][PARENT] == b"{}"
    assert firewall.admit("iopub", [*new])[2][PARENT].endswith(b'x"}')
    assert firewall.admit("iopub", [*new])[2][HEADER] != new[3]  # another session: made anew
    assert firewall.admit("iopub", [*new])[2][CONTENT] == b"{}"
