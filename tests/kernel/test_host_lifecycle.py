"""Start, interrupt, death, unavailability and end: a client is always told, and never left waiting."""

from __future__ import annotations

import contextlib
import os
import random
import select
import signal
import time
from queue import Empty
from typing import TYPE_CHECKING, Any

import pytest
import zmq
from hosted_kernel import FakeWorker, HostedKernel, kinds
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from waiting import wait_until

from sentinel_kernel.kernel.wire import DELIMITER

if TYPE_CHECKING:
    from pathlib import Path

MIB = 1024 * 1024
UNAVAILABLE = {
    "step": "clone",
    "errno": 1,
    "cause_en": "No namespaces.",
    "cause_zh": "没有命名空间。",
    "remedy_en": "Allow them.",
    "remedy_zh": "请允许。",
}


@pytest.fixture
def worker(kernel: HostedKernel) -> FakeWorker:
    worker = kernel.start_worker()
    kernel.subscribe()
    kernel.wait_arrived(worker)
    return worker


def died(kernel: HostedKernel, cause: dict[str, Any], **more: Any) -> None:
    kernel.event("worker_died", generation=kernel.generation, cause=cause, replaced=True, **more)


@pytest.mark.parametrize(
    ("cause", "says"),
    [
        ({"kind": "signal", "signal": 9}, "died of SIGKILL"),
        ({"kind": "signal", "signal": 11}, "segmentation fault"),
        ({"kind": "exit", "status": 3}, "exit status 3"),
        ({"kind": "rule_kill", "violation_id": "x", "detail": "mount"}, "system call mount"),
        ({"kind": "supervisor_error", "detail": "init did not answer"}, "init did not answer"),
        ({}, "supervisor stopped"),
    ],
)
def test_a_death_is_explained_in_the_cell_and_a_new_worker_goes_on(
    kernel: HostedKernel, worker: FakeWorker, cause: dict[str, Any], says: str
) -> None:
    running = kernel.client.execute("a")
    _, header = worker.start_cell(4)
    kernel.client.comm_info()
    assert worker.take("shell")[1]["msg_type"] == "comm_info_request"
    waiting = kernel.client.execute("b")
    kernel.wait_arrived(worker)
    worker.publish("stream", {"name": "stdout", "text": "last words"}, header)
    worker.close()
    died(kernel, cause)
    fresh = kernel.start_worker(start_id=None)
    replies = {reply["parent_header"]["msg_id"]: reply for reply in (kernel.reply() for _ in range(3))}
    assert replies[running]["content"]["ename"] == "SandboxDied"
    assert says in replies[running]["content"]["evalue"]
    assert replies[waiting]["content"]["status"] == "aborted"
    outputs = kernel.outputs("starting")
    states = kinds(outputs)
    assert states[:3] == ["busy", "execute_input", "stream"]
    assert states[-2:] == ["restarting", "starting"]
    error = next(content for kind, content in outputs if kind == "error")
    assert any(line.startswith("HINT → ") for line in error["traceback"])
    kernel.client.execute("c")
    fresh.run_cell(1)
    assert kernel.reply()["content"]["status"] == "ok"


def test_the_new_worker_of_a_dead_one_counts_anew(kernel: HostedKernel, worker: FakeWorker) -> None:
    kernel.client.execute("a")
    worker.start_cell(9)
    worker.send("shell", [b"x"] * 2000)
    start = kernel.operation("start")
    assert start["reason"] == "restart"
    assert not [argument for argument in start["argv"] if "execution_count" in argument]


@pytest.mark.usefixtures("worker")
def test_after_five_unexplained_deaths_the_kernel_gives_up(kernel: HostedKernel) -> None:
    for _ in range(4):
        died(kernel, {"kind": "signal", "signal": 11})
        kernel.wait_arrived(kernel.start_worker(start_id=None))
    assert kernel.process.poll() is None
    died(kernel, {"kind": "signal", "signal": 11})
    assert kernel.process.wait(10) == 1
    assert kernel.operation("stop")


