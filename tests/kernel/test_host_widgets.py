"""Widgets of the host's: what it opens, updates and answers; and that no worker can touch one."""

from __future__ import annotations

import contextlib
import os
import queue
import re
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import nbconvert
import nbformat
import pytest
from hosted_kernel import HostedKernel, json_parts, kinds

from sentinel_kernel import kernelspecs
from sentinel_kernel.kernel.output_rule import NOTICE_TYPE
from sentinel_kernel.kernel.widgets import VIEW_TYPE
from sentinel_kernel.kernel.wire import DELIMITER

if TYPE_CHECKING:
    from pathlib import Path

    from hosted_kernel import FakeWorker

VIOLATION: dict[str, Any] = {"id": "v1", "version": 1, "syscall": "socket", "profile": "strict", "count": 1}


def run(kernel: HostedKernel, worker: FakeWorker, code: str) -> list[tuple[str, dict[str, Any]]]:
    """Let the worker do nothing for a cell; return what was published."""
    msg_id = kernel.client.execute(code)
    worker.run_cell()
    kernel.reply()
    return kernel.outputs(parent=msg_id)


def show_live(kernel: HostedKernel, worker: FakeWorker) -> str:
    """Show the live status page; return its model's id."""
    outputs = run(kernel, worker, "%sentinel_status --live")
    return str(dict(outputs)["display_data"]["data"][VIEW_TYPE]["model_id"])


def send(kernel: HostedKernel, msg_type: str, **content: Any) -> str:
    """Send a client's message on shell; return its id."""
    message = kernel.client.session.msg(msg_type, content)
    kernel.client.shell_channel.send(message)
    return str(message["header"]["msg_id"])


def test_its_models_are_open_before_their_view_is_shown_with_text_beside_it(
    kernel: HostedKernel, worker: FakeWorker
) -> None:
    outputs = run(kernel, worker, "%sentinel_status --live")
    assert kinds(outputs) == [*["comm_open"] * 3, "busy", "execute_input", "display_data", "idle"]
    opened = {content["comm_id"]: content for kind, content in outputs if kind == "comm_open"}
    assert len(opened) == 3
    shown = dict(outputs)["display_data"]["data"]
    state = opened[shown[VIEW_TYPE]["model_id"]]["data"]["state"]
    assert state["_model_name"] == "HTMLModel"
    assert state["value"] == shown["text/html"]
    assert "strict" in shown["text/plain"]
    for reference in (state["layout"], state["style"]):
        assert reference.removeprefix("IPY_MODEL_") in opened


def test_a_second_view_shows_the_same_model(kernel: HostedKernel, worker: FakeWorker) -> None:
    model = show_live(kernel, worker)
    outputs = run(kernel, worker, "%sentinel_status --live")
    assert "comm_open" not in kinds(outputs)
    assert dict(outputs)["display_data"]["data"][VIEW_TYPE]["model_id"] == model


def test_a_clients_request_for_a_state_is_answered_by_the_host_alone(
    kernel: HostedKernel, worker: FakeWorker
) -> None:
    model = show_live(kernel, worker)
    asked = send(kernel, "comm_msg", comm_id=model, data={"method": "request_state"})
    outputs = kernel.outputs(parent=asked)
    assert kinds(outputs) == ["busy", "comm_msg", "idle"]
    assert outputs[1][1]["data"]["state"]["_model_name"] == "HTMLModel"
    # What a client would like to change comes back as it is; closing it is not a client's business.
    changed = send(kernel, "comm_msg", comm_id=model, data={"method": "update", "state": {"value": "forged"}})
    assert "forged" not in str(kernel.outputs(parent=changed))
    closed = send(kernel, "comm_close", comm_id=model, data={})
    assert kinds(kernel.outputs(parent=closed)) == ["busy", "idle"]
    kernel.wait_arrived(worker)  # the worker's next message is the probe's: nothing else reached it
    assert not worker.streams["shell"].messages


