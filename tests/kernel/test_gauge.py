"""The gauge as the host owns it: what moves it, what its buttons do, and that no worker can do either."""

from __future__ import annotations

import contextlib
import queue
import re
import time
from typing import TYPE_CHECKING, Any

import pytest
from hosted_kernel import HostedKernel, json_parts, kinds
from live_kernel import notebook

from sentinel_kernel.kernel.output_rule import NOTICE_TYPE
from sentinel_kernel.kernel.widgets import VIEW_TYPE
from sentinel_kernel.kernel.wire import DELIMITER
from sentinel_kernel.supervisor import protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from hosted_kernel import FakeWorker

MIB = 1024 * 1024
LIMITS = {"memory_bytes": 1024 * MIB, "pids": 64, "cpu_count": 2, "disk_bytes": 512 * MIB}


class Gauge:
    """The gauge as a client sees it: its models' states, by what they are."""

    def __init__(self, kernel: HostedKernel, worker: FakeWorker, code: str = "%sentinel_gauge") -> None:
        self.kernel = kernel
        self.states: dict[str, dict[str, Any]] = {}
        self.closed: list[str] = []
        self.updates = 0
        msg_id = kernel.client.execute(code)
        worker.run_cell()
        kernel.reply()
        self.outputs = kernel.outputs(parent=msg_id)
        for kind, content in self.outputs:
            self._take(kind, content)
        self.shown = dict(self.outputs)["display_data"]
        self.root = self.shown["data"][VIEW_TYPE]["model_id"]

    def _take(self, kind: str, content: dict[str, Any]) -> None:
        if kind == "comm_open":
            self.states[content["comm_id"]] = content["data"]["state"]
        elif kind == "comm_msg":
            self.updates += 1
            self.states[content["comm_id"]].update(content["data"]["state"])
        elif kind == "comm_close":
            self.closed.append(content["comm_id"])

    def model(self, kind: str, description: str = "") -> str:
        """Return the id of the one model of this kind, with this in its description."""
        found = [
            comm_id
            for comm_id, state in self.states.items()
            if state["_model_name"] == f"{kind}Model" and description in state.get("description", "")
        ]
        assert len(found) == 1, found
        return found[0]

    def state(self, kind: str, description: str = "") -> dict[str, Any]:
        return self.states[self.model(kind, description)]

    @property
    def picture(self) -> str:
        return str(self.state("HTML")["value"])

    def read(self) -> dict[str, Any]:
        """Take the next message about any comm; return it."""
        while True:
            message = self.kernel.client.get_iopub_msg(timeout=20)
            self._take(message["msg_type"], message["content"])
            if message["msg_type"].startswith("comm_"):
                return message

    def wait(self, text: str) -> None:
        """Read until the picture tells ``text``."""
        self.until(lambda: text in self.picture)

    def until(self, true: Callable[[], bool]) -> None:
        """Read until something is true; what changes together comes in several messages."""
        while not true():
            self.read()

    def send(self, comm_id: str, data: dict[str, Any], msg_type: str = "comm_msg") -> None:
        message = self.kernel.client.session.msg(msg_type, {"comm_id": comm_id, "data": data})
        self.kernel.client.shell_channel.send(message)

    def click(self, description: str) -> None:
        """Press a button."""
        self.send(self.model("Button", description), {"method": "custom", "content": {"event": "click"}})

    def choose(self, profile: str) -> None:
        """Choose in the selector."""
        labels = self.state("Dropdown")["_options_labels"]
        index = next(index for index, label in enumerate(labels) if label.split(" ")[0] == profile)
        self.send(self.model("Dropdown"), {"method": "update", "state": {"index": index}})

    @property
    def chosen(self) -> str:
        selector = self.state("Dropdown")
        return str(selector["_options_labels"][selector["index"]])

    @property
    def kill_shown(self) -> bool:
        layout = self.state("Button", "End the worker")["layout"].removeprefix("IPY_MODEL_")
        return bool(self.states[layout]["display"] != "none")


def sample(kernel: HostedKernel, *, limits: dict[str, Any] | None = None, **changes: Any) -> None:
    """Send a sample, as the supervisor."""
    told = {
        "ms": int(time.time() * 1000),
        "memory_bytes": 100 * MIB,
        "memory_peak_bytes": 120 * MIB,
        "cpu_percent": 50.0,
        "cpu_seconds": 1.25,
        "pids": 7,
        "disk_bytes": 0,
        "running": True,
        **changes,
    }
    kernel.event(
        protocol.EVENT_USAGE,
        generation=kernel.generation,
        sample=told,
        **({"limits": limits} if limits else {}),
    )