def test_workers_that_die_before_they_answer_are_no_crash_but_a_problem_that_is_named(
    kernel: HostedKernel,
) -> None:
    for generation in range(1, 5):
        worker = FakeWorker()
        kernel.workers.append(worker)
        kernel.event("channels", worker.host_fds, generation=generation)
        for fd in worker.host_fds:
            os.close(fd)
        kernel.event("ready", generation=generation, profile="strict", rung="full", notices=[])
        kernel.event("worker_died", generation=generation, cause={"kind": "exit", "status": 1}, replaced=True)
    kernel.client.execute("print(1)")
    content = kernel.reply()["content"]
    while content["ename"] == "SandboxDied":  # it was waiting while they died
        kernel.client.execute("print(1)")
        content = kernel.reply()["content"]
    assert content["ename"] == "SandboxUnavailable"
    assert "ended 4 times while it started (exit status 1)" in content["evalue"]


@pytest.mark.usefixtures("worker")
def test_kills_by_a_rule_do_not_count_as_a_crash(kernel: HostedKernel) -> None:
    for _ in range(6):
        died(kernel, {"kind": "rule_kill", "detail": "mount"})
        kernel.wait_arrived(kernel.start_worker(start_id=None))
    kernel.client.execute("a")
    kernel.workers[-1].run_cell()
    assert kernel.reply()["content"]["status"] == "ok"


def test_where_files_were_saved_is_shown_by_the_next_cell_not_by_one_that_was_answered(
    kernel: HostedKernel, worker: FakeWorker
) -> None:
    told = {"path": "/store/20261130-070000-abcdef", "files": 2, "left_out": 0}
    first = kernel.client.execute("a")
    worker.take("shell")
    died(kernel, {"kind": "rule_kill", "detail": "mount"})
    assert kernel.reply()["content"]["ename"] == "SandboxDied"
    kernel.wait_arrived(kernel.start_worker(start_id=None))
    for _ in range(2):  # the second time as a supervisor tells it that was started anew
        kernel.event("artifacts", **told)
    second = kernel.client.execute("b")
    kernel.workers[-1].run_cell()
    assert kernel.reply()["content"]["status"] == "ok"
    published: list[dict[str, Any]] = []
    parents: list[str] = []
    while parents[-1:] != [second] or published[-1]["content"] != {"execution_state": "idle"}:
        published.append(kernel.client.get_iopub_msg(timeout=60))
        parents.append(published[-1]["parent_header"].get("msg_id"))
    shown = [
        parent
        for parent, message in zip(parents, published, strict=True)
        if "artifacts restore 20261130-070000-abcdef" in str(message["content"])
    ]
    assert (first in parents, shown) == (True, [second])
    assert kernel.operation("told")["path"] == told["path"]
    # One that took the place of a supervisor which did not hear of that tells of it once more: it is to hear now.
    kernel.event("artifacts", **told)
    assert kernel.operation("told")["path"] == told["path"]


@pytest.mark.usefixtures("worker")
def test_where_files_were_saved_and_who_died_is_told_by_a_cell_that_the_host_answers(
    kernel: HostedKernel,
) -> None:
    told = {"path": "/store/20261130-070000-abcdef", "files": 2, "left_out": 0}
    switch = kernel.client.execute("%sentinel_profile datascience --fresh")
    request = kernel.operation("start")
    kernel.event("artifacts", **told)
    kernel.event("unavailable", **UNAVAILABLE)
    kernel.answer(request, ok=False)
    outputs = kernel.outputs(parent=switch)
    assert kinds(outputs) == ["busy", "execute_input", "display_data", "error", "idle"]
    assert "artifacts restore 20261130-070000-abcdef" in outputs[2][1]["data"]["text/plain"]
    assert kernel.operation("told")["path"] == told["path"]
    assert kernel.reply()["content"]["ename"] == "SandboxUnavailable"
    reset = kernel.client.execute("%sentinel_reset")
    kernel.restart_worker().run_cell()
    assert kinds(kernel.outputs(parent=reset))[-1] == "idle"
    died(kernel, {"kind": "signal", "signal": 9})
    kernel.outputs("restarting")
    kernel.event("unavailable", **UNAVAILABLE)
    # A silent cell shows nothing: it is the next one's.
    kernel.client.execute("1", silent=True)
    following = kernel.client.execute("2")
    outputs = kernel.outputs(parent=following)
    assert kinds(outputs) == ["busy", "execute_input", "display_data", "error", "idle"]
    assert "died of SIGKILL" in outputs[2][1]["data"]["text/plain"]


