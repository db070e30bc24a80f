"""Interrupts, ends, several clients, encryption and culling: what is around the cells; on both kernels alike."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
import zmq
from conversation import Conversation
from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.manager import KernelManager
from lacking import lacking
from live_kernel import SECONDS, Notebook, kernelspecs, notebook
from waiting import wait_until, waits_in

from sentinel_kernel.kernel.connection import read_connection

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from conversation import Exchange

pytestmark = pytest.mark.requires("user_namespaces", "overlay", "fresh_proc", "notifications")

KERNELS = pytest.mark.parametrize("kernel", ["python3", "sentinel"])

# A child that would outlive the cell's Python, were it left out of the interrupt.
BUSY = {
    # Not subprocess.run(): an interrupt in the middle of its making leaves a child to nobody, in plain Python too.
    "a child": "import subprocess\nchild = subprocess.Popen(['sleep', '600'])\n"
    "try:\n    print('on', flush=True)\n    child.wait()\nfinally:\n    child.kill()",
    "Python": "print('on', flush=True)\nwhile True:\n    pass",
    "sleep": "import time\nprint('on', flush=True)\ntime.sleep(600)",
}
CALLS = {"a child": "wait4", "sleep": "clock_nanosleep"}
"""What they are in then: CPython stays in such a call where a signal has come since it last looked for one."""


def begin_busy(both: Notebook, talk: Conversation, what: str) -> Exchange:
    """Begin a cell that goes on until it is interrupted. Sentinel interrupts it again; plain ipykernel does not."""
    cell = talk.execute(BUSY[what])
    talk.wait_for_output(cell, "stream")
    if both.manager.kernel_name == "python3" and what in CALLS:
        wait_until(lambda: waits_in(CALLS[what], both.host_pid), f"it is in {CALLS[what]}")
    return cell


@pytest.mark.parametrize("by", ["message", "signal"])
@pytest.mark.parametrize("what", BUSY)
def test_an_interrupt_ends_the_cell_and_keeps_the_variables(
    both: Notebook, talk: Conversation, by: str, what: str
) -> None:
    talk.run("kept = 'kept'")
    cell = begin_busy(both, talk, what)
    if by == "message":
        assert talk.ask("interrupt_request", channel="control").content == {"status": "ok"}
    else:
        # To the group, as jupyter_client does where the kernelspec asks for signals.
        os.killpg(os.getpgid(both.host_pid), signal.SIGINT)
    assert talk.finish(cell).content["ename"] == "KeyboardInterrupt"
    assert talk.run("print(kept)").text == "kept\n"
    # It was killed, and may still be about to end.
    left = "import psutil; print(psutil.wait_procs(psutil.Process().children(), timeout=60)[1])"
    assert talk.run(left).text == "[]\n"


@pytest.mark.parametrize("by", ["message", "signal"])
def test_an_interrupt_ends_a_loop_in_c_too(both: Notebook, ours: Conversation, by: str) -> None:
    """It keeps the interpreter's lock: ipykernel's control thread could not even read the message."""
    cell = ours.execute("import re\nprint('on', flush=True)\nre.match('(a+)+b', 'a' * 100)")
    ours.wait_for_output(cell, "stream")
    if by == "message":
        ours.ask("interrupt_request", channel="control")
    else:
        os.kill(both.host_pid, signal.SIGINT)
    assert ours.finish(cell).content["ename"] == "KeyboardInterrupt"


def test_an_interrupt_between_cells_does_nothing(both: Notebook, talk: Conversation) -> None:
    talk.ask("interrupt_request", channel="control")
    os.killpg(os.getpgid(both.host_pid), signal.SIGINT)
    ran = talk.run("print('on')")
    assert ran.text == "on\n", (ran, ran.content)


def test_an_interrupt_aborts_the_cells_that_wait(both: Notebook, talk: Conversation) -> None:
    cell = begin_busy(both, talk, "sleep")
    waiting = talk.execute("print('never')")
    talk.ask("interrupt_request", channel="control")
    assert talk.finish(cell).content["ename"] == "KeyboardInterrupt"
    assert talk.finish(waiting).content["status"] == "aborted"
    assert talk.run("print('again')").text == "again\n"


@contextlib.contextmanager
def another_client(book: Notebook) -> Iterator[Conversation]:
    """Connect a second client, as a second browser window does."""
    client = BlockingKernelClient()
    client.load_connection_info(book.manager.get_connection_info())
    client.start_channels()
    try:
        client.wait_for_ready(timeout=SECONDS)
        yield Conversation(client)
    finally:
        client.stop_channels()
        client.context.destroy(linger=0)


def test_two_clients_get_their_own_replies_and_both_see_the_outputs(
    both: Notebook, talk: Conversation
) -> None:
    with another_client(both) as second:
        mine, theirs = talk.execute("print('mine')"), second.execute("print('theirs')")
        assert talk.finish(mine).text == "mine\n"
        assert second.finish(theirs).text == "theirs\n"
        for seer, msg_id in ((talk, theirs.msg_id), (second, mine.msg_id)):

            def seen(seer: Conversation = seer, msg_id: str = msg_id) -> list[str]:
                about = [m for m in seer.others if m["parent_header"].get("msg_id") == msg_id]
                assert not any(message["msg_type"].endswith("_reply") for message in about)
                return [m["content"].get("execution_state", m["msg_type"]) for m in about]

            seer.wait_for(lambda: seen()[-1:] == ["idle"], "the other's cell is seen")
            assert seen() == ["busy", "execute_input", "stream", "idle"]
        asking = second.execute("answer = input('Who? ')", allow_stdin=True)
        assert second.wait_for_prompt()["content"]["prompt"] == "Who? "
        assert not talk.client.stdin_channel.msg_ready()
        second.client.input("second")
        second.finish(asking)
    assert talk.run("print(answer)").text == "second\n"


def test_a_client_that_has_gone_costs_the_others_nothing(both: Notebook, talk: Conversation) -> None:
    with another_client(both) as second:
        cell = second.execute(
            "import time\nfor _ in range(20):\n    print('x' * 100_000)\n    time.sleep(0.01)"
        )
        second.wait_for_output(cell, "stream")
    assert talk.run("print('on')").text == "on\n"


def test_a_subscription_is_welcomed(both: Notebook) -> None:
    session = both.client.session.clone()
    with zmq.Context() as context, context.socket(zmq.SUB) as socket:
        socket.linger = 0
        # ipykernel welcomes the first subscriber of a topic alone: one that nobody else has.
        topic = f"topic-{os.urandom(8).hex()}".encode()
        socket.subscribe(topic)
        socket.connect(read_connection(both.manager.connection_file).address("iopub"))
        assert socket.poll(SECONDS * 1000)
        identities, parts = session.feed_identities(socket.recv_multipart())
        message = session.deserialize(parts)
        assert (message["msg_type"], identities) == ("iopub_welcome", [topic])
        assert message["content"] == {"subscription": topic.decode()}


@KERNELS
def test_a_shutdown_is_answered_on_both_channels_and_ends_the_process(kernel: str, tmp_path: Path) -> None:
    with notebook(tmp_path, kernel) as book:
        talk = Conversation(book.client)
        request = talk.send("shutdown_request", {"restart": False}, channel="control")

        def answered() -> bool:
            return bool(request.reply) and bool(request.contents("shutdown_reply"))

        talk.wait_for(answered, "both answers")
        assert request.content == {"status": "ok", "restart": False}
        wait_until(lambda: not book.manager.is_alive(), "the process ends")


@KERNELS
def test_a_restart_forgets_and_keeps_its_clients(kernel: str, tmp_path: Path) -> None:
    with notebook(tmp_path, kernel) as book:
        talk = Conversation(book.client)
        talk.run("value = 1")
        for now in (False, True):
            book.manager.restart_kernel(now=now)
            book.client.wait_for_ready(timeout=SECONDS)
            again = talk.run("print('value' in globals()); value = 2")
            assert (again.text, again.content["execution_count"]) == ("False\n", 1)


@KERNELS
def test_encryption_is_had_where_it_is_required(kernel: str, tmp_path: Path) -> None:
    manager = KernelManager(kernel_name=kernel, kernel_spec_manager=kernelspecs(tmp_path), transport="ipc")
    manager.connection_file = str(tmp_path / "kernel.json")
    if not hasattr(manager, "transport_encryption"):
        lacking("this jupyter_client can't encrypt")
    work = tmp_path / "work"
    work.mkdir()
    with (tmp_path / "kernel.log").open("wb") as log:
        manager.start_kernel(transport_encryption="required", cwd=str(work), stdout=log, stderr=log)
    try:
        assert manager.curve_publickey
        book = Notebook(manager)
        talk = Conversation(book.client)
        assert talk.run("print('secret')").text == "secret\n"
        assert talk.ask("kernel_info_request", channel="control").content["status"] == "ok"
        asking = talk.execute("input()", allow_stdin=True)
        talk.wait_for_prompt()
        talk.client.input("x")
        assert talk.finish(asking).content["status"] == "ok"
        with (
            zmq.Context() as context,
            context.socket(zmq.SUB) as plain,
            plain.get_monitor_socket() as monitor,
        ):
            plain.linger = 0
            plain.subscribe(b"")
            plain.connect(read_connection(manager.connection_file).address("iopub"))
            from zmq.utils.monitor import recv_monitor_message

            events: list[int] = []
            while not events or events[-1] not in (zmq.EVENT_DISCONNECTED, zmq.EVENT_HANDSHAKE_SUCCEEDED):
                assert monitor.poll(SECONDS * 1000)
                events.append(int(recv_monitor_message(monitor)["event"]))
            assert zmq.EVENT_HANDSHAKE_SUCCEEDED not in events
            plain.disable_monitor()
        book.client.stop_channels()
        book.client.context.destroy(linger=0)
    finally:
        manager.shutdown_kernel()
        manager.cleanup_resources()


CULLING = """
import asyncio, os, sys, time
from jupyter_client.kernelspec import KernelSpecManager
from jupyter_server.services.kernels.kernelmanager import AsyncMappingKernelManager

