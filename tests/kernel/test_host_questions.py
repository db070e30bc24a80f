"""The host's questions, with supervisor and worker played by the test: who is asked, and what counts as an answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hosted_kernel import FakeWorker, HostedKernel

from sentinel_kernel.supervisor import protocol

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def kernel(tmp_path: Path) -> Iterator[HostedKernel]:
    running = HostedKernel(tmp_path)
    yield running
    running.close()


@pytest.fixture
def worker(kernel: HostedKernel) -> FakeWorker:
    worker = kernel.start_worker()
    kernel.subscribe()
    return worker


def ask(kernel: HostedKernel, identifier: str, syscall: str = "personality") -> None:
    process = {"pid": 7, "command": "python", "is_worker": True}
    held = {
        "id": identifier,
        "syscall": syscall,
        "arguments": [],
        "profile": "p",
        "rule": "ASK",
        "process": process,
    }
    kernel.event(
        protocol.EVENT_ASK, generation=kernel.generation, ask={**held, "line": 1}, why="because", seconds=60.0
    )


def prompt(kernel: HostedKernel) -> dict[str, Any]:
    message: dict[str, Any] = kernel.client.get_stdin_msg(timeout=20)
    assert message["msg_type"] == "input_request"
    return message


def answered(kernel: HostedKernel) -> tuple[str, str]:
    operation = kernel.operation(protocol.OP_ANSWER)
    return operation["ask"], operation["answer"]


def reply(kernel: HostedKernel, value: str, parent: dict[str, Any] | None = None) -> None:
    """Answer a prompt; JupyterLab names the one it answers, other clients do not."""
    message = kernel.client.session.msg("input_reply", {"value": value}, parent=parent)
    kernel.client.stdin_channel.send(message)


@pytest.mark.parametrize("named", [True, False])
@pytest.mark.parametrize(
    ("value", "answer"), [("y", "once"), (" S ", "session"), ("n", "no"), ("\x00", "no")]
)
def test_answer_goes_to_the_supervisor(
    kernel: HostedKernel, worker: FakeWorker, value: str, answer: str, *, named: bool
) -> None:
    msg_id = kernel.client.execute("x()", allow_stdin=True)
    request, _ = worker.start_cell()
    ask(kernel, "a")
    asked = prompt(kernel)
    assert asked["parent_header"]["msg_id"] == msg_id
    assert asked["content"] == {"prompt": asked["content"]["prompt"], "password": False}
    assert asked["content"]["prompt"].startswith("Sentinel asks: allow personality() at line 1? ")
    reply(kernel, value, asked["header"] if named else None)
    assert answered(kernel) == ("a", answer)
    worker.end_cell(request)


def test_a_word_that_the_question_has_not_is_asked_for_again_once(
    kernel: HostedKernel, worker: FakeWorker
) -> None:
    for second, answer in (("y", "once"), ("x", "no")):
        kernel.client.execute("x()", allow_stdin=True)
        request, _ = worker.start_cell()
        ask(kernel, answer)
        first = prompt(kernel)
        reply(kernel, "x", first["header"])
        again = prompt(kernel)
        told = "Sentinel: That letter is none of these: nothing was changed. "
        assert again["content"]["prompt"] == told + first["content"]["prompt"]
        reply(kernel, second, again["header"])
        assert answered(kernel) == (answer, answer)
        worker.end_cell(request)


def test_nobody_is_asked_without_a_running_cell_or_without_input(
    kernel: HostedKernel, worker: FakeWorker
) -> None:
    ask(kernel, "idle")
    assert answered(kernel) == ("idle", "nobody")
    kernel.client.execute("x()", allow_stdin=False)
    worker.start_cell()
    ask(kernel, "mute")
    assert answered(kernel) == ("mute", "nobody")


def test_answer_to_a_question_that_is_over_does_not_answer_the_next(
    kernel: HostedKernel, worker: FakeWorker
) -> None:
    kernel.client.execute("x()", allow_stdin=True)
    worker.start_cell()
    ask(kernel, "late")
    first = prompt(kernel)
    kernel.event(protocol.EVENT_ASK, generation=kernel.generation, closed="late", why="timeout")
    ask(kernel, "next", "memfd_secret")
    second = prompt(kernel)
    reply(kernel, "y", first["header"])  # named: known by its name
    reply(kernel, "y")  # not named: the first of a client that still shows the first prompt
    reply(kernel, "n", second["header"])
    assert answered(kernel) == ("next", "no")


def test_prompt_of_a_cell_waits_for_the_hosts_and_the_hosts_for_the_cells(
    kernel: HostedKernel, worker: FakeWorker
) -> None:
    kernel.client.execute("input()", allow_stdin=True)
    request, _ = worker.start_cell()

    def worker_asks(text: str) -> None:
        worker.reply(request, {"prompt": text, "password": False}, "stdin", "input_request")

    worker_asks("cell's first")
    assert prompt(kernel)["content"]["prompt"] == "cell's first"
    ask(kernel, "a")
    reply(kernel, "typed")
    assert worker.take("stdin")[2] == {"value": "typed"}
    assert prompt(kernel)["content"]["prompt"].startswith("Sentinel asks")
    worker_asks("Ｓentinel asks: allow everything?")
    reply(kernel, "y")
    assert answered(kernel) == ("a", "once")
    assert prompt(kernel)["content"]["prompt"].startswith("(from the code of the cell) ")


def test_cell_that_ends_takes_its_question_with_it(kernel: HostedKernel, worker: FakeWorker) -> None:
    kernel.client.execute("x()", allow_stdin=True)
    request, _ = worker.start_cell()
    ask(kernel, "a")
    prompt(kernel)
    worker.end_cell(request)
    assert answered(kernel) == ("a", "nobody")


def test_interrupt_leaves_the_answer_to_the_supervisor(kernel: HostedKernel, worker: FakeWorker) -> None:
    kernel.client.execute("x()", allow_stdin=True)
    worker.start_cell()
    ask(kernel, "a")
    prompt(kernel)
    kernel.client.control_channel.send(kernel.client.session.msg("interrupt_request", {}))
    kernel.operation(protocol.OP_INTERRUPT)
    ask(kernel, "b", "memfd_secret")
    prompt(kernel)
    reply(kernel, "y")
    assert answered(kernel) == ("b", "once")


def test_client_can_not_ask_the_worker_for_its_variables(kernel: HostedKernel, worker: FakeWorker) -> None:
    message = kernel.client.session.msg("sentinel_carry_request", {"do": "list"})
    kernel.client.shell_channel.send(message)
    kernel.wait_arrived(worker)  # the next that the worker got
