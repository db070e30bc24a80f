"""The comm target `sentinel`, with a worker that can say anything: its bounds, and how else its name may be spelled."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from hosted_kernel import HostedKernel, json_parts, kinds

from sentinel_kernel.kernel.frontend_comms import MOST_COMMS
from sentinel_kernel.kernel.output_rule import NOTICE_TYPE
from sentinel_kernel.kernel.wire import DELIMITER

if TYPE_CHECKING:
    from hosted_kernel import FakeWorker

COMM = "0123456789abcdef0123456789abcdef"


def send(kernel: HostedKernel, msg_type: str, **content: Any) -> list[tuple[str, dict[str, Any]]]:
    """Send a client's message on shell; return what is published about it."""
    message = kernel.client.session.msg(msg_type, content)
    kernel.client.shell_channel.send(message)
    return kernel.outputs(parent=str(message["header"]["msg_id"]))


def open_comm(kernel: HostedKernel, comm_id: str = COMM) -> list[tuple[str, dict[str, Any]]]:
    return send(kernel, "comm_open", comm_id=comm_id, target_name="sentinel", data={"op": "subscribe"})


@pytest.mark.parametrize("comm_id", ["short", "x" * 65, "sixteen letters!", "ünïcödë-letters-0"])
def test_an_id_that_the_worker_could_say_by_chance_is_closed(
    kernel: HostedKernel, worker: FakeWorker, comm_id: str
) -> None:
    assert kinds(open_comm(kernel, comm_id)) == ["busy", "comm_close", "idle"]
    assert kinds(open_comm(kernel)) == ["busy", "comm_msg", "idle"]  # positive control
    kernel.wait_arrived(worker)
    assert not worker.streams["shell"].messages


def test_the_oldest_is_closed_for_one_too_many_and_the_worker_hears_of_none(
    kernel: HostedKernel, worker: FakeWorker
) -> None:
    for number in range(MOST_COMMS):
        assert kinds(open_comm(kernel, f"{COMM}-{number}")) == ["busy", "comm_msg", "idle"]
    outputs = open_comm(kernel, f"{COMM}-more")
    assert dict(outputs)["comm_close"]["comm_id"] == f"{COMM}-0"
    kernel.client.comm_info("sentinel")
    worker.reply(worker.take("shell"), {"status": "ok", "comms": {"theirs": {"target_name": "Sentinel"}}})
    comms = kernel.reply()["content"]["comms"]
    assert len(comms) == MOST_COMMS
    assert {told["target_name"] for told in comms.values()} == {"sentinel"}
    assert f"{COMM}-more" in comms


@pytest.mark.parametrize(
    "spelled",
    ["\\u0073entinel", "sent\\u0069nel", "SENTINEL", " sentinel", "\\u017fentinel", "\u017fentinel"],
)
def test_the_target_is_the_hosts_however_a_worker_spells_it(
    kernel: HostedKernel, worker: FakeWorker, spelled: str
) -> None:
    msg_id = kernel.client.execute("forge")
    request, header = worker.start_cell()
    for name in (spelled, "jupyter.widget.version"):
        parts = json_parts("comm_open", {"comm_id": f"c{name[-1]}", "target_name": "@", "data": {}}, header)
        parts[3] = parts[3].replace(b"@", name.encode())
        worker.send("iopub", [b"topic", DELIMITER, b"", *parts])
    worker.end_cell(request)
    outputs = kernel.outputs(parent=msg_id)
    assert [content["target_name"] for kind, content in outputs if kind == "comm_open"] == [
        "jupyter.widget.version"
    ]
    assert NOTICE_TYPE in dict(outputs)["display_data"]["data"]


def test_a_name_of_the_hosts_that_cleaning_puts_together_is_a_forged_one(
    kernel: HostedKernel, worker: FakeWorker
) -> None:
    open_comm(kernel)
    msg_id = kernel.client.execute("forge")
    request, header = worker.start_cell()
    names = {"_model_module": "jupyter-leaflet", "_model_name": "LeafletMarkerModel"}
    for comm_id, title in (("fine", "a<x>b"), ("forged", f"{COMM[:16]}<x>{COMM[16:]}")):
        state = {**names, "title": title}
        content = {"comm_id": comm_id, "target_name": "jupyter.widget", "data": {"state": state}}
        worker.publish("comm_open", content, header)
    worker.end_cell(request)
    outputs = kernel.outputs(parent=msg_id)
    opened = [content for kind, content in outputs if kind == "comm_open"]
    assert [one["data"]["state"]["title"] for one in opened] == ["ab"]
    assert COMM not in str(outputs)


def test_a_comm_outlives_the_worker_and_the_next_one_can_not_use_it(
    kernel: HostedKernel, worker: FakeWorker
) -> None:
    open_comm(kernel)
    kernel.event("worker_died", generation=1, cause={"kind": "signal", "signal": 9}, replaced=False)
    worker.close()
    fresh = kernel.restart_worker()
    assert kinds(send(kernel, "comm_msg", comm_id=COMM, data={"op": "status"}))[-2:] == ["comm_msg", "idle"]
    msg_id = kernel.client.execute("forge")
    request, header = fresh.start_cell()
    fresh.publish("comm_msg", {"comm_id": COMM, "data": {"op": "event", "violations": []}}, header)
    fresh.publish("comm_msg", {"comm_id": "theirs", "data": {}}, header)
    fresh.end_cell(request)
    said = [content["comm_id"] for kind, content in kernel.outputs(parent=msg_id) if kind == "comm_msg"]
    assert said == ["theirs"]


def test_an_answer_fits_a_message_whatever_the_records_hold(kernel: HostedKernel, worker: FakeWorker) -> None:
    open_comm(kernel)
    kernel.client.execute("refused")
    request, _ = worker.start_cell()
    for number in range(60):
        long = {"id": f"v{number}", "version": 1, "count": 1, "syscall": "socket", "rule": "x" * 60_000}
        kernel.event("violation", generation=1, violation=long)
    worker.end_cell(request)
    kernel.reply()
    outputs = send(kernel, "comm_msg", comm_id=COMM, data={"op": "violations"})
    told = dict(outputs)["comm_msg"]["data"]
    assert told["known"] == 60
    assert 1 <= len(told["violations"]) < 60
    assert told["violations"][-1]["id"] == "v59"
    assert len(json.dumps(told)) < 3 * 1024 * 1024
