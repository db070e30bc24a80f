"""What a hostile worker tries against the host's refusals, its questions, and the clients behind it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from hosted_kernel import VIOLATION, FakeWorker, HostedKernel, json_parts, kinds

from sentinel_kernel.kernel import faults, worker_side
from sentinel_kernel.kernel.firewall import Firewall
from sentinel_kernel.kernel.output_rule import NOTICE_TYPE, VIOLATION_TYPE
from sentinel_kernel.kernel.wire import CONTENT, DELIMITER, METADATA, encode
from sentinel_kernel.supervisor import protocol

Outputs = list[tuple[str, dict[str, Any]]]


def mimes(outputs: Outputs) -> list[str]:
    return [mime for _, content in outputs for mime in content.get("data", {})]


def kept(outputs: Outputs) -> list[str]:
    """Return which outputs are left in a cell, as all clients keep them: a widget's go into the widget."""
    cell: list[str] = []
    clear, captors = False, list[str]()
    for kind, content in outputs:
        state = content.get("data", {}).get("state", {}) if kind == "comm_msg" else {}
        if "msg_id" in state:
            if state["msg_id"]:
                captors.append(content["comm_id"])
            else:
                assert captors.pop() == content["comm_id"]  # nbclient takes the last one, unseen
        elif captors:
            continue
        elif kind == "clear_output":
            clear = content["wait"]
            cell = cell if clear else []
        elif kind in ("stream", "display_data"):
            cell = [
                *([] if clear else cell),
                VIOLATION_TYPE if VIOLATION_TYPE in content.get("data", {}) else kind,
            ]
            clear = False
    return cell


def capture(comm_id: str, msg_id: str) -> dict[str, Any]:
    return {"comm_id": comm_id, "data": {"method": "update", "state": {"msg_id": msg_id}, "buffer_paths": []}}


@pytest.mark.parametrize("wait", [False, True, "", 1, {}])
def test_a_long_clear_output_takes_no_refusal_away(
    kernel: HostedKernel, worker: FakeWorker, wait: Any
) -> None:
    msg_id = kernel.client.execute("a")
    request, header = worker.start_cell()
    kernel.event("violation", generation=1, violation=VIOLATION)
    worker.publish("clear_output", {"wait": wait, "pad": "x" * 70_000}, header)
    worker.publish("stream", {"name": "stdout", "text": "1"}, header)
    worker.end_cell(request)
    outputs = kernel.outputs(parent=msg_id)
    assert "clear_output" in kinds(outputs)  # positive control: the worker may clear what it showed
    assert VIOLATION_TYPE in kept(outputs)


def test_a_second_refusal_behind_a_pending_clear_brings_the_first_one_back(
    kernel: HostedKernel, worker: FakeWorker
) -> None:
    msg_id = kernel.client.execute("a")
    request, header = worker.start_cell()
    kernel.event("violation", generation=1, violation=VIOLATION)
    worker.publish("clear_output", {"wait": True}, header)
    worker.publish("comm_close", {"comm_id": "x", "data": {}}, header)
    kernel.wait_arrived(worker)
    kernel.event("violation", generation=1, violation={**VIOLATION, "id": "v2"})
    worker.end_cell(request)
    assert kept(kernel.outputs(parent=msg_id)) == [VIOLATION_TYPE] * 2


def test_a_refusal_is_shown_outside_of_widgets_that_capture_outputs(
    kernel: HostedKernel, worker: FakeWorker
) -> None:
    msg_id = kernel.client.execute("a")
    request, header = worker.start_cell()
    for comm_id in ("one", "two", "two"):
        worker.publish("comm_msg", capture(comm_id, msg_id), header)
    worker.publish("stream", {"name": "stdout", "text": "captured"}, header)
    kernel.event("violation", generation=1, violation=VIOLATION)
    worker.publish("comm_msg", capture("one", ""), header)
    worker.publish("stream", {"name": "stdout", "text": "captured"}, header)
    worker.publish(
        "comm_open", {"comm_id": "two", "target_name": "jupyter.widget.version", "data": {}}, header
    )
    worker.publish("stream", {"name": "stdout", "text": "seen"}, header)
    worker.end_cell(request)
    assert kept(kernel.outputs(parent=msg_id)) == [VIOLATION_TYPE, "stream"]