@pytest.mark.parametrize("how", ["answered by the host", "died with its worker"])
def test_what_is_told_behind_the_idle_of_a_cell_that_no_worker_ended_is_shown_in_the_next(
    kernel: HostedKernel, worker: FakeWorker, how: str
) -> None:
    first = kernel.client.execute("%sentinel_nothing" if how == "answered by the host" else "a")
    if how == "died with its worker":
        worker.start_cell()
        died(kernel, {"kind": "rule_kill", "detail": "mount"})
        worker = kernel.start_worker(start_id=None)
    before = kernel.outputs(parent=first)
    kernel.event("files", generation=kernel.generation, held=2, bytes=10)
    left = {"name": "left_running", "stage": "told", "detail": "sleep 60"}
    kernel.event("limit", generation=kernel.generation, limit=left)
    refused = {"id": "late", "version": 1, "syscall": "socket", "count": 1}
    kernel.event("violation", generation=kernel.generation, violation=refused)
    kernel.wait_arrived(worker)
    second = kernel.client.execute("b")
    worker.run_cell()
    published: list[tuple[str, str]] = []
    while published[-1:] != [(second, "idle")]:
        message = kernel.client.get_iopub_msg(timeout=60)
        content = message["content"]
        told = content.get("execution_state") or str(content.get("data", {}).get("text/plain"))
        published.append((message["parent_header"].get("msg_id"), told))
    # A violation goes behind the idle of a cell that began, which keeps its record.
    late = ("socket",) if how == "answered by the host" else ()
    for words in ("2 files that cells changed are held", "left a process behind", *late):
        assert words not in str(before)
        assert [parent for parent, told in published if words in told] == [second]


def test_what_is_told_behind_an_idle_is_all_shown_once_by_a_cell_that_the_host_answers(
    kernel: HostedKernel, worker: FakeWorker
) -> None:
    first = kernel.client.execute("a")
    worker.run_cell()
    kernel.outputs(parent=first)
    kernel.event("files", generation=kernel.generation, committed=["a.csv"], committed_count=1)
    kernel.event("files", generation=kernel.generation, held=2, bytes=10)
    for limit in (
        {"name": "left_running", "stage": "soft", "detail": "sleep 60"},
        {"name": "left_running", "stage": "soft", "detail": "top"},
        {"name": "disk", "stage": "refused", "used": 2, "allowed": 1, "unit": "bytes", "place": "/tmp"},
    ):
        kernel.event("limit", generation=kernel.generation, limit=limit)
    kernel.wait_arrived(worker)
    second = kernel.client.execute("%sentinel_nothing")
    shown = [
        str(content["data"]["text/plain"])
        for _, content in kernel.outputs(parent=second)
        if "data" in content
    ]
    for words in ("a.csv", "background: sleep 60", "background: top", "under this kernel's ceiling"):
        assert len([text for text in shown if words in text]) == 1
    # That is taken away again once it is no longer so, which pages are not.
    third = kernel.client.execute("b")
    worker.run_cell()
    shown = [
        str(content["data"]["text/plain"]) for _, content in kernel.outputs(parent=third) if "data" in content
    ]
    assert ["2 files that cells changed are held" in text for text in shown] == [True]