async def main(kernel, folder):
    specs = KernelSpecManager(kernel_dirs=[folder + '/kernels'], ensure_native_kernel=False)
    manager = AsyncMappingKernelManager(
        kernel_spec_manager=specs, connection_dir=folder, root_dir=folder,
        cull_idle_timeout=600, cull_interval=1, cull_connected=True,
    )
    kernel_id = await manager.start_kernel(kernel_name=kernel, env=dict(os.environ))
    client = manager.get_kernel(kernel_id).client()
    client.start_channels()
    await client.wait_for_ready(timeout=60)
    manager.cull_idle_timeout = 1  # not before: on a slow machine its start takes longer
    # A busy one outlives three rounds: it is there when its cell ends by itself.
    client.execute('import time; time.sleep(4)')
    while True:
        reply = await client.get_shell_msg(timeout=60)
        if reply['msg_type'] == 'execute_reply':
            break
    print(reply['content']['status'], kernel_id in manager)
    deadline = time.monotonic() + 60
    while kernel_id in manager and time.monotonic() < deadline:
        await asyncio.sleep(0.05)
    print('culled', kernel_id not in manager)
    client.stop_channels()
    await manager.shutdown_all(now=True)

asyncio.run(main(*sys.argv[1:]))
"""


@KERNELS
def test_an_idle_kernel_is_culled_and_a_busy_one_is_not(kernel: str, tmp_path: Path) -> None:
    """No message of the host's own may look like activity: a server culls by the last one that it saw."""
    kernelspecs(tmp_path)
    work = tmp_path / "work"
    work.mkdir()
    # In a process of its own: here, jupyter_server is the name of a module of the tests.
    done = subprocess.run(
        [sys.executable, "-P", "-c", CULLING, kernel, str(tmp_path)],
        cwd=work,
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.stdout.splitlines() == ["ok True", "culled True"], done.stderr[-2000:]
