"""Questions, comms and malformed messages: plain ipykernel and Sentinel are asked the same and answer alike."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest
from conversation import Conversation
from live_kernel import Notebook, notebook

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.requires("user_namespaces", "overlay", "fresh_proc", "notifications")

DELIMITER = b"<IDS|MSG>"


def test_completion(talk: Conversation) -> None:
    talk.run("a_long_name = {'key': 1}; class_ = str")
    code = "x = 1\na_lon"
    reply = talk.ask("complete_request", {"code": code, "cursor_pos": len(code)}).content
    assert reply["matches"] == ["a_long_name"]
    assert (reply["cursor_start"], reply["cursor_end"]) == (6, len(code))
    [typed] = reply["metadata"]["_jupyter_types_experimental"]
    assert (typed["text"], typed["start"], typed["end"]) == ("a_long_name", 6, len(code))
    attribute = talk.ask("complete_request", {"code": "class_.capital", "cursor_pos": 14}).content
    assert [match.rpartition(".")[2] for match in attribute["matches"]] == ["capitalize"]
    magic = talk.ask("complete_request", {"code": "%%timei", "cursor_pos": 7}).content
    assert "%%timeit" in magic["matches"]
    # Positions count characters, whatever their width in bytes or UTF-16.
    wide = "'🎈漢'; a_lon"
    reply = talk.ask("complete_request", {"code": wide, "cursor_pos": len(wide)}).content
    assert (reply["cursor_start"], reply["cursor_end"]) == (6, len(wide))


@pytest.mark.parametrize("level", [0, 1])
def test_inspection(talk: Conversation, level: int) -> None:
    talk.run('def documented(x):\n    """What it says."""\n    return x + 1')
    reply = talk.ask(
        "inspect_request", {"code": "documented(1", "cursor_pos": 5, "detail_level": level}
    ).content
    assert reply["found"] is True
    text = re.sub("\x1b\\[[0-9;]*m", "", reply["data"]["text/plain"])
    assert ("return x + 1" if level else "What it says.") in text
    missing = talk.ask("inspect_request", {"code": "nowhere", "cursor_pos": 3, "detail_level": 0}).content
    assert (missing["found"], missing["data"]) == (False, {})


@pytest.mark.parametrize(
    ("code", "status", "indent"),
    [
        ("1 + 1", "complete", None),
        ("for x in y:", "incomplete", "    "),
        ("'''", "incomplete", ""),
        ("import = 7q", "invalid", None),
        ("%magic", "complete", None),
        ("%sentinel_status", "complete", None),
    ],
)
def test_completeness(talk: Conversation, code: str, status: str, indent: str | None) -> None:
    reply = talk.ask("is_complete_request", {"code": code}).content
    assert (reply["status"], reply.get("indent")) == (status, indent)


def test_history_by_tail_range_and_search(talk: Conversation) -> None:
    start = talk.run("remembered = 'needle'").content["execution_count"]
    talk.run("'an output'")
    common = {"output": False, "raw": True}
    tail = talk.ask("history_request", {**common, "hist_access_type": "tail", "n": 2}).content["history"]
    # The last one is the cell that ran last: ipykernel leaves the running one out, and none is running.
    assert [entry[2] for entry in tail][-2:] == ["remembered = 'needle'", "'an output'"]
    found = talk.ask(
        "history_request",
        {**common, "hist_access_type": "search", "pattern": "*needle*", "n": 5, "unique": True},
    ).content["history"]
    assert "remembered = 'needle'" in [entry[2] for entry in found]
    place = {"hist_access_type": "range", "session": 0, "start": start, "stop": start + 2}
    ranged = talk.ask("history_request", {"raw": True, "output": True, **place}).content["history"]
    assert [entry[1] for entry in ranged] == [start, start + 1]
    assert ranged[0][2][0] == "remembered = 'needle'"
    assert ranged[1][2] == ["'an output'", "'an output'"]


def test_kernel_info_is_the_workers_on_both_channels(talk: Conversation) -> None:
    shell = talk.ask("kernel_info_request").content
    control = talk.ask("kernel_info_request", channel="control").content
    for answer in (shell, control):
        answer["banner"] = answer["banner"].partition("Tip:")[0]  # another one each time
    assert shell == control
    assert "IPython" in shell["banner"]
    assert shell["implementation"] == "ipython"
    assert shell["language_info"]["name"] == "python"
    assert shell["supported_features"] == ["kernel subshells", "debugger"]
    assert shell.keys() == {
        "status",
        "protocol_version",
        "implementation",
        "implementation_version",
        "language_info",
        "banner",
        "help_links",
        "supported_features",
    }


def test_kernel_info_on_control_is_answered_while_a_cell_runs(talk: Conversation) -> None:
    cell = talk.execute("import threading\nheld = input()", allow_stdin=True)
    talk.wait_for_prompt()
    assert talk.ask("kernel_info_request", channel="control").content["status"] == "ok"
    usage = talk.ask("usage_request", channel="control").content
    assert {"hostname", "kernel_cpu", "kernel_memory", "pid"} <= usage.keys()
    assert not cell.finished
    talk.client.input("go")
    talk.finish(cell)


COMM_TARGET = """
from ipykernel.comm import Comm
seen = []
def target(comm, message):
    seen.append(('open', message['content']['data'], [bytes(b) for b in message['buffers']]))
    def on_message(message):
        seen.append(('msg', message['content']['data'], [bytes(b) for b in message['buffers']]))
        comm.send({'echo': message['content']['data']}, buffers=[b'back', *message['buffers']])
    comm.on_msg(on_message)
    comm.on_close(lambda message: seen.append(('close', message['content']['data'], [])))
