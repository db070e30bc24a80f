"""exit() and quit(): the cell is answered at once, and what comes behind it runs on the next worker."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import nbformat
import pytest
from jupyter_client.manager import AsyncKernelManager
from live_kernel import kernelspecs, notebook
from nbclient import NotebookClient
from nbclient.exceptions import DeadKernelError

from sentinel_kernel.kernel.output_rule import NOTICE_TYPE

if TYPE_CHECKING:
    from pathlib import Path

    from hosted_kernel import FakeWorker, HostedKernel

PAUSE = "import time\ntime.sleep(0.3)"
"""Longer than plain ipykernel's loop goes on."""

LEAVES = [{"source": "ask_exit", "keepkernel": False}]
EXIT = {"kind": "exit", "status": 0}


def leave(kernel: HostedKernel, worker: FakeWorker, payload: list[dict[str, Any]]) -> None:
    kernel.client.execute("exit()")
    request, header = worker.start_cell(1)
    worker.reply(request, {"status": "ok", "execution_count": 1, "payload": payload})
    worker.publish("status", {"execution_state": "idle"}, header)
    assert kernel.reply()["content"]["payload"] == payload


def test_what_comes_behind_waits_for_the_next_worker(kernel: HostedKernel, worker: FakeWorker) -> None:
    leave(kernel, worker, LEAVES)
    cells = [kernel.client.execute(f"cell {number}") for number in range(2)]
    kernel.client.complete("x")
    assert not worker.streams["shell"].messages
    kernel.event("worker_died", generation=kernel.generation, cause=EXIT, replaced=True)
    fresh = kernel.start_worker(start_id=None)
    for number, cell in enumerate(cells):
        assert fresh.run_cell(number + 1)[2]["code"] == f"cell {number}"
        assert kernel.reply()["parent_header"]["msg_id"] == cell
        shown = dict(kernel.outputs(parent=cell)).get("display_data", {"data": {}})["data"]
        assert (NOTICE_TYPE in shown) is (number == 0)  # told once
    assert fresh.take("shell")[1]["msg_type"] == "complete_request"


@pytest.mark.parametrize(
    "payload", [[{"source": "ask_exit", "keepkernel": True}], [{"source": "page", "data": {}, "start": 0}]]
)
def test_a_worker_that_stays_is_asked_on(
    kernel: HostedKernel, worker: FakeWorker, payload: list[dict[str, Any]]
) -> None:
    leave(kernel, worker, payload)
    kernel.client.execute("next")
    assert worker.take("shell")[2]["code"] == "next"


@pytest.mark.sandbox
@pytest.mark.requires("user_namespaces", "overlay", "fresh_proc", "notifications")
def test_cells_behind_an_exit_run_on_the_next_worker(tmp_path: Path) -> None:
    thread = "import threading, time\nthreading.Thread(target=time.sleep, args=(600,)).start()\nexit()"
    with notebook(tmp_path, SENTINEL_SPARE="off") as book:
        # So many that a kernel whose worker died by itself would give up.
        for code in ("exit()", "quit", "exit", "quit()", thread):
            book.run("value = 1")
            left, first, second = book.collect(
                book.send(code), book.send("print('value' in globals())"), book.send("print(2)")
            )
            assert left.reply["status"] == "ok"
            assert left.reply["payload"][0]["source"] == "ask_exit"
            assert (first.text, second.text) == ("False\n", "2\n")
            shown = [result.bundles(NOTICE_TYPE) for result in (left, first, second)]
            assert [len(bundles) for bundles in shown] == [0, 1, 0]


@pytest.mark.sandbox
@pytest.mark.requires("user_namespaces", "overlay", "fresh_proc", "notifications")
def test_nbclient_goes_on_where_plain_ipykernel_is_dead(tmp_path: Path) -> None:
    specs = kernelspecs(tmp_path)

    def executed(kernel: str) -> Any:
        cells = [nbformat.v4.new_code_cell(code) for code in ("value = 1", "exit()", PAUSE, "print(6 * 7)")]
        document = nbformat.v4.new_notebook(cells=cells)
        manager = AsyncKernelManager(kernel_name=kernel, kernel_spec_manager=specs, transport="ipc")
        manager.connection_file = str(tmp_path / "k.json")
        resources = {"metadata": {"path": str(tmp_path)}}
        client = NotebookClient(document, km=manager, resources=resources, timeout=60)
        client.owns_km = True  # so that it ends the kernel, and closes what it has opened
        client.execute(env={**os.environ, "SENTINEL_SPARE": "off"})
        return document

    with pytest.raises(DeadKernelError):
        executed("python3")
    outputs = executed("sentinel").cells[3].outputs
    assert "42\n" in [output.get("text") for output in outputs]