@pytest.mark.parametrize("code", ["b", "%sentinel_nothing"])
def test_what_waits_for_a_cell_waits_for_one_that_somebody_reads(
    kernel: HostedKernel, worker: FakeWorker, code: str
) -> None:
    first = kernel.client.execute("a")
    worker.run_cell()
    kernel.outputs(parent=first)
    kernel.event("files", generation=kernel.generation, committed=["a.csv"], committed_count=1)
    limit = {"name": "left_running", "stage": "soft", "detail": "sleep 60"}
    kernel.event("limit", generation=kernel.generation, limit=limit)
    kernel.wait_arrived(worker)
    # Who looks something up by itself, as a list of variables or an assistant's server.
    page = kernel.client.execute(code, store_history=False, allow_stdin=False)
    if code == "b":
        worker.run_cell()
    shown = str(kernel.outputs(parent=page))
    following = kernel.client.execute("c")
    worker.run_cell()
    outputs = str(kernel.outputs(parent=following))
    for words in ("a.csv", "background: sleep 60"):
        assert (words in shown, words in outputs) == (False, True)


@pytest.mark.usefixtures("worker")
def test_an_interrupt_goes_to_the_supervisor_and_is_answered(kernel: HostedKernel) -> None:
    message = kernel.client.session.msg("interrupt_request", {})
    kernel.client.control_channel.send(message)
    assert kernel.operation("interrupt")
    assert kernel.reply("control")["content"] == {"status": "ok"}
    assert kinds(kernel.outputs(parent=message["header"]["msg_id"])) == ["busy", "idle"]
    kernel.process.send_signal(signal.SIGINT)
    assert kernel.operation("interrupt")


def test_a_shutdown_lets_the_worker_finish_and_ends_the_sandbox(
    kernel: HostedKernel, worker: FakeWorker
) -> None:
    kernel.client.shutdown(restart=True)
    request = worker.take("control")
    assert request[2]["restart"] is True
    worker.reply(request, {"status": "ok", "restart": True}, "control")
    assert kernel.reply("control")["content"] == {"status": "ok", "restart": True}
    assert kernel.operation("stop")
    assert kernel.process.wait(5) == 0


@pytest.mark.usefixtures("worker")
def test_a_shutdown_does_not_wait_for_a_worker_that_is_silent(kernel: HostedKernel) -> None:
    kernel.client.shutdown()
    assert kernel.reply("control")["content"]["status"] == "ok"
    assert kernel.process.wait(5) == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
@pytest.mark.usefixtures("worker")
def test_a_signal_ends_the_kernel_and_the_sandbox_first(kernel: HostedKernel, number: int) -> None:
    kernel.process.send_signal(number)
    assert kernel.operation("stop")
    assert kernel.process.wait(5) == 0


def test_the_kernel_ends_with_its_parent(tmp_path: Path) -> None:
    pid = os.posix_spawn("/bin/sleep", ["sleep", "600"], {})
    kernel = HostedKernel(tmp_path, JPY_PARENT_PID=str(pid))
    kernel.start_worker()
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    assert kernel.process.wait(5) == 0
    kernel.close()


def _interrupt(kernel: HostedKernel) -> None:
    kernel.client.control_channel.send(kernel.client.session.msg("interrupt_request"))
    assert kernel.reply("control")["content"]["status"] == "ok"


def test_a_kernel_whose_parent_was_gone_at_its_start_ends_unless_somebody_asks(tmp_path: Path) -> None:
    """In another pid namespace the parent's number is nobody's here, and its clients come."""
    gone = os.posix_spawn("/bin/true", ["true"], {})
    os.waitpid(gone, 0)
    kernels = []
    for name in ("asked", "left"):
        (tmp_path / name).mkdir()
        kernels.append(HostedKernel(tmp_path / name, JPY_PARENT_PID=str(gone), TEST_UNHEARD_SECONDS="3"))
        kernels[-1].start_worker()
        if name == "asked":
            _interrupt(kernels[-1])
    asked, left = kernels
    assert left.process.wait(60) == 0
    _interrupt(asked)  # whose time is over by now too
    for kernel in kernels:
        kernel.close()


