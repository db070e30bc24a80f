"""Every cell is answered, whichever of the kernel's processes goes, and in whatever order."""

from __future__ import annotations

import os
import signal
import socket
from typing import TYPE_CHECKING

import pytest
from kernel_roles import roles
from live_kernel import notebook

if TYPE_CHECKING:
    from pathlib import Path

    from hosted_kernel import FakeWorker, HostedKernel

ENDS = "import os; os._exit(3)"


@pytest.mark.sandbox
@pytest.mark.requires("user_namespaces", "overlay", "fresh_proc", "notifications")
def test_a_death_under_a_supervisor_that_took_a_killed_ones_place_is_told(tmp_path: Path) -> None:
    """The number of its workers goes on: a death that bears an older one's would be taken for told."""
    with notebook(tmp_path) as book:
        assert book.run(ENDS).reply["ename"] == "SandboxDied"
        os.kill(roles(book.host_pid)["supervisor"], signal.SIGKILL)
        book.run(
            "1"
        )  # answered with the death, or by the next worker where the host had seen it before the cell
        assert book.run("print('again')").text == "again\n"
        dead = book.run(ENDS)
        assert dead.reply["ename"] == "SandboxDied"
        assert "exit status 3" in dead.reply["evalue"]
        assert book.run("print('again')").text == "again\n"


def test_a_sandbox_that_is_asked_for_is_numbered_behind_the_last(
    kernel: HostedKernel, worker: FakeWorker
) -> None:
    kernel.client.execute("a")
    worker.start_cell()
    worker.send("shell", [b"x"] * 2000)  # which no honest worker sends: it is given up
    assert kernel.operation("start")["generation"] == 1


def test_a_worker_in_the_place_of_one_whose_death_was_not_told_leaves_no_cell_unanswered(
    kernel: HostedKernel, worker: FakeWorker
) -> None:
    lost, waits = kernel.client.execute("a"), kernel.client.execute("b")
    worker.start_cell()
    kernel.wait_arrived(worker)
    kernel.start_worker(start_id=None)
    told = {reply["parent_header"]["msg_id"]: reply["content"] for reply in (kernel.reply(), kernel.reply())}
    assert told[lost]["ename"] == "SandboxDied"
    assert told[waits]["status"] == "aborted"
    assert kernel.outputs(parent=lost)
    kernel.client.execute("c")
    kernel.workers[-1].run_cell()
    assert kernel.reply()["content"]["status"] == "ok"


def test_the_answer_to_an_earlier_start_is_nobodys(kernel: HostedKernel, worker: FakeWorker) -> None:
    worker.send("shell", [b"x"] * 2000)
    first = kernel.operation("start")
    hasty = kernel.start_worker(start_id=None)
    hasty.send("shell", [b"x"] * 2000)
    second = kernel.operation("start")
    kernel.answer(first, ok=False)
    kernel.start_worker(start_id=second["id"])
    kernel.client.execute("a")
    kernel.workers[-1].run_cell()
    assert kernel.reply()["content"]["status"] == "ok"


def test_a_worker_that_takes_nothing_any_more_is_given_up(kernel: HostedKernel, worker: FakeWorker) -> None:
    """Its end of the channel stays open, and it can go on speaking: only what is sent to it says so."""
    worker.sockets["shell"].shutdown(socket.SHUT_RD)
    kernel.client.execute("a")
    assert kernel.reply()["content"]["ename"] == "SandboxDied"
    kernel.restart_worker()
    kernel.client.execute("b")
    kernel.workers[-1].run_cell()
    assert kernel.reply()["content"]["status"] == "ok"


def test_an_interrupt_is_answered_where_the_worker_goes_before_the_supervisor_answers(
    kernel: HostedKernel, worker: FakeWorker
) -> None:
    kernel.wait_arrived(worker)
    kernel.answering = False
    kernel.client.control_channel.send(kernel.client.session.msg("interrupt_request", {}))
    request = kernel.operation("interrupt")
    died = {"kind": "signal", "signal": 9}
    kernel.event("worker_died", generation=kernel.generation, cause=died, replaced=True)
    assert kernel.reply("control")["content"] == {"status": "ok"}
    kernel.answer(request)  # late, and once told is enough
    kernel.wait_arrived(kernel.start_worker(start_id=None))
    kernel.client.control_channel.send(kernel.client.session.msg("interrupt_request", {}))
    kernel.answer(kernel.operation("interrupt"))
    assert kernel.reply("control")["content"] == {"status": "ok"}