def run(kernel: HostedKernel, worker: FakeWorker, code: str = "pass") -> list[tuple[str, dict[str, Any]]]:
    """Let the worker do nothing for a cell; return what was published."""
    msg_id = kernel.client.execute(code)
    worker.run_cell()
    kernel.reply()
    return kernel.outputs(parent=msg_id)


def quiet(kernel: HostedKernel) -> list[str]:
    """Return what is published until nothing has come for a second."""
    found = []
    with contextlib.suppress(queue.Empty):
        while True:
            found.append(kernel.client.get_iopub_msg(timeout=1)["msg_type"])
    return found


@pytest.fixture
def gauge(kernel: HostedKernel, worker: FakeWorker) -> Gauge:
    """Return the gauge, with limits and a first sample."""
    gauge = Gauge(kernel, worker)
    assert kernel.operation(protocol.OP_WATCH)["on"] is True
    sample(kernel, limits=LIMITS, running=False)
    gauge.wait("100 MiB of 1 GiB (10 %)")
    return gauge


@pytest.fixture
def cell(kernel: HostedKernel, worker: FakeWorker, gauge: Gauge) -> Iterator[list[Any]]:
    """Return the request of a cell that runs while the gauge is there."""
    kernel.client.execute("run")
    request, _ = worker.start_cell(2)
    gauge.wait("cell runs for")
    return request


def test_it_shows_every_limit_with_numbers_and_what_is_in_force_and_is_a_picture_and_text_too(
    kernel: HostedKernel, worker: FakeWorker, gauge: Gauge
) -> None:
    for text in ("50 % of 200 % (25 %)", "7 of 64 (11 %)", "0 B of 512 MiB (0 %)", "strict", "full", "<svg"):
        assert text in gauge.picture
    assert gauge.picture.count('role="meter"') == 4
    assert gauge.shown["transient"]["display_id"]
    again = dict(run(kernel, worker, "%sentinel_gauge"))["display_data"]["data"]
    assert again[VIEW_TYPE]["model_id"] == gauge.root  # a second place, the same gauge
    assert "memory" in again["text/plain"]
    assert "100 MiB of 1 GiB (10 %)" in again["text/plain"]
    assert "100 MiB of 1 GiB (10 %)" in again["text/html"]


def test_a_client_that_can_not_be_asked_gets_a_picture_that_follows_the_cells(
    kernel: HostedKernel, worker: FakeWorker
) -> None:
    msg_id = kernel.client.execute("%sentinel_gauge", allow_stdin=False)
    worker.run_cell()
    outputs = kernel.outputs(parent=msg_id)
    assert "comm_open" not in kinds(outputs)
    shown = dict(outputs)["display_data"]
    assert VIEW_TYPE not in shown["data"]
    msg_id = kernel.client.execute("pass", allow_stdin=False)
    request, _ = worker.start_cell()
    sample(kernel, limits=LIMITS)
    kernel.operation(protocol.OP_END_CELL)
    worker.publish("stream", {"name": "stdout", "text": "x" * 5000}, request[1])
    worker.end_cell(request)
    outputs = kernel.outputs(parent=msg_id)
    updated = dict(outputs)["update_display_data"]
    assert updated["transient"] == shown["transient"]
    assert "100 MiB of 1 GiB (10 %)" in updated["data"]["text/plain"]
    assert re.search(r"output +\[ +\] +5\.\d+ KiB", updated["data"]["text/plain"])
    # That was this cell's output; the next one has none yet.
    msg_id = kernel.client.execute("pass", allow_stdin=False)
    worker.run_cell()
    updated = dict(kernel.outputs(parent=msg_id))["update_display_data"]
    assert re.search(r"output +\[ +\] +0 B", updated["data"]["text/plain"])


def test_it_moves_at_most_four_times_a_second_while_a_cell_runs(
    kernel: HostedKernel, gauge: Gauge, cell: list[Any]
) -> None:
    assert cell
    sample(kernel, memory_bytes=1000 * MIB, pids=52)
    gauge.wait("(98 %, nearly full)")
    assert "52 of 64 (81 %, high)" in gauge.picture
    began, gauge.updates = time.monotonic(), 0
    for last in (149, 199, 249):
        for megabytes in range(last - 49, last + 1):
            sample(kernel, memory_bytes=megabytes * MIB)
        gauge.wait(f"{last} MiB")
    assert 3 <= gauge.updates <= 4 * (time.monotonic() - began) + 2


