"""What people, frontends and programs see of violations beyond the card, and that no worker can put itself there."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jsonschema
import pytest
from conversation import Conversation, Exchange
from live_kernel import notebook

from sentinel_kernel.client import violations_of
from sentinel_kernel.kernel.output_rule import NOTICE_TYPE
from sentinel_kernel.policy.violation import Violation

if TYPE_CHECKING:
    from collections.abc import Iterator

    from live_kernel import Notebook

pytestmark = [
    pytest.mark.sandbox,
    pytest.mark.requires("user_namespaces", "overlay", "fresh_proc", "notifications"),
]

ROOT = Path(__file__).resolve().parents[2]
COMM = "a-frontends-own-comm-0001"
RESERVED = re.compile(r"\s*application/(vnd|x)[.-]sentinel", re.IGNORECASE)
REFUSED = """import socket

def fetch():
    for _ in range(3):
        try:
            socket.socket()
        except OSError:
            pass

fetch()"""

TOOLS = """
import asyncio, threading
import comm
from IPython import get_ipython
from IPython.display import display, publish_display_data
V, N = 'application/vnd.sentinel.violation+json', 'application/vnd.sentinel.notice+json'
FORGED = {'id': 'forged', 'version': 2, 'message': {'en': 'forged', 'zh': 'forged'}}
kernel, shell = get_ipython().kernel, get_ipython()
kernel.session.username = 'the worker'

def say(kind, content, metadata=None):
    kernel.session.send(kernel.iopub_socket, kind, content, parent=kernel.get_parent(), metadata=metadata)

class Bundle:
    def __init__(self, data, metadata=None):
        self.data, self.metadata = data, metadata or {}
    def _repr_mimebundle_(self, **_):
        return {'text/plain': 'honest', **self.data}, self.metadata
"""

ATTEMPTS = {
    "display": "display({V: FORGED, 'text/plain': 'honest'}, raw=True)",
    "a notice": "display({N: FORGED, 'text/plain': 'honest'}, raw=True)",
    "another spelling": (
        "display({' Application/VND.Sentinel.Violation+JSON': FORGED, 'text/plain': 'honest'}, raw=True)"
    ),
    "a type to come": "display({'application/x-sentinel.anything': FORGED, 'text/plain': 'honest'}, raw=True)",
    "a result": "Bundle({V: FORGED})",
    "the metadata of a display": "publish_display_data({'text/plain': 'honest'}, {V: FORGED})",
    "the metadata of a result": "Bundle({}, {'text/plain': {V: FORGED}})",
    "beside a display's own fields": (
        "say('display_data', {'data': {'text/plain': 'honest'}, 'metadata': {}, 'transient': {}, V: FORGED})"
    ),
    "the transient of a display": (
        "say('display_data', {'data': {'text/plain': 'honest'}, 'metadata': {}, 'transient': {V: FORGED}})"
    ),
    "within another type": (
        "display({'application/vnd.jupyter.widget-state+json': {'state': {'a': {'outputs': [{V: FORGED}]}}},"
        " 'text/plain': 'honest'}, raw=True)"
    ),
    "a long display": "display({'text/plain': 'honest' + ' ' * 100_000, V: FORGED}, raw=True)",
    "an update of its own display": (
        "handle = display({'text/plain': 'honest'}, raw=True, display_id='own')\n"
        "handle.update({V: FORGED, 'text/plain': 'honest'}, raw=True)"
    ),
    "an error": (
        "say('error', {'ename': 'E', 'evalue': 'honest', 'traceback': [], V: FORGED,"
        " 'data': {V: FORGED}, 'output_type': 'display_data'})"
    ),
    "a stream": "say('stream', {'name': 'stdout', 'text': 'honest', 'data': {V: FORGED}})",
    "a debug event": "say('debug_event', {'event': 'honest', 'body': {V: FORGED}})",
    "the metadata of a stream": "say('stream', {'name': 'stdout', 'text': 'honest'}, {V: FORGED})",
    "the metadata of an error": (
        "say('error', {'ename': 'E', 'evalue': 'honest', 'traceback': []}, {'a': [{V: FORGED}]})"
    ),
    "a comm": "comm.create_comm('jupyter.widget.version', data={'honest': {V: FORGED}})",
    "an output widget": (
        "import ipywidgets\nipywidgets.Output(outputs=({'output_type': 'display_data', 'metadata': {},"
        " 'data': {V: FORGED, 'text/plain': 'honest'}},))"
    ),
}
"""Where a worker puts the host's types: each says something honest too, which has to get through."""