@pytest.mark.parametrize("language", ["en", "zh"])
def test_without_a_sandbox_everything_is_answered(tmp_path: Path, language: str) -> None:
    kernel = HostedKernel(tmp_path, SENTINEL_LANG=language)
    kernel.event("unavailable", **UNAVAILABLE)
    kernel.event("reply", id=1, ok=False)
    kernel.subscribe()
    client = kernel.client
    client.kernel_info()
    assert kernel.reply()["content"]["language_info"]["name"] == "python"
    msg_id = client.execute("print(1)")
    client.execute("print(2)")
    outputs = kernel.outputs(parent=msg_id)
    assert kinds(outputs) == ["busy", "execute_input", "error", "idle"]
    error = outputs[2][1]
    assert error["ename"] == "SandboxUnavailable"
    words = (
        ("clone (errno 1)", "没有命名空间。", "请允许。")
        if language == "zh"
        else ("clone (errno 1)", "No namespaces.")
    )
    assert all(word in error["evalue"] for word in words)
    assert kernel.reply()["content"]["status"] == "error"
    assert kernel.reply()["content"]["status"] in (
        "aborted",
        "error",
    )  # as it came before or after the first's end
    for ask, expected in (
        (lambda: client.complete("x"), {"status": "error", "matches": []}),
        (lambda: client.inspect("x"), {"status": "error", "found": False}),
        (client.history, {"status": "error", "history": []}),
        (lambda: client.is_complete("x"), {"status": "unknown"}),
        (client.comm_info, {"status": "ok", "comms": {}}),
    ):
        ask()
        content = kernel.reply()["content"]
        assert expected.items() <= content.items()
    debug = client.session.msg("debug_request", {"type": "request", "seq": 1, "command": "debugInfo"})
    client.control_channel.send(debug)
    assert kernel.reply("control")["content"]["success"] is False
    client.execute("%sentinel_status")
    content = kernel.reply()["content"]
    assert content["status"] == "ok"
    client.execute("%sentinel_limit memory=4G")
    assert kernel.reply()["content"]["ename"] == "SandboxUnavailable"
    kernel.close()


def test_places_that_settings_name_are_looked_at_beside_a_kernel_that_serves(tmp_path: Path) -> None:
    packages, gate = tmp_path / "packages", tmp_path / "gate"
    (packages / "fsspec").mkdir(parents=True)
    (packages / "fsspec" / "__init__.py").touch()
    (packages / "fsspec" / "registry.py").write_text(
        f"open({str(gate)!r}).readline()\nraise RuntimeError('half installed')"
    )
    os.mkfifo(gate)
    named = {"SENTINEL_ARTIFACTS": "s3://bucket/x", "SENTINEL_WRITABLE": "/nope"}
    with (
        gate.open("r+b", buffering=0) as writing,
        contextlib.closing(HostedKernel(tmp_path, PYTHONPATH=str(packages), **named)) as kernel,
    ):
        worker = kernel.start_worker()
        kernel.subscribe()

        def said() -> tuple[str, str]:
            """Return in which cell something is shown next, and what."""
            while (message := kernel.client.get_iopub_msg(timeout=60))["msg_type"] != "display_data":
                pass
            return message["parent_header"]["msg_id"], message["content"]["data"]["text/plain"]

        # What the import is not needed for does not wait for it.
        first = kernel.client.execute("a")
        request, _ = worker.start_cell()
        cell, told = said()
        assert (cell, "SENTINEL_WRITABLE names what is no folder" in told) == (first, True)
        worker.end_cell(request)
        assert kinds(kernel.outputs(parent=first)) == ["idle"]
        second = kernel.client.execute("b")
        request, _ = worker.start_cell(2)
        writing.write(b"\n")  # the import goes on
        cell, told = said()
        assert (cell, "half installed" in told) == (second, True)
        worker.end_cell(request, count=2)
        assert kinds(kernel.outputs(parent=second)) == ["idle"]
        log = kernel.log.read_text()
        assert ("half installed" in log, "SENTINEL_WRITABLE names" in log) == (True, True)