def test_between_cells_only_what_is_seen_to_change_is_sent(kernel: HostedKernel, gauge: Gauge) -> None:
    quiet(kernel)
    for step in range(20):
        sample(kernel, running=False, memory_bytes=100 * MIB + step * 4096, cpu_percent=50.0 + step % 5)
    assert quiet(kernel) == []
    sample(kernel, running=False, memory_bytes=300 * MIB)
    gauge.wait("300 MiB")
    kernel.event("violation", violation={"id": "v1", "version": 1, "syscall": "socket", "count": 3})
    gauge.wait("<strong>3</strong>")


def test_it_moves_while_the_worker_floods(
    kernel: HostedKernel, worker: FakeWorker, gauge: Gauge, cell: list[Any]
) -> None:
    flood = {"name": "stdout", "text": "x" * 50_000}
    for round_number in range(1, 4):
        for _ in range(200):
            worker.publish("stream", flood, cell[1])
        sample(kernel, memory_bytes=(200 + round_number) * MIB)
        gauge.wait(f"{200 + round_number} MiB")
    worker.end_cell(cell)


@pytest.mark.soak
def test_after_a_flood_it_is_sent_once_more_as_the_server_may_have_dropped_it(
    kernel: HostedKernel, worker: FakeWorker, gauge: Gauge, cell: list[Any]
) -> None:
    for _ in range(200):
        worker.publish("stream", {"name": "stdout", "text": "x" * 50_000}, cell[1])
    worker.end_cell(cell)
    while gauge.read()["content"]["data"]["state"].get("_model_name") != "HTMLModel":
        pass
    assert kernel


def test_closing_it_leaves_a_picture_and_ends_the_watch(
    kernel: HostedKernel, worker: FakeWorker, gauge: Gauge
) -> None:
    gauge.click("Close")
    assert kernel.operation(protocol.OP_WATCH)["on"] is False
    shown: dict[str, Any] = {}
    while len(gauge.closed) < len(gauge.states):
        message = kernel.client.get_iopub_msg(timeout=20)
        gauge._take(message["msg_type"], message["content"])
        if message["msg_type"] == "update_display_data":
            shown = message["content"]
    assert shown["transient"] == gauge.shown["transient"]
    assert VIEW_TYPE not in shown["data"]
    sample(kernel, memory_bytes=500 * MIB)
    assert kinds(run(kernel, worker)) == ["busy", "execute_input", "idle"]


def test_stop_interrupts_and_offers_the_workers_end_only_where_the_cell_goes_on(
    kernel: HostedKernel, worker: FakeWorker, gauge: Gauge, cell: list[Any]
) -> None:
    gauge.until(lambda: not gauge.state("Button", "Stop")["disabled"])
    gauge.click("Stop")
    assert kernel.operation(protocol.OP_INTERRUPT)
    gauge.wait("was interrupted")
    worker.end_cell(cell, status="error")
    gauge.until(lambda: gauge.state("Button", "Stop")["disabled"])
    assert kernel.reply()["content"]["status"] == "error"
    assert "interrupted" not in gauge.picture
    # Another one goes on in spite of it.
    kernel.client.execute("stubborn")
    worker.start_cell(3)
    gauge.until(lambda: not gauge.state("Button", "Stop")["disabled"])
    assert not gauge.kill_shown
    gauge.click("End the worker")  # not offered: nothing happens
    gauge.click("Stop")
    assert kernel.operation(protocol.OP_INTERRUPT)
    gauge.wait("in spite of the interrupt")
    gauge.until(lambda: gauge.kill_shown)
    gauge.click("End the worker")
    fresh = kernel.restart_worker()
    reply = kernel.reply()
    assert reply["content"]["ename"] == "SandboxDied"
    assert "gauge" in reply["content"]["evalue"]
    # It goes on with the next worker.
    gauge.until(lambda: not gauge.kill_shown and gauge.state("Button", "Stop")["disabled"])
    kernel.client.execute("next")
    fresh.start_cell(4)
    sample(kernel, memory_bytes=50 * MIB)
    gauge.wait("50 MiB")