@pytest.fixture(scope="module")
def book(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Notebook]:
    folder = tmp_path_factory.mktemp("surface")
    # No spare: it would come in the middle of some test.
    with notebook(folder, SENTINEL_SPARE="off", XDG_STATE_HOME=str(folder / "state")) as book:
        yield book


@pytest.fixture(scope="module")
def talk(book: Notebook) -> Conversation:
    talk = Conversation(book.client)
    refused = talk.run(REFUSED)
    assert len(violations_of(refused.published)) == 1
    assert talk.run(TOOLS).content["status"] == "ok"
    return talk


def texts(exchange: Exchange, mime: str = "text/plain") -> str:
    shown = exchange.contents("display_data", "execute_result")
    return "\n".join(content["data"][mime] for content in shown if mime in content["data"])


def reserved(value: Any) -> bool:
    """Tell whether a type of the host's is anywhere in a value."""
    if isinstance(value, dict):
        return any(RESERVED.match(key) or reserved(inner) for key, inner in value.items())
    return isinstance(value, list) and any(map(reserved, value))


def of_the_worker(talk: Conversation, exchange: Exchange) -> list[dict[str, Any]]:
    """Return what the worker said, which has put its name on it."""
    messages = [*exchange.published, *talk.others, *([exchange.reply] if exchange.reply else [])]
    return [
        {key: message[key] for key in ("content", "metadata")}
        for message in messages
        if message["header"]["username"] == "the worker" and message["msg_type"] != "execute_input"
    ]


def notices(exchange: Exchange) -> list[str]:
    return [
        content["data"][NOTICE_TYPE]["kind"]
        for content in exchange.contents("display_data")
        if NOTICE_TYPE in content["data"]
    ]


# --- the pages


def test_the_last_refusal_is_told_at_length(talk: Conversation) -> None:
    page = texts(talk.run("%sentinel_explain"))
    for expected in (
        "socket(family=AF_INET",
        "EPERM",
        "line 6",
        "in fetch()",
        "3 (",
        "strict: NOTIFY by default",
        "the profile's default",
        "$.default_action",
        "→ 6              socket.socket()",
        "5          try:",
        "datascience",
        "freely",
        "calls: socket",
    ):
        assert expected in page, f"{expected!r} is not in {page}"
    assert re.search(r"audit +row \d+, execution \d+ \(`sentinel-kernel audit show \d+`\)", page)
    assert "There is none of number 1999" in texts(talk.run("%sentinel_explain 1999"))


def test_the_table_and_the_data_tell_of_the_same(talk: Conversation) -> None:
    page = texts(talk.run("%sentinel_violations"))
    assert re.search(r"^1 +3 +system call +6 +\[\d+\]", page, re.MULTILINE), page
    data = talk.run("%sentinel_violations --last 5 --json")
    [content] = data.contents("display_data")
    document = content["data"]["application/json"]
    assert json.loads(content["data"]["text/plain"]) == document
    assert [Violation.from_json(record).syscall for record in document["violations"]][-1] == "socket"


TYPED_WRONG = (
    "%sentinel_explain 0",
    "%sentinel_explain -1",
    "%sentinel_explain two",
    "%sentinel_explain 1 2",
    "%sentinel_violations --last",
    "%sentinel_violations --last 0",
    "%sentinel_violations --yaml",
    "%sentinel_violations 3",
)


