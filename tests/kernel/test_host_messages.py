"""The host between a client and a worker that may send anything: order, queues, magics and the output rule."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hosted_kernel import SECONDS, VIOLATION, HostedKernel, kinds

from sentinel_kernel.kernel.output_rule import NOTICE_TYPE, VIOLATION_TYPE

if TYPE_CHECKING:
    from hosted_kernel import FakeWorker


def test_requests_wait_for_the_worker_and_reach_it_as_they_were_sent(kernel: HostedKernel) -> None:
    msg_id = kernel.client.execute("é = '\\u2028'  # as typed")
    worker = kernel.start_worker()
    identities, header, content = worker.take("shell")
    assert header["msg_id"] == msg_id
    assert content["code"] == "é = '\\u2028'  # as typed"
    assert bytes(identities[0]) == kernel.client.session.bsession
    assert kernel.operation("begin_cell")["msg_id"] == msg_id


def test_cells_of_a_run_all_reach_the_worker_one_by_one(kernel: HostedKernel, worker: FakeWorker) -> None:
    first, second = kernel.client.execute("a"), kernel.client.execute("b")
    request, _ = worker.start_cell()
    with pytest.raises(TimeoutError):
        worker.frames("shell", 0.2)
    worker.end_cell(request)
    assert worker.take("shell")[1]["msg_id"] == second
    assert [kernel.operation("begin_cell")["msg_id"] for _ in range(2)] == [first, second]


def test_requests_behind_a_cell_never_overtake_it(kernel: HostedKernel, worker: FakeWorker) -> None:
    kernel.client.execute("a")
    kernel.client.kernel_info()
    kernel.client.execute("b")
    kernel.client.comm_info()
    request, _ = worker.start_cell()
    assert worker.take("shell")[1]["msg_type"] == "kernel_info_request"
    worker.end_cell(request)
    assert worker.take("shell")[1]["msg_type"] == "execute_request"
    assert worker.take("shell")[1]["msg_type"] == "comm_info_request"


def test_a_failed_cell_aborts_those_that_wait_and_nothing_else(
    kernel: HostedKernel, worker: FakeWorker
) -> None:
    failing, waiting, magic = (kernel.client.execute(code) for code in ("a", "b", "%sentinel_reset\nc"))
    request, _ = worker.start_cell()
    kernel.wait_arrived(worker)
    info = kernel.client.kernel_info()
    worker.end_cell(request, "error")
    assert worker.take("shell")[1]["msg_id"] == info
    replies = [kernel.reply() for _ in range(3)]
    assert [reply["content"]["status"] for reply in replies] == ["error", "aborted", "aborted"]
    assert [reply["parent_header"]["msg_id"] for reply in replies] == [failing, waiting, magic]
    assert kinds(kernel.outputs(parent=magic)) == ["busy", "idle"]
    later = kernel.client.execute("d")
    assert worker.take("shell")[1]["msg_id"] == later


def test_cells_run_on_after_an_error_where_the_client_says_so(
    kernel: HostedKernel, worker: FakeWorker
) -> None:
    kernel.client.execute("a", stop_on_error=False)
    second = kernel.client.execute("b")
    request, _ = worker.start_cell()
    worker.end_cell(request, "error")
    assert worker.take("shell")[1]["msg_id"] == second


def test_comm_messages_do_not_wait_behind_waiting_cells(kernel: HostedKernel, worker: FakeWorker) -> None:
    kernel.client.execute("a")
    kernel.client.execute("b")
    worker.start_cell()
    kernel.client.shell_channel.send(kernel.client.session.msg("comm_msg", {"comm_id": "x", "data": {}}))
    assert worker.take("shell")[1]["msg_type"] == "comm_msg"


def test_subshells_have_queues_of_their_own(kernel: HostedKernel, worker: FakeWorker) -> None:
    kernel.client.execute("a")
    worker.start_cell()
    message = kernel.client.session.msg("execute_request", {"code": "b", "silent": False})
    message["header"]["subshell_id"] = "s1"
    kernel.client.shell_channel.send(message)
    assert worker.take("shell")[2]["code"] == "b"


def test_a_page_comes_right_behind_the_cells_input(kernel: HostedKernel, worker: FakeWorker) -> None:
    code = "%sentinel_help\nprint(1)"
    msg_id = kernel.client.execute(code)
    request, header = worker.start_cell()
    assert request[2]["code"] == code
    worker.publish("stream", {"name": "stdout", "text": "1"}, header)
    worker.end_cell(request)
    assert kinds(kernel.outputs(parent=msg_id)) == ["busy", "execute_input", "display_data", "stream", "idle"]


@pytest.mark.parametrize(
    ("line", "says"),
    [
        (
            "%sentinel_statsu",
            "%sentinel_statsu is not a Sentinel magic. Did you mean %sentinel_status? Known are",
        ),
        ("%sentinel_reset now", "'now' is not understood. Type %sentinel_reset"),
        ("%sentinel_profile a b", "Type %sentinel_profile [NAME [--carry|--fresh]]"),
        ("%sentinel_profile nowhere", "line 2: There is no profile 'nowhere'."),
        ("%sentinel_profile web", "(ceiling: datascience)"),
    ],
)
def test_a_wrong_magic_is_an_error_and_the_code_does_not_run(
    kernel: HostedKernel, worker: FakeWorker, line: str, says: str
) -> None:
    kernel.client.execute("before")
    request, _ = worker.start_cell()
    msg_id = kernel.client.execute(f"%sentinel_help\n{line}\nprint(1)", allow_stdin=False)
    waiting = kernel.client.execute("after")
    kernel.wait_arrived(worker)
    worker.end_cell(request)
    assert kernel.reply()["content"]["status"] == "ok"
    outputs = kernel.outputs(parent=msg_id)
    assert kinds(outputs) == ["busy", "execute_input", "error", "idle"]
    assert outputs[2][1]["ename"] == "UsageError"
    assert says in outputs[2][1]["evalue"]
    content = kernel.reply()["content"]
    assert (content["status"], content["ename"]) == ("error", "UsageError")
    assert kernel.reply()["parent_header"]["msg_id"] == waiting
    with pytest.raises(TimeoutError):
        worker.frames("shell", 0.1)


def test_silent_requests_have_no_magics(kernel: HostedKernel, worker: FakeWorker) -> None:
    kernel.client.execute("%sentinel_reset", silent=True)
    assert worker.take("shell")[2]["code"] == "%sentinel_reset"


def test_run_all_with_a_switch_in_the_middle_is_as_if_run_one_by_one(
    kernel: HostedKernel, worker: FakeWorker
) -> None:
    codes = ("a", "%sentinel_reset\nb", "c")
    first, second, third = (kernel.client.execute(code) for code in codes)
    request, _ = worker.start_cell(6)
    assert kernel.operations.get(timeout=5)["op"] == "begin_cell"
    assert kernel.operations.empty()
    worker.end_cell(request, count=6)
    start = kernel.operation("start")
    assert start["reason"] == "reset"
    assert "--SentinelKernel.first_execution_count=7" in start["argv_once"]
    fresh = kernel.start_worker(start_id=start["id"])
    request, _ = fresh.start_cell(7)
    assert request[1]["msg_id"] == second
    fresh.end_cell(request, count=7)
    assert fresh.run_cell(8)[1]["msg_id"] == third
    replies = [kernel.reply() for _ in range(3)]
    assert [reply["content"]["status"] for reply in replies] == ["ok"] * 3
    assert replies[0]["parent_header"]["msg_id"] == first
    outputs = kernel.outputs(parent=second)
    assert kinds(outputs) == ["busy", "execute_input", "display_data", "idle"]
    assert "variables" in outputs[2][1]["data"]["text/plain"]


def test_a_violation_is_shown_in_the_cell_before_its_idle(kernel: HostedKernel, worker: FakeWorker) -> None:
    msg_id = kernel.client.execute("a\nimport socket")
    request, header = worker.start_cell(3)
    kernel.event("violation", generation=1, violation={**VIOLATION, "line": 2})
    worker.publish("stream", {"name": "stderr", "text": "PermissionError"}, header)
    worker.end_cell(request, count=3)
    assert kernel.operation("end_cell")["msg_id"] == msg_id
    outputs = kernel.outputs(parent=msg_id)
    assert kinds(outputs) == ["busy", "execute_input", "display_data", "stream", "idle"]
    bundle = outputs[2][1]["data"]
    assert set(bundle) == {VIOLATION_TYPE, "text/html", "text/plain"}
    assert bundle["text/plain"].startswith("[SEMANTIC] ")
    assert "\nHINT → " in bundle["text/plain"]
    assert bundle[VIOLATION_TYPE]["cell"] == msg_id
    assert bundle[VIOLATION_TYPE]["source"] == "import socket"


def test_repeats_are_folded_and_the_final_count_is_there_before_idle(
    kernel: HostedKernel, worker: FakeWorker
) -> None:
    msg_id = kernel.client.execute("a")
    request, _ = worker.start_cell()
    for count in range(1, 200):
        kernel.event("violation", generation=1, violation={**VIOLATION, "count": count})
    worker.end_cell(request)
    outputs = kernel.outputs(parent=msg_id)
    shown = [content for kind, content in outputs if kind in ("display_data", "update_display_data")]
    assert 1 <= len(shown) <= 5
    assert len({content["transient"]["display_id"] for content in shown}) == 1
    assert shown[-1]["data"][VIOLATION_TYPE]["count"] == 199
    assert "(×199)" in shown[-1]["data"]["text/plain"]


def test_a_cleared_cell_shows_its_violations_again(kernel: HostedKernel, worker: FakeWorker) -> None:
    msg_id = kernel.client.execute("a")
    request, header = worker.start_cell()
    kernel.event("violation", generation=1, violation=VIOLATION)
    worker.publish("clear_output", {"wait": False}, header)
    worker.publish("clear_output", {"wait": True}, header)
    worker.publish("stream", {"name": "stdout", "text": "1"}, header)
    worker.publish("stream", {"name": "stdout", "text": "2"}, header)
    worker.end_cell(request)
    assert kinds(kernel.outputs(parent=msg_id))[2:-1] == [
        "display_data",
        "clear_output",
        "display_data",
        "clear_output",
        "stream",
        "display_data",
        "stream",
    ]


def test_a_cell_without_refusals_gets_nothing_from_the_host(kernel: HostedKernel, worker: FakeWorker) -> None:
    msg_id = kernel.client.execute("a")
    worker.run_cell()
    assert kinds(kernel.outputs(parent=msg_id)) == ["busy", "execute_input", "idle"]
    assert kernel.operation("begin_cell")
    assert kernel.operation("end_cell")  # for who watches the sandbox; its idle did not wait for the answer
    assert kernel.operations.empty()


@pytest.mark.parametrize(
    "key",
    [
        '"application/javascript"',
        '"text/javascript"',
        '"application/x-javascript"',
        '"Application/JavaScript"',
        '"application\\/javascript"',
        '"\\u0061pplication/javascript"',
        '" application/javascript; charset=utf-8"',
        '"text/ecmascript"',
    ],
)
@pytest.mark.parametrize("padding", [0, 70_000])
def test_scripts_are_held_back_however_they_are_written(
    kernel: HostedKernel, worker: FakeWorker, key: str, padding: int
) -> None:
    msg_id = kernel.client.execute("a")
    request, header = worker.start_cell()
    data = f'{{{key}: "alert(1)", "text/plain": "{"x" * padding}"}}'
    text = f'{{"data": {data}, "metadata": {{}}, "transient": {{}}}}'
    worker.publish("display_data", {}, header)
    parts = worker_parts("display_data", header, text.encode())
    worker.send("iopub", parts)
    worker.end_cell(request)
    outputs = kernel.outputs(parent=msg_id)
    assert kinds(outputs) == ["busy", "execute_input", "display_data", "display_data", "display_data", "idle"]
    assert NOTICE_TYPE in outputs[3][1]["data"]
    assert "HINT → " in outputs[3][1]["data"]["text/plain"]
    assert list(outputs[4][1]["data"]) == ["text/plain"]


def worker_parts(msg_type: str, parent: dict[str, Any], content: bytes) -> list[bytes]:
    from hosted_kernel import json_parts

    from sentinel_kernel.kernel.wire import DELIMITER

    return [b"topic", DELIMITER, b"", *json_parts(msg_type, {}, parent)[:3], content]


def test_scripts_deep_in_a_widgets_state_are_held_back(kernel: HostedKernel, worker: FakeWorker) -> None:
    msg_id = kernel.client.execute("a")
    request, header = worker.start_cell()
    output = {"output_type": "display_data", "data": {"text/javascript": "x", "text/plain": "y"}}
    worker.publish("comm_msg", {"comm_id": "c", "data": {"state": {"outputs": [output]}}}, header)
    worker.publish("comm_msg", {"comm_id": "c", "data": {"javascript": 1}}, header)
    worker.end_cell(request)
    outputs = kernel.outputs(parent=msg_id)
    comms = [content for kind, content in outputs if kind == "comm_msg"]
    assert comms[0]["data"]["state"]["outputs"][0]["data"] == {"text/plain": "y"}
    assert comms[1]["data"] == {"javascript": 1}


@pytest.mark.parametrize("form", ["mime type", "display id"])
def test_the_worker_cannot_pass_for_the_host(kernel: HostedKernel, worker: FakeWorker, form: str) -> None:
    msg_id = kernel.client.execute("a")
    request, header = worker.start_cell()
    kernel.event("violation", generation=1, violation=VIOLATION)
    shown = next(
        message["content"]
        for message in iter(lambda: kernel.client.get_iopub_msg(timeout=SECONDS), None)
        if message["msg_type"] == "display_data"
    )
    if form == "mime type":
        forged = {"data": {VIOLATION_TYPE: {}, NOTICE_TYPE: {}}, "metadata": {}, "transient": {}}
        worker.publish("display_data", forged, header)
    else:
        forged = {"data": {"text/plain": "all is well"}, "metadata": {}, "transient": shown["transient"]}
        worker.publish("update_display_data", forged, header)
    worker.end_cell(request)
    outputs = kernel.outputs(parent=msg_id)
    notices = [content for kind, content in outputs if kind.endswith("display_data")]
    assert len(notices) == 1
    assert NOTICE_TYPE in notices[0]["data"]
    assert notices[0]["data"][NOTICE_TYPE]["kind"] == "held"


def test_a_reply_goes_to_who_asked_and_only_once(kernel: HostedKernel, worker: FakeWorker) -> None:
    kernel.client.execute("a")
    request, _ = worker.start_cell()
    forged = [[b"somebody else"], {**request[1], "msg_id": "another"}, {}]
    worker.reply(forged, {"status": "ok"})
    worker.reply(request, {"status": "ok"}, msg_type="kernel_info_reply")
    worker.reply([[b"somebody else"], request[1], {}], {"status": "ok", "execution_count": 1})
    worker.reply(request, {"status": "error", "execution_count": 2})
    assert kernel.reply()["content"]["execution_count"] == 1
    worker.publish("status", {"execution_state": "idle"}, request[1])
    kernel.client.execute("b")
    worker.run_cell(5)
    assert kernel.reply()["content"]["execution_count"] == 5


def test_prompts_pass_only_from_a_cell_that_may_ask_one_at_a_time(
    kernel: HostedKernel, worker: FakeWorker
) -> None:
    kernel.client.execute("a", allow_stdin=True)
    request, header = worker.start_cell()
    for prompt in ("first", "second"):
        worker.reply(request, {"prompt": prompt, "password": False}, "stdin", "input_request")
    worker.reply([request[0], {**header, "msg_id": "x"}, {}], {"prompt": "forged"}, "stdin", "input_request")
    # The second is refused by now: the answer to the first, which would let it pass, is not there before it.
    while kernel.client.get_iopub_msg(timeout=SECONDS)["msg_type"] != "display_data":
        pass
    assert kernel.client.get_stdin_msg(timeout=SECONDS)["content"]["prompt"] == "first"
    kernel.client.input("answer")
    assert worker.take("stdin")[2]["value"] == "answer"
    worker.reply(request, {"prompt": "third", "password": False}, "stdin", "input_request")
    assert kernel.client.get_stdin_msg(timeout=SECONDS)["content"]["prompt"] == "third"
    worker.end_cell(request)
    kernel.client.execute("b", allow_stdin=False)
    request, _ = worker.start_cell()
    worker.reply(request, {"prompt": "no"}, "stdin", "input_request")
    worker.end_cell(request)
    with pytest.raises(Exception, match=r"^$"):
        kernel.client.get_stdin_msg(timeout=0.2)
    kernel.client.input("again")  # nobody asked
    with pytest.raises(TimeoutError):
        worker.frames("stdin", 0.1)


def test_buffers_and_topics_pass_untouched(kernel: HostedKernel, worker: FakeWorker) -> None:
    kernel.client.execute("a")
    request, header = worker.start_cell()
    parts = worker_parts("comm_msg", header, b'{"comm_id":"c","data":{}}')
    big = bytes(range(256)) * 20_000
    worker.send("iopub", [b"a topic", *parts[1:], big, b"", b"small"])
    worker.end_cell(request)
    message = next(
        message
        for message in iter(lambda: kernel.client.get_iopub_msg(timeout=SECONDS), None)
        if message["msg_type"] == "comm_msg"
    )
    assert [bytes(buffer) for buffer in message["buffers"]] == [big, b"", b"small"]


@pytest.mark.parametrize(("msg_type", "many"), [("complete_request", 1_500), ("execute_request", 4_500)])
def test_as_many_requests_as_wait_are_answered(
    kernel: HostedKernel, worker: FakeWorker, msg_type: str, many: int
) -> None:
    kernel.client.execute("first")
    first, _ = worker.start_cell()
    content = {"code": "x", "cursor_pos": 1, "silent": False, "store_history": True, "user_expressions": {}}
    asked = []
    for _ in range(many):
        message = kernel.client.session.msg(msg_type, content)
        kernel.client.shell_channel.send(message)
        asked.append(message["header"]["msg_id"])
    if msg_type == "execute_request":
        kernel.wait_arrived(worker)
    worker.end_cell(first)
    kernel.reply()
    for msg_id in asked:
        request = worker.take("shell")
        worker.publish("status", {"execution_state": "busy"}, request[1])
        worker.reply(request, {"status": "ok", "execution_count": 1})
        worker.publish("status", {"execution_state": "idle"}, request[1])
        assert kernel.reply()["parent_header"]["msg_id"] == msg_id