def answer_profile(kernel: HostedKernel, **told: Any) -> str:
    """Answer the host's wish for another profile; return its name."""
    request = kernel.operation(protocol.OP_PROFILE)
    kernel.event(protocol.EVENT_REPLY, id=request["id"], ok=True, **told)
    return str(request["profile"])


def test_the_selector_changes_the_profile_also_while_a_cell_runs(
    kernel: HostedKernel, gauge: Gauge, cell: list[Any]
) -> None:
    assert cell
    kernel.answering = False
    gauge.choose("datascience")
    assert answer_profile(kernel, live=True, after={**LIMITS, "memory_bytes": 4096 * MIB}) == "datascience"
    gauge.wait("Profile datascience is in force")
    gauge.until(lambda: gauge.chosen == "datascience" and not gauge.state("Dropdown")["disabled"])
    # One that takes a fresh sandbox is left to the magic.
    gauge.choose("strict")
    answer_profile(kernel, live=False, obstacles=["filesystem"])
    gauge.wait("%sentinel_profile strict")
    gauge.until(lambda: gauge.chosen == "datascience" and not gauge.state("Dropdown")["disabled"])
    # Behind each idle of a click's own, the cell that runs is told of again: clients show the last state.
    quiet(kernel)
    gauge.choose("datascience")
    states = [
        content["execution_state"] for kind, content in kernel.outputs(until="busy", parent=cell[1]["msg_id"])
    ]
    assert states == ["busy"]


def test_a_profile_beyond_the_ceiling_is_marked_and_not_given(tmp_path: Path) -> None:
    kernel = HostedKernel(tmp_path, SENTINEL_CEILING="strict")
    try:
        worker = kernel.start_worker()
        kernel.subscribe()
        gauge = Gauge(kernel, worker)
        labels = gauge.state("Dropdown")["_options_labels"]
        assert "datascience (beyond the ceiling)" in labels
        assert "strict" in labels
        gauge.choose("datascience")
        gauge.wait("ceiling: strict")
        while not kernel.operations.empty():
            assert kernel.operations.get()["op"] != protocol.OP_PROFILE
    finally:
        kernel.close()


def test_a_click_that_the_worker_makes_up_does_nothing(
    kernel: HostedKernel, worker: FakeWorker, gauge: Gauge, cell: list[Any]
) -> None:
    while not kernel.operations.empty():
        kernel.operations.get()
    click = {"method": "custom", "content": {"event": "click"}}
    forged = {"method": "update", "state": {"value": "forged", "description": "forged"}}
    made_up = [(gauge.model("Button", button), click) for button in ("Stop", "Close", "End the worker")]
    made_up += [(gauge.model("Dropdown"), {"method": "update", "state": {"index": 0}})]
    for comm_id, data in [*made_up, (gauge.model("HTML"), forged)]:
        for channel in ("iopub", "shell", "control", "stdin"):
            parts = json_parts("comm_msg", {"comm_id": comm_id, "data": data}, cell[1])
            prefix = [b"topic"] if channel == "iopub" else [bytes(part) for part in cell[0]]
            worker.send(channel, [*prefix, DELIMITER, b"", *parts])
        worker.publish("comm_close", {"comm_id": comm_id, "data": {}}, cell[1])
    worker.publish("comm_msg", {"comm_id": "theirs", "data": {"method": "custom"}}, cell[1])  # the control
    notices = 0
    while (message := kernel.client.get_iopub_msg(timeout=20))["content"].get("comm_id") != "theirs":
        notices += NOTICE_TYPE in message["content"].get("data", {})
        assert "forged" not in str(message["content"])
        assert message["msg_type"] != "comm_close"
    assert notices == 1
    assert [kernel.operations.get()["op"] for _ in range(kernel.operations.qsize())] == []


def test_after_a_death_it_goes_on_in_the_next_cell(
    kernel: HostedKernel, worker: FakeWorker, gauge: Gauge
) -> None:
    kernel.event("worker_died", generation=1, cause={"kind": "signal", "signal": 9}, replaced=False)
    worker.close()
    fresh = kernel.restart_worker()
    outputs = kernel.outputs(until="restarting")
    updated = dict(outputs)["update_display_data"]
    assert updated["transient"] == gauge.shown["transient"]
    assert VIEW_TYPE not in updated["data"]
    assert "next cell" in updated["data"]["text/plain"]
    outputs = run(kernel, fresh)
    shown = [content for kind, content in outputs if kind == "display_data" and VIEW_TYPE in content["data"]]
    assert len(shown) == 1
    assert "display_data" not in kinds(run(kernel, fresh))