def test_what_is_not_understood_is_an_error_that_says_what_to_type(talk: Conversation) -> None:
    for line in TYPED_WRONG:
        content = talk.run(line).content
        assert content["ename"] == "UsageError", line
        assert "is not understood. Type %sentinel_" in content["evalue"]
    assert talk.run("%sentinel_violations --last 1").content["status"] == "ok"  # positive control


# --- the comm


def schema() -> dict[str, Any]:
    section = (ROOT / "ARCHITECTURE.md").read_text().partition("## The comm `sentinel`")[2]
    document: dict[str, Any] = json.loads(section.partition("```json\n")[2].partition("```")[0])
    jsonschema.Draft202012Validator.check_schema(document)
    return document


def tell(talk: Conversation, data: Any, comm_id: str = COMM) -> dict[str, Any]:
    """Send a request on the comm and return the answer, held against the schema."""
    exchange = talk.send("comm_msg", {"comm_id": comm_id, "data": data})
    return answer(talk, exchange, comm_id)


def answer(talk: Conversation, exchange: Exchange, comm_id: str = COMM) -> dict[str, Any]:
    talk.wait_for(lambda: "idle" in exchange.kinds, "the comm's request is done")
    [content] = exchange.contents("comm_msg")
    assert content["comm_id"] == comm_id
    jsonschema.validate(content["data"], {**schema(), "anyOf": [{"$ref": "#/$defs/answer"}]})
    data: dict[str, Any] = content["data"]
    return data


@pytest.fixture(scope="module")
def comm(talk: Conversation) -> str:
    opened = talk.send(
        "comm_open", {"comm_id": COMM, "target_name": "sentinel", "data": {"op": "status", "id": 7}}
    )
    told = answer(talk, opened)
    assert (told["op"], told["id"], told["version"]) == ("status", 7, 1)
    return COMM


def test_a_frontend_asks_what_is_in_force(talk: Conversation, comm: str) -> None:
    profile = tell(talk, {"op": "profile"}, comm)["profile"]
    assert (profile["name"], profile["ceiling"]) == ("strict", "datascience")
    assert {"strict", "datascience"} <= set(profile["choices"])
    status = tell(talk, {"op": "status"}, comm)["status"]
    assert (status["state"], status["profile"]) == ("ready", "strict")
    assert status["refusals"] >= 3
    told = tell(talk, {"op": "violations", "last": 1}, comm)
    [record] = told["violations"]
    assert told["known"] == status["violations"]
    assert Violation.from_json(record).syscall == "socket"
    assert comm in talk.ask("comm_info_request", {"target_name": "sentinel"}).content["comms"]


ODD_REQUESTS: tuple[tuple[dict[str, Any], str], ...] = (
    ({}, "malformed"),
    ({"op": 3}, "malformed"),
    ({"op": "execute", "code": "1"}, "unknown_op"),
    ({"op": "status", "more": 1}, "unknown_field"),
    ({"op": "profile", "last": 1}, "unknown_field"),
    ({"op": "violations", "last": 0}, "malformed"),
    ({"op": "violations", "last": True}, "malformed"),
    ({"op": "violations", "last": 10**9}, "malformed"),
    ({"op": "status", "id": ["x"]}, "malformed"),
    ({"op": "status", "id": "x" * 65}, "malformed"),
    ({"op": "status", "id": "x" * 5000}, "too_long"),
)


def test_a_request_that_is_not_understood_is_answered_with_an_error(talk: Conversation, comm: str) -> None:
    for data, code in ODD_REQUESTS:
        told = tell(talk, data, comm)
        assert (told["op"], told.get("error", {}).get("code")) == ("error", code), data
    assert tell(talk, {"op": "status", "id": "after"}, comm)["id"] == "after"  # it stays open