get_ipython().kernel.comm_manager.register_target('mirror', target)
"""


def test_a_comm_that_the_client_opens(talk: Conversation) -> None:
    talk.run(COMM_TARGET)
    first, second = b"\0\1" * 100, b"x" * 200_000
    data = {"comm_id": "c1", "target_name": "mirror", "data": {"a": 1}}
    opened = talk.send("comm_open", data, buffers=[first])
    talk.wait_for(lambda: opened.kinds[-1:] == ["idle"], "the comm is open")
    listed = talk.ask("comm_info_request").content["comms"]
    assert listed["c1"] == {"target_name": "mirror"}
    assert talk.ask("comm_info_request", {"target_name": "nothing"}).content["comms"] == {}
    message = talk.send("comm_msg", {"comm_id": "c1", "data": {"b": 2}}, buffers=[second, b""])
    echo = talk.wait_for_output(message, "comm_msg")
    assert echo["content"] == {"comm_id": "c1", "data": {"echo": {"b": 2}}}
    assert [bytes(buffer) for buffer in echo["buffers"]] == [b"back", second, b""]
    closed = talk.send("comm_close", {"comm_id": "c1", "data": {"c": 3}})
    talk.wait_for(lambda: closed.kinds[-1:] == ["idle"], "the comm is closed")
    assert talk.run("print([(k, d, [len(b) for b in bs]) for k, d, bs in seen])").text == (
        "[('open', {'a': 1}, [200]), ('msg', {'b': 2}, [200000, 0]), ('close', {'c': 3}, [])]\n"
    )
    assert "c1" not in talk.ask("comm_info_request").content["comms"]


def test_a_comm_that_the_cell_opens(talk: Conversation) -> None:
    cell = talk.run(
        "mine = Comm(target_name='jupyter.widget.version', data={'n': 1}, metadata={'m': 2}, buffers=[b'\\0' * 50_000])"
    )
    [opened] = [message for message in cell.published if message["msg_type"] == "comm_open"]
    assert opened["content"]["target_name"] == "jupyter.widget.version"
    assert (opened["content"]["data"], opened["metadata"]) == ({"n": 1}, {"m": 2})
    assert [len(buffer) for buffer in opened["buffers"]] == [50_000]
    comm_id = opened["content"]["comm_id"]
    talk.run("mine.on_msg(lambda message: print('heard', message['content']['data']))")
    heard = talk.send("comm_msg", {"comm_id": comm_id, "data": {"x": 1}})
    assert talk.wait_for_output(heard, "stream")["content"]["text"] == "heard {'x': 1}\n"
    closing = talk.run("mine.close({'end': True})")
    assert closing.contents("comm_close") == [{"comm_id": comm_id, "data": {"end": True}}]


def test_a_comm_without_a_target_is_closed_again(talk: Conversation) -> None:
    opened = talk.send("comm_open", {"comm_id": "c2", "target_name": "nobody", "data": {}})
    talk.wait_for(lambda: opened.kinds[-1:] == ["idle"], "the comm was looked at")
    assert [content["comm_id"] for content in opened.contents("comm_close")] == ["c2"]


# --- messages that no client should send


@pytest.fixture
def raw(both: Notebook, talk: Conversation) -> Any:
    """Return what sends frames to the shell channel just as they are."""
    talk.run("pass")
    return both.client.shell_channel.socket.send_multipart


def signed(both: Notebook, *parts: bytes) -> list[bytes]:
    session = both.client.session
    return [DELIMITER, session.sign(list(parts)), *parts]


def request(both: Notebook, msg_type: str = "kernel_info_request", **changes: Any) -> list[bytes]:
    header = {**both.client.session.msg_header(msg_type), **changes}
    header["date"] = "2026-01-01T00:00:00Z"
    return [json.dumps(header).encode(), b"{}", b"{}", b"{}"]


@pytest.mark.parametrize(
    "kind",
    [
        "unsigned",
        "signed by another key",
        "too short",
        "no delimiter",
        "empty",
        "header is no JSON",
        "header is a list",
        "content is no JSON",
        "header without msg_type",
        "not UTF-8",
    ],
)
def test_a_bad_message_is_dropped_and_the_next_is_answered(
    both: Notebook, talk: Conversation, raw: Any, kind: str
) -> None:
    good = request(both)
    header, *rest = good
    frames = {
        "unsigned": [DELIMITER, b"", *good],
        "signed by another key": [DELIMITER, b"0" * 64, *good],
        "too short": [*signed(both, *good)[:4]],
        "no delimiter": good,
        "empty": [b""],
        "header is no JSON": signed(both, b"{", *rest),
        "header is a list": signed(both, b"[]", *rest),
        "content is no JSON": signed(both, header, b"{}", b"{}", b"{'"),
        "header without msg_type": signed(both, b'{"msg_id": "x"}', *rest),
        "not UTF-8": signed(both, b'{"msg_id": "\xff"}', *rest),
    }[kind]
    raw(frames)
    assert talk.run("print('on')").text == "on\n"
    assert not [message for message in talk.others if message["parent_header"].get("msg_id") == "x"]


def test_a_message_that_is_sent_twice_is_answered_once(both: Notebook, talk: Conversation, raw: Any) -> None:
    session = both.client.session
    message = session.msg("execute_request", {"code": "print('once')", "silent": False})
    frames = session.serialize(message)
    exchange = talk.expect(message["header"]["msg_id"])
    raw(frames)
    raw(frames)
    talk.finish(exchange)
    assert talk.run("print('on')").text == "on\n"
    assert exchange.text == "once\n"
    assert exchange.kinds.count("idle") == 1


def test_an_unknown_type_is_ignored(talk: Conversation) -> None:
    talk.send("no_such_request", {})
    talk.send("no_such_request", {}, channel="control")
    talk.send("execute_reply", {})
    assert talk.run("print('on')").text == "on\n"


@pytest.mark.parametrize(
    "content", [{}, {"code": 7}, {"silent": True}, {"code": "pass", "user_expressions": 5}, {"code": None}]
)
def test_a_cell_that_is_none_ends_and_leaves_the_kernel_as_it_was(
    talk: Conversation, content: dict[str, Any]
) -> None:
    malformed = talk.send("execute_request", {"stop_on_error": False, **content})
    talk.wait_for(lambda: malformed.kinds[-1:] == ["idle"], "the request is done with")
    assert talk.run("print('on')").text == "on\n"


# --- arguments


@pytest.fixture(params=["python3", "sentinel"])
def with_arguments(request: pytest.FixtureRequest, tmp_path: Any) -> Iterator[Notebook]:
    arguments = ["--HistoryManager.hist_file=:memory:", "--IPKernelApp.exec_lines=from_arguments = 5"]
    with notebook(tmp_path, request.param, arguments) as book:
        yield book


def test_extra_arguments_reach_the_kernel(with_arguments: Notebook) -> None:
    talk = Conversation(with_arguments.client)
    code = "print(get_ipython().history_manager.hist_file, from_arguments)"
    assert talk.run(code).text == ":memory: 5\n"