def test_the_watch_is_asked_for_again_where_the_sandbox_is_another(
    kernel: HostedKernel, worker: FakeWorker, gauge: Gauge
) -> None:
    msg_id = kernel.client.execute("%sentinel_reset")
    fresh = kernel.restart_worker()
    assert kernel.operation(protocol.OP_WATCH)["on"] is True
    fresh.run_cell()
    assert "comm_close" not in kinds(kernel.outputs(parent=msg_id))
    kernel.reply()
    kernel.client.execute("run")
    fresh.start_cell(3)
    sample(kernel, memory_bytes=70 * MIB)
    gauge.wait("70 MiB")
    assert worker


def test_a_line_at_each_cells_end_can_be_turned_on_and_off(tmp_path: Path) -> None:
    kernel = HostedKernel(tmp_path, SENTINEL_CELL_SUMMARY="on")
    try:
        worker = kernel.start_worker()
        kernel.subscribe()
        assert kernel.operation(protocol.OP_WATCH)["on"] is True
        run(kernel, worker, "%sentinel_gauge summary off")
        assert kernel.operation(protocol.OP_WATCH)["on"] is False
        run(kernel, worker, "%sentinel_gauge summary on")
        assert kernel.operation(protocol.OP_WATCH)["on"] is True
        kernel.operation(protocol.OP_END_CELL)
        msg_id = kernel.client.execute("work")
        request, _ = worker.start_cell(2)
        kernel.event("violation", violation={"id": "v1", "version": 1, "syscall": "socket", "count": 3})
        kernel.answering = False
        kernel.operation(protocol.OP_BEGIN_CELL)
        worker.end_cell(request, count=2)
        end = kernel.operation(protocol.OP_END_CELL)
        sample(kernel)
        kernel.answering = True
        kernel.answer(end)
        outputs = kernel.outputs(parent=msg_id)
        line = next(content["data"] for _, content in reversed(outputs) if "data" in content)
        assert list(line) == ["text/plain"]
        assert "[2]" in line["text/plain"]
        assert "120 MiB" in line["text/plain"]
        assert "1.25 s" in line["text/plain"]
        assert "refused 3" in line["text/plain"]
        kernel.reply()
        assert "display_data" not in kinds(run(kernel, worker, "%sentinel_gauge summary off"))
        assert kernel.operation(protocol.OP_WATCH)["on"] is False
    finally:
        kernel.close()


def test_what_else_is_typed_behind_it_is_a_mistake(kernel: HostedKernel, worker: FakeWorker) -> None:
    assert worker
    kernel.client.execute("%sentinel_gauge sumary on")
    assert "%sentinel_gauge [summary on|off]" in kernel.reply()["content"]["evalue"]


@pytest.mark.sandbox
@pytest.mark.requires("user_namespaces", "overlay", "fresh_proc", "notifications")
def test_a_cell_can_not_press_its_buttons_and_sees_no_more_of_it_than_anybody(tmp_path: Path) -> None:
    with notebook(tmp_path, "sentinel") as book:
        opened = [content for kind, content in book.run("%sentinel_gauge").outputs if kind == "comm_open"]
        ids = {content["data"]["state"]["_model_name"]: content["comm_id"] for content in opened}
        result = book.run(
            "from comm import create_comm\n"
            f"for comm_id in {list(ids.values())}:\n"
            "    forged = create_comm(comm_id=comm_id, target_name='jupyter.widget', data={'state': {}})\n"
            "    forged.send({'method': 'custom', 'content': {'event': 'click'}})\n"
            "    forged.send({'method': 'update', 'state': {'index': 0, 'value': 'forged'}})\n"
            "    forged.close()\n"
            "try: get_ipython().run_line_magic('sentinel_gauge', 'summary on')\n"
            "except Exception as error: print(type(error).__name__)"
        )
        assert "UsageError" in result.text
        assert result.bundles(NOTICE_TYPE)
        assert "forged" not in str([content for kind, content in result.outputs if kind.startswith("comm_")])
        assert "comm_close" not in result.kinds
        assert "strict" in book.run("%sentinel_status").bundles("text/plain")[0]