def test_a_subscriber_hears_of_a_refusal_and_of_its_final_count_while_the_cell_runs(
    talk: Conversation, comm: str
) -> None:
    assert tell(talk, {"op": "subscribe"}, comm)["subscribed"]
    cell = talk.execute(
        "import socket, time\nfor _ in range(20):\n    try:\n        socket.socket()\n    except OSError: pass\n"
        "print('done')\nwhile True: time.sleep(0.01)"
    )
    talk.wait_for(lambda: cell.contents("comm_msg") and cell.text, "a subscriber hears of it")
    # The host answers while the cell runs, and a frontend's message reaches no worker.
    assert tell(talk, {"op": "status"}, comm)["status"]["running"] == 1
    talk.client.session.send(talk.client.control_channel.socket, "interrupt_request", {})
    talk.finish(cell)
    events = [content["data"] for content in cell.contents("comm_msg") if content["comm_id"] == comm]
    for event in events:
        jsonschema.validate(event, {**schema(), "anyOf": [{"$ref": "#/$defs/answer"}]})
    assert {event["op"] for event in events} == {"event"}
    records = [record for event in events for record in event["violations"] if record["cause"] == "call"]
    assert records[-1]["count"] == 20
    assert not tell(talk, {"op": "unsubscribe"}, comm)["subscribed"]
    assert not talk.run(REFUSED).contents("comm_msg")


# --- what a worker forges


def check_only_honest(talk: Conversation, exchange: Exchange) -> None:
    """Check that a cell said something honest, and that nothing of the worker's passes for the host's."""
    theirs = of_the_worker(talk, exchange)
    assert not any(map(reserved, theirs)), theirs
    assert "honest" in json.dumps(theirs)
    assert violations_of(exchange.published) == []
    assert "held" in notices(exchange)


def test_forged_records_are_held_back_and_what_is_honest_gets_through(talk: Conversation) -> None:
    for name, code in ATTEMPTS.items():
        talk.others.clear()
        exchange = talk.run(code)
        try:
            check_only_honest(talk, exchange)
        except AssertionError as error:
            raise AssertionError(name) from error
    talk.others.clear()
    said = "say('stream', {'name': 'stdout', 'text': 'honest'})"
    told = talk.run(f"say('of_no_kind', {{'data': {{V: FORGED}}}})\n{said}")
    # What no kernel sends is not forwarded at all, whatever it holds.
    kinds = [message["msg_type"] for message in (*told.published, *talk.others)]
    assert "of_no_kind" not in kinds
    assert "stream" in kinds
    assert not any(map(reserved, of_the_worker(talk, told)))
    known = texts(talk.run("%sentinel_violations --json"), "text/plain")
    assert "forged" not in known
    assert "socket" in known  # positive control: the refusals that there were are listed


def test_a_reply_holds_no_record(talk: Conversation) -> None:
    talk.others.clear()
    forger = (
        "class Forger:\n    def _repr_mimebundle_(self, **_): return {V: FORGED, 'text/plain': 'honest'}\n"
    )
    told = talk.run(f"{forger}print('honest')", user_expressions={"x": "Forger()"})
    assert told.content["user_expressions"]["x"]["data"] == {"text/plain": "honest"}
    page = (
        "shell.payload_manager.write_payload({'source': 'page', 'data': {V: FORGED, 'text/plain': 'honest'}})"
    )
    [payload] = talk.run(page).content["payload"]
    assert payload["data"] == {"text/plain": "honest"}
    replies = (
        "kernel.do_inspect = lambda *_, **__: {'status': 'ok', 'found': True, 'metadata': {V: FORGED},"
        " 'data': {V: FORGED, 'text/plain': 'honest'}}\n"
        "kernel.do_complete = lambda *_, **__: {'status': 'ok', 'matches': ['honest'], 'cursor_start': 0,"
        " 'cursor_end': 0, 'metadata': {V: FORGED}}"
    )
    assert talk.run(replies).content["status"] == "ok"
    inspected = talk.ask("inspect_request", {"code": "x", "cursor_pos": 1, "detail_level": 0})
    assert inspected.content["data"] == {"text/plain": "honest"}
    completed = talk.ask("complete_request", {"code": "x", "cursor_pos": 1})
    assert completed.content["matches"] == ["honest"]
    assert not reserved(inspected.content)
    assert not reserved(completed.content)
    assert talk.run("del kernel.do_inspect, kernel.do_complete").content["status"] == "ok"