def test_a_reset_tries_again_where_there_was_no_sandbox(kernel: HostedKernel) -> None:
    kernel.event("unavailable", **UNAVAILABLE)
    kernel.event("reply", id=1, ok=False)
    kernel.subscribe()
    kernel.client.execute("%sentinel_reset\nprint(1)")
    worker = kernel.restart_worker()
    worker.run_cell()
    assert kernel.reply()["content"]["status"] == "ok"


@pytest.mark.usefixtures("worker")
@pytest.mark.parametrize("rest", ["", "\nprint(1)"])
def test_a_switch_that_fails_says_so_in_its_cell(kernel: HostedKernel, rest: str) -> None:
    for line in ("%sentinel_profile datascience --fresh", "%sentinel_reset"):
        kernel.client.execute(line + rest)
        request = kernel.operation("start")
        kernel.event("unavailable", **UNAVAILABLE)
        kernel.answer(request, ok=False)
        told = kernel.reply()["content"]
        assert told["ename"] == "SandboxUnavailable"
        assert "No namespaces." in told["evalue"]
        assert "Allow them." in told["evalue"]
        # The second time there was none to lose.
        assert ("its variables with it. %sentinel_profile strict" in told["evalue"]) is ("profile" in line)


@pytest.mark.parametrize("frame_bytes", [1, 1000, MIB])
def test_an_endless_message_leaves_the_hosts_memory_flat(
    kernel: HostedKernel, worker: FakeWorker, frame_bytes: int
) -> None:
    kernel.client.execute("a")
    worker.start_cell()
    before = kernel.resident_bytes()
    frame = (
        b"\x01" + bytes((frame_bytes,)) if frame_bytes < 256 else b"\x03" + frame_bytes.to_bytes(8, "big")
    ) + bytes(frame_bytes)
    most = before
    sock = worker.sockets["iopub"]
    sock.settimeout(10)
    with contextlib.suppress(OSError):
        for _ in range(1100):
            sock.sendall(frame)
            most = max(most, kernel.resident_bytes())
    assert kernel.operation("start")["reason"] == "restart"
    # 512 MiB is the most that one message may have.
    assert most - before < (16 * MIB if frame_bytes < MIB else 560 * MIB)
    wait_until(lambda: kernel.resident_bytes() - before < 16 * MIB, "the memory is given back")
    assert kernel.reply()["content"]["ename"] == "SandboxDied"


FRAME = st.binary(max_size=40) | st.sampled_from(
    [DELIMITER, b"{}", b"[]", b'{"msg_type":"status"}', b"\xff", b"1" * 5000]
)
CHANNEL = st.sampled_from(["shell", "control", "stdin", "iopub"])


@settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(st.lists(st.tuples(CHANNEL, st.lists(FRAME, min_size=1, max_size=9)), max_size=12))
def test_no_frames_of_the_worker_bring_the_host_down(
    kernel: HostedKernel, messages: list[tuple[str, list[bytes]]]
) -> None:
    worker = kernel.workers[-1] if kernel.workers else kernel.start_worker()
    for channel, frames in messages:
        worker.send(channel, frames)
    still_serves(kernel, worker)


def still_serves(kernel: HostedKernel, worker: FakeWorker) -> None:
    kernel.client.execute("a")
    worker.run_cell()
    while kernel.reply()["parent_header"].get("session") != kernel.client.session.session:
        pass


HOSTILE = (
    [],
    {},
    None,
    5,
    "x",
    {"execution_state": []},
    {"execution_count": "x", "code": 1},
    {"execution_count": 10**30},
    {"wait": {}},
    {"data": [], "transient": {"display_id": {}}},
    {"data": {"text/javascript": {"a": [[[]]]}}, "metadata": 3},
    {"status": ["error"]},
    {"comm_id": None, "data": {"state": {"outputs": "x"}}},
)


