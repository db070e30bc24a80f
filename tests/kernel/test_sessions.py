"""Every message of a kernel is headed with one session: JupyterLab drops what seems to be of an earlier kernel."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hosted_kernel import HostedKernel
from live_kernel import notebook

if TYPE_CHECKING:
    from pathlib import Path

    from live_kernel import Notebook

REFUSED = "import socket\ntry: socket.socket()\nexcept OSError: print('refused')"


def sessions(book: Notebook, code: str) -> set[str]:
    """Run a cell; return the sessions in the headers of what came, and check that host and worker both spoke."""
    msg_id = book.send(code)
    found, kinds = set(), set()
    state = ""
    while state != "idle":
        message = book.client.get_iopub_msg(timeout=60)
        if message["parent_header"].get("msg_id") == msg_id:
            found.add(message["header"]["session"])
            kinds.add(message["msg_type"])
            state = message["content"].get("execution_state", "")
    found.add(book.client.get_shell_msg(timeout=60)["header"]["session"])
    assert {"stream", "display_data"} <= kinds
    return found


@pytest.mark.sandbox
@pytest.mark.requires("user_namespaces", "overlay", "fresh_proc", "notifications")
def test_host_and_every_worker_speak_under_one_session(tmp_path: Path) -> None:
    with notebook(tmp_path) as book:
        found = sessions(book, REFUSED)
        found |= sessions(book, f"%sentinel_reset\n{REFUSED}")
        worker = book.run("get_ipython().kernel.session.session").outputs[-1][1]["data"]["text/plain"]
    assert found == {worker.strip("'")}


def test_a_worker_can_not_pass_under_another(tmp_path: Path) -> None:
    kernel = HostedKernel(tmp_path)
    try:
        worker = kernel.start_worker()
        kernel.subscribe()
        kernel.client.execute("a")
        request, header = worker.start_cell()
        worker.publish("stream", {"name": "stdout", "text": "kept"}, header)
        worker.end_cell(request)
        seen = set()
        kinds: list[str] = []
        while kinds[-2:] != ["stream", "status"]:
            message = kernel.client.get_iopub_msg(timeout=20)
            kinds.append(message["msg_type"])
            seen.add(message["header"]["session"])
        seen.add(kernel.reply()["header"]["session"])
        assert len(seen) == 1
        assert seen != {"w"}
    finally:
        kernel.close()