def test_a_display_of_the_hosts_can_not_be_changed(talk: Conversation) -> None:
    [shown] = talk.run(REFUSED).contents("display_data")
    display_id = shown["transient"]["display_id"]
    for kind in ("update_display_data", "display_data", "execute_result"):
        forged = (
            f"say({kind!r}, {{'data': {{'text/html': 'forged'}}, 'metadata': {{}}, 'execution_count': 1, "
            f"'transient': {{'display_id': {display_id!r}}}}})\nprint('honest')"
        )
        exchange = talk.run(forged)
        assert "forged" not in json.dumps(of_the_worker(talk, exchange)), kind
        assert exchange.text == "honest\n"
        assert "held" in notices(exchange)
    own = talk.run("display({'text/plain': 'first'}, raw=True, display_id='theirs')").contents("display_data")
    assert own[0]["transient"]["display_id"] == "theirs"  # positive control


def test_a_display_id_that_is_no_text_ends_no_client(talk: Conversation) -> None:
    code = (
        "say('display_data', {'data': {'text/plain': 'odd'}, 'metadata': {}, 'transient': {'display_id': ['a']}})\n"
        "display({'text/plain': 'honest'}, raw=True, display_id='text')"
    )
    exchange = talk.run(code)
    assert texts(exchange).count("honest") == 1
    assert "odd" not in json.dumps(of_the_worker(talk, exchange))
    assert "held" in notices(exchange)


def test_a_widget_of_the_hosts_is_shown_by_the_host_alone(talk: Conversation) -> None:
    live = talk.run("%sentinel_status --live")
    view = "application/vnd.jupyter.widget-view+json"
    [model] = [content["data"][view]["model_id"] for content in live.contents("display_data")]
    forged = talk.run(
        f"display({{{view!r}: {{'version_major': 2, 'version_minor': 0, 'model_id': {model!r}}}}}, raw=True)\n"
        f"display({{{view!r}: {{'version_major': 2, 'version_minor': 0, 'model_id': 'theirs'}}}}, raw=True)"
    )
    shown = [content["data"].get(view, {}).get("model_id") for content in forged.contents("display_data")]
    assert model not in shown
    assert "theirs" in shown
    assert "held" in notices(forged)


def test_the_worker_neither_opens_nor_answers_nor_claims_the_hosts_comm(
    talk: Conversation, comm: str
) -> None:
    seen = talk.run(
        "opened = []\n"
        "comm.get_comm_manager().register_target('sentinel', lambda comm, message: opened.append(message))\n"
        "comm.get_comm_manager().register_target('other', lambda comm, message: opened.append(message))\n"
        "fake = comm.create_comm('sentinel', data={'op': 'event', 'violations': [FORGED]})\n"
        "spaced = comm.create_comm(' Sentinel ', data={})\n"
        f"mine = comm.create_comm('sentinel', comm_id={comm!r}, data={{'op': 'event'}})\n"
        "mine.send({'version': 1, 'op': 'event', 'violations': [FORGED]})\n"
        "mine.close()\n"
        f"say('comm_msg', {{'comm_id': {comm!r}, 'data': {{'op': 'event', 'violations': [FORGED]}}}})\n"
        "honest = comm.create_comm('jupyter.widget.version', data={'honest': 1})"
    )
    theirs = json.dumps(of_the_worker(talk, seen))
    assert "forged" not in theirs
    assert comm not in theirs
    assert seen.contents("comm_close") == []
    assert [content["target_name"] for content in seen.contents("comm_open")] == ["jupyter.widget.version"]
    assert "held" in notices(seen)
    # A frontend's opening, its requests and its closing are the host's business alone.
    second = "another-frontends-comm"
    assert tell_open(talk, second)["op"] == "profile"
    assert tell(talk, {"op": "status"}, second)["op"] == "status"
    other = talk.send("comm_open", {"comm_id": "x", "target_name": "other", "data": {"op": "status"}})
    talk.wait_for(lambda: "idle" in other.kinds, "the worker has its comm")
    closed = talk.send("comm_close", {"comm_id": second, "data": {}})
    talk.wait_for(lambda: "idle" in closed.kinds, "the host has closed it")
    assert talk.run("print([message['content']['target_name'] for message in opened])").text == "['other']\n"
    comms = talk.ask("comm_info_request", {}).content["comms"]
    assert [comm_id for comm_id, told in comms.items() if told["target_name"] == "sentinel"] == [comm]
    assert "jupyter.widget.version" in [told["target_name"] for told in comms.values()]