def test_what_a_captured_clear_output_cleared_is_shown_again_at_the_end(
    kernel: HostedKernel, worker: FakeWorker
) -> None:
    msg_id = kernel.client.execute("a")
    request, header = worker.start_cell()
    kernel.event("violation", generation=1, violation=VIOLATION)
    worker.publish("comm_msg", capture("no-such-widget", msg_id), header)
    worker.publish("clear_output", {"wait": False}, header)
    worker.end_cell(request)
    outputs = kernel.outputs(parent=msg_id)
    assert mimes(outputs[kinds(outputs).index("clear_output") :]).count(VIOLATION_TYPE) == 1


@pytest.mark.parametrize("part", ["content", "metadata"])
@pytest.mark.parametrize("odd", [b"x", b'{"a":NaN}', b'{"a":' + b"[" * 900 + b"]" * 900 + b"}"])
def test_what_clients_cannot_read_is_held_back_and_named(
    kernel: HostedKernel, worker: FakeWorker, part: str, odd: bytes
) -> None:
    msg_id = kernel.client.execute("a")
    request, header = worker.start_cell()
    parts = json_parts("stream", {"name": "stdout", "text": "odd"}, header)
    parts[(CONTENT if part == "content" else METADATA) - 1] = odd
    worker.send("iopub", [b"topic", DELIMITER, b"", *parts])
    worker.publish("stream", {"name": "stdout", "text": "seen"}, header)
    worker.end_cell(request)
    outputs = kernel.outputs(parent=msg_id)
    assert [content["text"] for kind, content in outputs if kind == "stream"] == ["seen"]
    assert NOTICE_TYPE in mimes(outputs)


def test_a_header_that_ends_clients_is_dropped(kernel: HostedKernel, worker: FakeWorker) -> None:
    msg_id = kernel.client.execute("a")
    request, header = worker.start_cell()
    parts = json_parts("stream", {"name": "stdout", "text": "odd"}, header)
    odd = encode({"msg_id": "m", "msg_type": "stream", "session": "w", "date": "2026-02-30T00:00:00"})
    worker.send("iopub", [b"topic", DELIMITER, b"", odd, *parts[1:]])
    worker.send("iopub", [b"topic", DELIMITER, b"", parts[0], encode({**header, "msg_id": []}), *parts[2:]])
    worker.publish("stream", {"name": "stdout", "text": "seen"}, header)
    worker.end_cell(request)
    outputs = kernel.outputs(parent=msg_id)
    assert [content["text"] for kind, content in outputs if kind == "stream"] == ["seen"]


@pytest.mark.parametrize(
    ("msg_type", "content"),
    [
        ("error", {"ename": "E", "evalue": "", "traceback": ["x" * 100_000]}),
        ("comm_open", {"comm_id": "c", "target_name": "t", "data": {"x": "x" * 100_000}}),
        ("comm_close", {"comm_id": "c", "data": {"x": "x" * 100_000}}),
        ("stream", {"name": "stdout", "text": "x" * 100_000}),
        ("debug_event", {"x": "x" * 100_000}),
        ("made_up", {"x": "x" * 100_000}),
    ],
)
def test_every_kind_of_message_counts_as_output(
    kernel: HostedKernel, worker: FakeWorker, msg_type: str, content: dict[str, Any]
) -> None:
    kernel.event(protocol.EVENT_READY, generation=1, sizes={"output_bytes": 64 * 1024})
    msg_id = kernel.client.execute("a")
    request, header = worker.start_cell()
    for _ in range(20):
        worker.publish(msg_type, content, header)
    worker.publish("error", {"ename": "Told", "evalue": "", "traceback": []}, header)
    worker.end_cell(request, status="error")
    outputs = kernel.outputs(parent=msg_id)
    assert kinds(outputs).count(msg_type) <= 3
    assert "Told" in [content.get("ename") for _, content in outputs]  # why the cell failed is still seen


