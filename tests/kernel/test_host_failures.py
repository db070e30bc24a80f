"""The host holds an error that the worker reports on until the supervisor has spoken, and changes nothing else."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from hosted_kernel import SECONDS, VIOLATION, json_parts

from sentinel_kernel.kernel.output_rule import VIOLATION_TYPE
from sentinel_kernel.kernel.wire import DELIMITER, encode
from sentinel_kernel.supervisor import protocol

if TYPE_CHECKING:
    from hosted_kernel import FakeWorker, HostedKernel

LINE = [1, "<module>", "/tmp/ipykernel_7/1.py"]
ENTRY = {"ename": "PermissionError", "base": "OSError", "by": "call", "errno": 1, "lines": [LINE]}
REPORT = {"thread": 1, "chain": [ENTRY]}
ERROR = b'{"ename":"E", "evalue" : "v\\u00e9", "traceback":["t"],"more":1}'
"""Written as the host would not."""


def error_parts(header: dict[str, Any], metadata: object, msg_type: str = "error") -> list[bytes]:
    """Return an error message with metadata, as bytes."""
    parts = json_parts(msg_type, {}, header)
    return [*parts[:2], encode(metadata), ERROR]  # type: ignore[arg-type] # any JSON


def publish(worker: FakeWorker, header: dict[str, Any], metadata: object, msg_type: str = "error") -> None:
    """Publish an error on which the worker reports."""
    worker.send("iopub", [b"topic", DELIMITER, b"", *error_parts(header, metadata, msg_type)])


def begin(kernel: HostedKernel, worker: FakeWorker) -> tuple[list[Any], dict[str, Any]]:
    """Start a cell, and answer by hand from then on."""
    kernel.client.execute("a")
    request, header = worker.start_cell()
    kernel.outputs(until="busy")
    kernel.answering = False
    return request, header


def raw(kernel: HostedKernel) -> tuple[str, bytes, dict[str, Any]]:
    """Return the next message on iopub: type, content as it came, metadata."""
    frames = kernel.client.iopub_channel.socket.recv_multipart()
    at = frames.index(DELIMITER)
    return json.loads(frames[at + 2])["msg_type"], frames[at + 5], json.loads(frames[at + 4])


def test_an_error_and_what_is_behind_it_wait_for_the_supervisor(
    kernel: HostedKernel, worker: FakeWorker
) -> None:
    request, header = begin(kernel, worker)
    publish(worker, header, {"sentinel_failure": REPORT, "other": 2})
    worker.publish("stream", {"name": "stdout", "text": "behind"}, header)
    asked = kernel.operation(protocol.OP_EXPLAIN)
    assert asked["msg_id"] == header["msg_id"]
    assert asked["report"]["chain"][0]["errno"] == 1
    kernel.event(protocol.EVENT_REPLY, id=asked["id"], ok=True, violation=VIOLATION)
    shown = [kernel.client.get_iopub_msg(timeout=SECONDS) for _ in range(4)]
    assert [message["msg_type"] for message in shown] == ["execute_input", "display_data", "error", "stream"]
    assert shown[1]["content"]["data"][VIOLATION_TYPE]["id"] == "v1"
    error = shown[2]["content"]
    assert error["evalue"].startswith("vé [Sentinel: ")
    assert " HINT: " in error["evalue"]
    assert error["traceback"][0] == "t"
    assert error["traceback"][1].startswith("\n[SEMANTIC] ")
    assert error["more"] == 1
    assert shown[2]["metadata"] == {"other": 2}
    # The reply says the same, and asks for nothing.
    kernel.answering = True
    parts = error_parts(header, {"sentinel_failure": REPORT}, "execute_reply")
    parts[3] = encode({**json.loads(ERROR), "status": "error", "execution_count": 1})
    worker.send("shell", [*map(bytes, request[0]), DELIMITER, b"", *parts])
    reply = kernel.reply()
    assert reply["content"]["evalue"] == error["evalue"]
    assert reply["metadata"] == {}


@pytest.mark.parametrize("fields", [{"likely": True}, {"violation": {**VIOLATION, "confidence": "likely"}}])
def test_an_error_that_is_only_likely_a_refusals_says_so(
    kernel: HostedKernel, worker: FakeWorker, fields: dict[str, Any]
) -> None:
    _, header = begin(kernel, worker)
    publish(worker, header, {"sentinel_failure": REPORT})
    asked = kernel.operation(protocol.OP_EXPLAIN)
    kernel.event(protocol.EVENT_REPLY, **{"id": asked["id"], "ok": True, "violation": VIOLATION, **fields})
    shown = [kernel.client.get_iopub_msg(timeout=SECONDS)["content"] for _ in range(3)]
    assert shown[2]["evalue"].startswith("vé [Sentinel: Probably: ")
    assert shown[2]["traceback"][1].startswith("\n[SEMANTIC] Probably: ")
    # The refusal itself is as certain as it was told.
    told = fields.get("violation", VIOLATION)["confidence"]
    assert shown[1]["data"][VIOLATION_TYPE]["confidence"] == told


@pytest.mark.parametrize(
    ("errors", "explained"),
    [(["ours"], True), (["ours", "ours"], True), (["ours", "plain"], False), (["ours", "own", "ours"], True),
     (["ours", "own", "ours", "own"], False)],
)  # fmt: skip
def test_the_last_error_of_a_cell_tells_whether_it_is_explained(
    kernel: HostedKernel, worker: FakeWorker, errors: list[str], explained: bool
) -> None:
    request, header = begin(kernel, worker)
    asked: set[str] = set()
    for number, kind in enumerate(errors):
        report: dict[str, Any] = {**REPORT, "thread": 1 if kind == "ours" else 2}
        publish(worker, header, {} if kind == "plain" else {"sentinel_failure": report})
        if kind not in ("plain", *asked):
            fields: dict[str, Any] = {"violation": VIOLATION} if kind == "ours" else {}
            kernel.event(
                protocol.EVENT_REPLY, id=kernel.operation(protocol.OP_EXPLAIN)["id"], ok=True, **fields
            )
        asked.add(kind)
        while raw(kernel)[0] != "error":
            assert number < len(errors)
    worker.end_cell(request, status="error")
    assert kernel.operation(protocol.OP_END_CELL)["explained"] is explained


def test_an_error_of_a_programs_own_passes_byte_for_byte(kernel: HostedKernel, worker: FakeWorker) -> None:
    _, header = begin(kernel, worker)
    kernel.answering = True
    publish(worker, header, {"sentinel_failure": REPORT})
    assert [raw(kernel)[0], raw(kernel)] == ["execute_input", ("error", ERROR, {})]


@pytest.mark.parametrize("report", [7, {}, {"chain": "x"}, {"chain": [{**ENTRY, "errno": "x"}]}])
def test_what_is_no_report_is_taken_off_and_not_asked_about(
    kernel: HostedKernel, worker: FakeWorker, report: object
) -> None:
    _, header = begin(kernel, worker)
    for msg_type in ("error", "sentinel_failure"):
        publish(worker, header, {"sentinel_failure": report, "other": 2}, msg_type)
    worker.publish("stream", {"name": "stdout", "text": "behind"}, header)
    assert [raw(kernel)[0], raw(kernel), raw(kernel)[0]] == [
        "execute_input",
        ("error", ERROR, {"other": 2}),
        "stream",
    ]


def test_a_supervisor_that_says_nothing_holds_an_error_up_for_two_seconds(
    kernel: HostedKernel, worker: FakeWorker
) -> None:
    _, header = begin(kernel, worker)
    publish(worker, header, {"sentinel_failure": REPORT})
    asked = kernel.operation(protocol.OP_EXPLAIN)
    assert [raw(kernel)[0], raw(kernel)] == ["execute_input", ("error", ERROR, {})]
    kernel.event(
        protocol.EVENT_REPLY, id=asked["id"], ok=True, violation=VIOLATION
    )  # too late: nothing is shown
    worker.publish("stream", {"name": "stdout", "text": "on"}, header)
    assert raw(kernel)[0] == "stream"


def test_answers_that_are_none_let_the_error_go(kernel: HostedKernel, worker: FakeWorker) -> None:
    _, header = begin(kernel, worker)
    for number, fields in enumerate(
        ({"violation": 3}, {"limit": {}}, {"violation": {}}, {"limit": {"name": "x"}})
    ):
        publish(worker, header, {"sentinel_failure": {**REPORT, "thread": number}})
        asked = kernel.operation(protocol.OP_EXPLAIN)
        kernel.event(protocol.EVENT_REPLY, id=asked["id"], ok=True, **fields)
    worker.publish("stream", {"name": "stdout", "text": "on"}, header)
    seen: list[str] = []
    while "stream" not in seen:
        seen.append(raw(kernel)[0])
    assert seen.count("error") == 4


def test_the_last_words_of_a_worker_wait_for_nobody(kernel: HostedKernel, worker: FakeWorker) -> None:
    _, header = begin(kernel, worker)
    publish(worker, header, {"sentinel_failure": REPORT})
    kernel.operation(protocol.OP_EXPLAIN)
    cause = {"kind": "signal", "signal": 9, "status": None, "violation_id": None, "detail": ""}
    kernel.event(protocol.EVENT_WORKER_DIED, generation=1, cause=cause, replaced=True)
    seen: list[str] = []
    while seen.count("error") < 2:  # its own, then that it died
        seen.append(raw(kernel)[0])