def test_well_signed_nonsense_of_the_worker_is_survived(kernel: HostedKernel, worker: FakeWorker) -> None:
    kernel.client.execute("a", allow_stdin=True)
    request, header = worker.start_cell()
    kinds_sent = [
        "status", "execute_input", "clear_output", "display_data", "update_display_data", "comm_msg", "stream",
        "error", "execute_reply", "shutdown_reply", "iopub_welcome", "input_request", "", "x" * 300,
    ]  # fmt: skip
    chooser = random.Random(7)
    for kind in kinds_sent:
        for content in HOSTILE:
            parent = chooser.choice([header, {}, {"msg_id": 5}, {"msg_id": "x" * 5000}])
            worker.publish(kind, content, parent)
            forged = [request[0], {**request[1], **parent}, {}]
            worker.reply(forged, content, chooser.choice(["control", "stdin"]), kind)
    deep = b'{"data":' + b"[" * 100_000 + b"]" * 100_000 + b"}"
    worker.send("iopub", [b"", DELIMITER, b"", b'{"msg_type":"display_data"}', b"{}", b"{}", deep])
    worker.end_cell(request)
    assert kernel.reply()["content"]["status"] == "ok"
    kernel.client.execute("b")
    worker.run_cell(2)
    assert kernel.reply()["content"]["status"] == "ok"


def test_a_client_that_stalls_holds_the_worker_back_and_not_the_hosts_memory(
    kernel: HostedKernel, worker: FakeWorker
) -> None:
    stalled = kernel.client.context.socket(zmq.SUB)
    stalled.rcvhwm = 1
    stalled.setsockopt(zmq.RCVBUF, 4096)
    stalled.subscribe(b"t")  # a topic of its own, so that its subscription is confirmed
    stalled.connect(kernel.connection.address("iopub"))
    stalled.recv()  # its own welcome or somebody's: it is connected
    kernel.client.execute("a")
    request, header = worker.start_cell()
    before = kernel.resident_bytes()
    text = "x" * 30_000
    sent = 0
    sock = worker.sockets["iopub"]
    stream = worker.streams["iopub"]
    deadline = time.monotonic() + 4
    while time.monotonic() < deadline and sent < 20_000:
        worker_publish_nowait(stream, header, text)
        sent += 1
        if stream.pending_bytes > 4 * MIB:
            if not select.select([], [sock], [], 2)[1]:
                break
            stream.flush()
    assert stream.wants_write, "the worker is held back"
    assert kernel.resident_bytes() - before < 150 * MIB
    assert sock.fileno() > 0
    # After the deadline the client that reads gets everything, the one that does not loses messages.
    got = 0
    ended = time.monotonic() + 30
    while got < sent and time.monotonic() < ended:
        stream.flush()
        with contextlib.suppress(Empty):
            while kernel.client.get_iopub_msg(timeout=0.02)["msg_type"] != "stream":
                pass
            got += 1
    assert got == sent
    stalled.close(linger=0)
    worker.end_cell(request)
    assert kernel.reply()["content"]["status"] == "ok"


def worker_publish_nowait(stream: Any, header: dict[str, Any], text: str) -> None:
    from hosted_kernel import json_parts

    stream.send([b"t", DELIMITER, b"", *json_parts("stream", {"name": "stdout", "text": text}, header)])


def test_the_curve_keys_of_a_connection_file_are_honoured(tmp_path: Path) -> None:
    public, secret = zmq.curve_keypair()
    kernel = HostedKernel(tmp_path, curve_keys=(public, secret))
    kernel.subscribe()
    worker = kernel.start_worker()
    kernel.client.execute("a")
    worker.run_cell()
    assert kernel.reply()["content"]["status"] == "ok"
    plain = kernel.client.context.socket(zmq.DEALER)
    plain.connect(kernel.connection.address("hb"))
    plain.send(b"ping")
    assert not plain.poll(300), "an unencrypted client is not answered"
    plain.close(linger=0)
    kernel.close()