def test_an_answer_to_a_cells_own_prompt_is_none_to_the_next_cells_question(
    kernel: HostedKernel, worker: FakeWorker
) -> None:
    kernel.client.execute("a", allow_stdin=True)
    request, _ = worker.start_cell()
    worker.reply(request, {"prompt": "Continue? ", "password": False}, "stdin", "input_request")
    assert kernel.client.get_stdin_msg(timeout=20)["content"]["prompt"] == "Continue? "
    worker.end_cell(request)
    kernel.client.execute("b", allow_stdin=True)
    worker.start_cell(2)
    held: dict[str, Any] = {
        "id": "q",
        "syscall": "personality",
        "arguments": [],
        "profile": "p",
        "rule": "ASK",
    }
    process = {"pid": 7, "command": "python", "is_worker": True}
    ask = {**held, "process": process, "line": 1}
    kernel.event(protocol.EVENT_ASK, generation=kernel.generation, ask=ask, why="because", seconds=60.0)
    assert kernel.client.get_stdin_msg(timeout=20)["content"]["prompt"].startswith("Sentinel asks")
    kernel.client.input("y")  # to the first box
    kernel.client.input("n")
    assert kernel.operation(protocol.OP_ANSWER)["answer"] == "no"


MIB = 1024 * 1024
MUCH = 40_000_000
KEYS = b",".join(b'"k%d":0' % one for one in range(500_000))
HEAVY = {
    "markdown": (b'{"data":{"text/markdown":"%s","text/plain":"x"},"metadata":{}}', b"<a " * (MUCH // 3)),
    "scheme": (b'{"data":{"text/markdown":"%s","text/plain":"x"},"metadata":{}}', b"data:" * (MUCH // 5)),
    "keys": (
        b'{"data":{"application/json":[%s],"text/plain":"x"},"metadata":{}}',
        b"{%s},{%s}" % (KEYS, KEYS),
    ),
    "stream": (b'{"name":"stdout","text":"%s"}', b"\\u001b]" * (MUCH // 7)),
    "error": (b'{"ename":"E","evalue":"","traceback":["%s"]}', b"\\u001b]" * (MUCH // 7)),
}


@pytest.mark.parametrize("name", HEAVY)
def test_an_output_that_would_take_the_hosts_time_and_memory_is_held_back_and_told(
    kernel: HostedKernel, worker: FakeWorker, name: str
) -> None:
    msg_id = kernel.client.execute("a")
    request, header = worker.start_cell()
    msg_type = name if name in ("stream", "error") else "display_data"
    form, filling = HEAVY[name]
    parts = json_parts(msg_type, {}, header)
    parts[CONTENT - 1] = form % filling
    before = kernel.peak_bytes()
    worker.send("iopub", [b"topic", DELIMITER, b"", *parts])
    kernel.client.control_channel.send(kernel.client.session.msg("interrupt_request"))
    assert kernel.reply("control")["content"]["status"] == "ok"
    worker.publish("stream", {"name": "stdout", "text": "seen"}, header)
    worker.end_cell(request)
    outputs = kernel.outputs(parent=msg_id)
    assert [content["text"] for kind, content in outputs if kind == "stream"] == ["seen"]
    assert "text/markdown" not in mimes(outputs)
    assert "application/json" not in mimes(outputs)
    assert NOTICE_TYPE in mimes(outputs)
    assert kernel.peak_bytes() - before < 320 * MIB  # some copies of the message itself


def test_a_fault_of_the_host_over_a_message_drops_that_message_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    said: list[str] = []
    monkeypatch.setattr(faults, "log", said.append)
    host: Any = SimpleNamespace(
        firewall=Firewall("w"), faults=faults.Faults()
    )  # whatever else is used is a fault
    side = worker_side.WorkerSide(host)
    for _ in range(2):
        side._one(
            "iopub", [b"topic", DELIMITER, b"", *json_parts("stream", {"name": "stdout", "text": ""}, {})]
        )
    assert [line for line in said if line.startswith("A message")] == [said[0], said[-1]]
    assert "AttributeError" in said[0]
    assert sum("Traceback" in line for line in said) == 1