def test_the_comms_of_both_sides_are_listed(kernel: HostedKernel, worker: FakeWorker) -> None:
    model = show_live(kernel, worker)
    theirs = {"theirs": {"target_name": "jupyter.widget"}}
    kernel.client.comm_info("jupyter.widget")
    worker.reply(
        worker.take("shell"), {"status": "ok", "comms": {**theirs, model: {"target_name": "forged"}}}
    )
    comms = kernel.reply()["content"]["comms"]
    assert comms["theirs"] == {"target_name": "jupyter.widget"}
    assert comms[model] == {"target_name": "jupyter.widget"}
    assert len(comms) == 4
    kernel.client.comm_info("another.target")
    worker.reply(worker.take("shell"), {"status": "ok", "comms": {}})
    assert kernel.reply()["content"]["comms"] == {}


def test_a_page_that_asks_for_all_states_gets_those_of_both_sides(
    kernel: HostedKernel, worker: FakeWorker
) -> None:
    model = show_live(kernel, worker)
    send(kernel, "comm_open", comm_id="control", target_name="jupyter.widget.control", data={})
    assert worker.take("shell")[1]["msg_type"] == "comm_open"
    send(kernel, "comm_msg", comm_id="control", data={"method": "request_states"})
    request = worker.take("shell")
    theirs = {"model_name": "IntSliderModel", "state": {"value": 3}}
    data = {"method": "update_states", "states": {"theirs": theirs}, "buffer_paths": [["theirs", "x"]]}
    worker.publish("comm_msg", {"comm_id": "control", "data": data}, request[1])
    worker.publish("status", {"execution_state": "idle"}, request[1])
    data = dict(kernel.outputs(parent=request[1]["msg_id"]))["comm_msg"]["data"]
    assert data["states"]["theirs"] == theirs
    assert data["states"][model]["model_name"] == "HTMLModel"
    assert data["states"][model]["state"]["_view_name"] == "HTMLView"
    assert data["buffer_paths"] == [["theirs", "x"]]


@pytest.mark.parametrize("asked_first", [True, False])
def test_such_a_page_gets_the_hosts_where_the_worker_has_no_widgets(
    kernel: HostedKernel, worker: FakeWorker, asked_first: bool
) -> None:
    model = show_live(kernel, worker)
    send(kernel, "comm_open", comm_id="control", target_name="jupyter.widget.control", data={})
    opened = worker.take("shell")
    if asked_first:
        asked = send(kernel, "comm_msg", comm_id="control", data={"method": "request_states"})
        worker.take("shell")
    worker.publish("comm_close", {"comm_id": "control", "data": {}}, opened[1])
    worker.publish("status", {"execution_state": "idle"}, opened[1])
    if not asked_first:
        assert "comm_close" not in kinds(kernel.outputs(parent=opened[1]["msg_id"]))
        asked = send(kernel, "comm_msg", comm_id="control", data={"method": "request_states"})
    message: dict[str, Any] = {"msg_type": ""}
    while message["msg_type"] != "comm_msg":
        message = kernel.client.get_iopub_msg(timeout=20)
        assert message["msg_type"] != "comm_close"
    assert message["parent_header"]["msg_id"] == asked
    assert message["content"]["data"]["states"].keys() >= {model}


@pytest.mark.parametrize("escaped", [False, True])
@pytest.mark.parametrize(
    ("msg_type", "content"),
    [
        ("comm_open", {"comm_id": "MODEL", "target_name": "jupyter.widget", "data": {"state": {}}}),
        ("comm_msg", {"comm_id": "MODEL", "data": {"method": "update", "state": {"value": "forged"}}}),
        ("comm_close", {"comm_id": "MODEL", "data": {}}),
        # A link between widgets is carried out by the page: it would change the host's too.
        (
            "comm_open",
            {
                "comm_id": "theirs",
                "target_name": "jupyter.widget",
                "data": {"state": {"_model_name": "LinkModel", "target": ["IPY_MODEL_MODEL", "value"]}},
            },
        ),
        (
            "comm_msg",
            {"comm_id": "control", "data": {"method": "update_states", "states": {"MODEL": {"state": {}}}}},
        ),
    ],
)
def test_a_worker_that_names_the_hosts_model_is_not_heard_and_the_cell_says_so(
    kernel: HostedKernel, worker: FakeWorker, msg_type: str, content: dict[str, Any], escaped: bool
) -> None:
    model = show_live(kernel, worker)
    written = "".join(f"\\u{ord(letter):04x}" for letter in model) if escaped else model
    msg_id = kernel.client.execute("forge")
    request, header = worker.start_cell()
    parts = json_parts(msg_type, content, header)
    parts[3] = parts[3].replace(b"MODEL", b"@@").replace(b"IPY_@@_@@", b"IPY_MODEL_@@")
    parts[3] = parts[3].replace(b"@@", written.encode())
    worker.send("iopub", [b"topic", DELIMITER, b"", *parts])
    worker.publish("comm_msg", {"comm_id": "theirs", "data": {"a": 1}}, header)  # the control: it is heard
    worker.end_cell(request)
    outputs = kernel.outputs(parent=msg_id)
    comms = [content for kind, content in outputs if kind.startswith("comm_")]
    assert comms == [{"comm_id": "theirs", "data": {"a": 1}}]
    assert NOTICE_TYPE in dict(outputs)["display_data"]["data"]