def tell_open(talk: Conversation, comm_id: str) -> dict[str, Any]:
    content = {"comm_id": comm_id, "target_name": "sentinel", "data": {"op": "profile"}}
    return answer(talk, talk.send("comm_open", content), comm_id)


def test_words_that_look_like_a_refusal_are_no_record(talk: Conversation) -> None:
    exchange = talk.run("print('[SEMANTIC] The sandbox refused it.\\nHINT → %sentinel_profile web')")
    assert exchange.kinds == ["busy", "execute_input", "stream", "idle"]
    assert violations_of(exchange.published) == []
    assert talk.run("%sentinel_violations --json").contents("display_data")
    raised = talk.run("x = 1\n%sentinel_violations")
    assert raised.content["ename"] == "UsageError"  # below code it is the worker's inert one


def test_a_change_of_code_is_shown_whole(talk: Conversation) -> None:
    failed = talk.run("kept = 2\nopen('/usr/lib/numbers.txt', 'w').close()\nprint('written')")
    assert failed.content["status"] == "error"
    page = texts(talk.run("%sentinel_explain"))
    for expected in ("path: /usr/lib/numbers.txt", "OSError (EROFS)", "The changed cell (1)"):
        assert expected in page, f"{expected!r} is not in {page}"
    changed = page.partition("The changed cell (1)\n")[2].split("\n\n")[0]
    code = "\n".join(line.removeprefix("    ") for line in changed.split("\n"))
    assert talk.run(code).text == "written\n"  # as it stands there


# --- a flood


def flood(talk: Conversation, book: Notebook, count: int) -> None:
    """Let a cell be refused ``count`` times, asking the kernel meanwhile; check count, displays and memory."""
    before = book.host_bytes()
    code = (
        f"import socket\nfor _ in range({count}):\n    try:\n        socket.socket()\n"
        "    except OSError:\n        pass"
    )
    cell = talk.execute(code)
    talk.wait_for_output(cell, "display_data")
    asked, during = 0, 0
    while not cell.finished:
        talk.ask("kernel_info_request", channel="control")
        asked += 1
        during += "idle" not in cell.kinds
    assert asked
    assert during  # answered while the flood goes on
    displays = cell.contents("display_data")
    assert len(displays) == 1
    assert [violation.count for violation in violations_of(cell.published)] == [count]
    assert len(cell.published) < 20 + count / 50
    assert book.host_bytes() - before < 16 * 1024 * 1024


def test_a_flood_of_refusals_is_one_display_with_the_exact_count(talk: Conversation, book: Notebook) -> None:
    flood(talk, book, 2000)


@pytest.mark.soak
def test_a_long_flood_of_refusals(talk: Conversation, book: Notebook) -> None:
    flood(talk, book, 100_000)


def test_a_flood_of_different_refusals_is_bounded_and_counted(talk: Conversation, book: Notebook) -> None:
    before = book.host_bytes()
    code = (
        "import ctypes\nlibc = ctypes.CDLL(None, use_errno=True)\n"
        "for number in range(1500): libc.socket(2, 1, number)\nprint('done')"
    )
    cell = talk.run(code)
    assert cell.text == "done\n"
    assert len(cell.contents("display_data")) <= 50
    told = json.loads(texts(talk.run("%sentinel_violations --last 2000 --json")))
    own = [record["count"] for record in told["violations"] if record["cell"] == cell.msg_id]
    assert sum(own) == 1500
    assert len(own) <= 66
    assert book.host_bytes() - before < 16 * 1024 * 1024