def test_the_page_follows_refusals_within_the_cell_and_never_between_cells(
    kernel: HostedKernel, worker: FakeWorker
) -> None:
    model = show_live(kernel, worker)
    msg_id = kernel.client.execute("refused")
    request, _ = worker.start_cell()
    kernel.event("violation", violation=VIOLATION)
    while (message := kernel.client.get_iopub_msg(timeout=20))["msg_type"] != "comm_msg":
        pass  # it comes while the cell runs
    assert message["content"]["comm_id"] == model
    worker.end_cell(request)
    kernel.operation("end_cell")
    kernel.outputs(parent=msg_id)
    # Between cells, a thread of the worker's goes on being refused.
    kernel.event("violation", violation={**VIOLATION, "id": "v2"})
    late: list[str] = []
    with contextlib.suppress(queue.Empty):
        while True:
            late.append(kernel.client.get_iopub_msg(timeout=1)["msg_type"])
    assert "comm_msg" not in late
    outputs = run(kernel, worker, "pass")
    assert kinds(outputs)[-2:] == ["comm_msg", "idle"]
    assert kinds(run(kernel, worker, "pass")) == ["busy", "execute_input", "idle"]


def test_after_a_workers_death_a_model_is_gone_and_its_id_stays_the_hosts(
    kernel: HostedKernel, worker: FakeWorker
) -> None:
    model = show_live(kernel, worker)
    kernel.event("worker_died", generation=1, cause={"kind": "signal", "signal": 9}, replaced=False)
    worker.close()
    fresh = kernel.restart_worker()
    kernel.outputs(until="starting")
    msg_id = kernel.client.execute("forge")
    request, header = fresh.start_cell()
    fresh.publish("comm_open", {"comm_id": model, "target_name": "jupyter.widget", "data": {}}, header)
    fresh.end_cell(request)
    assert "comm_open" not in kinds(kernel.outputs(parent=msg_id))
    kernel.reply()
    assert show_live(kernel, fresh) != model


@pytest.mark.sandbox
@pytest.mark.requires("user_namespaces", "overlay", "fresh_proc", "notifications")
def test_a_saved_notebook_keeps_the_widget_as_it_was_last_and_text_for_who_shows_none(tmp_path: Path) -> None:
    kernelspecs.install(user=False, prefix=str(tmp_path))
    refused = "import socket\ntry: socket.socket()\nexcept OSError: pass"
    notebook = nbformat.v4.new_notebook(
        cells=[nbformat.v4.new_code_cell(source) for source in ("%sentinel_status --live", refused)],
        metadata={"kernelspec": {"name": "sentinel", "display_name": "", "language": "python"}},
    )
    nbformat.write(notebook, tmp_path / "live.ipynb")
    environment = os.environ | {"JUPYTER_PATH": str(tmp_path / "share" / "jupyter"), "SENTINEL_LANG": "en"}
    command = [sys.executable, "-m", "nbconvert", "--execute", "--to", "notebook", "--inplace", "live.ipynb"]
    subprocess.run(command, check=True, capture_output=True, cwd=tmp_path, env=environment)
    saved = nbformat.read(tmp_path / "live.ipynb", as_version=4)
    shown = saved.cells[0].outputs[0].data
    state = saved.metadata.widgets["application/vnd.jupyter.widget-state+json"].state
    assert re.search(r"refused so far</th><td[^>]*>1<", state[shown[VIEW_TYPE].model_id].state.value)
    assert re.search(r"refused so far +0", shown["text/plain"])
    assert "refused so far" in nbconvert.MarkdownExporter().from_notebook_node(saved)[0]
