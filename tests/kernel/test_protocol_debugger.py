"""The debugger panel's messages and subshells; plain ipykernel and Sentinel are asked the same."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from conversation import Conversation, Exchange

pytestmark = pytest.mark.requires("user_namespaces", "overlay", "fresh_proc", "notifications")

CODE = """def add(a, b):
    total = a + b
    return total

table = {'answer': 42}
result = add(2, 3)
print('result', result)"""


class Debugger:
    """Speaks the debug adapter protocol through debug_request, as JupyterLab does."""

    def __init__(self, talk: Conversation) -> None:
        self.talk = talk
        self._seq = 0

    def ask(self, command: str, **arguments: Any) -> dict[str, Any]:
        self._seq += 1
        content = {"type": "request", "seq": self._seq, "command": command, "arguments": arguments}
        answer: dict[str, Any] = self.talk.ask("debug_request", content, channel="control").content
        assert answer.get("success"), answer
        body: dict[str, Any] = answer.get("body") or {}
        return body

    def stopped(self, cell: Exchange) -> dict[str, Any]:
        """Wait for the stop that follows, and return it."""

        def found() -> list[dict[str, Any]]:
            every = [
                *self.talk.others,
                *cell.published,
                *(e for x in self.talk.exchanges.values() for e in x.published),
            ]
            return [m for m in every if m["msg_type"] == "debug_event" and m["content"]["event"] == "stopped"]

        self.talk.wait_for(found, "a stop")
        content: dict[str, Any] = found()[-1]["content"]
        return content


@pytest.fixture
def debugger(talk: Conversation) -> Iterator[Debugger]:
    debugger = Debugger(talk)
    capabilities = debugger.ask(
        "initialize",
        clientID="test",
        clientName="test",
        adapterID="",
        pathFormat="path",
        linesStartAt1=True,
        columnsStartAt1=True,
        supportsVariableType=True,
    )
    assert capabilities["supportsSetVariable"] is True
    debugger.ask("attach")
    yield debugger
    debugger.ask("disconnect", restart=False, terminateDebuggee=False)


def test_a_cell_stops_at_its_breakpoint_shows_its_variables_and_goes_on(
    talk: Conversation, debugger: Debugger
) -> None:
    path = debugger.ask("dumpCell", code=CODE)["sourcePath"]
    [point] = debugger.ask(
        "setBreakpoints", source={"path": path}, breakpoints=[{"line": 2}], sourceModified=False
    )["breakpoints"]
    assert (point["verified"], point["line"]) == (True, 2)
    debugger.ask("configurationDone")
    cell = talk.execute(CODE)
    stop = debugger.stopped(cell)
    assert stop["body"]["reason"] == "breakpoint"
    thread = stop["body"]["threadId"]
    frame = debugger.ask("stackTrace", threadId=thread)["stackFrames"][0]
    assert (frame["name"], frame["line"], frame["source"]["path"]) == ("add", 2, path)
    assert debugger.ask("source", source={"path": path})["content"] == CODE
    scopes = {scope["name"]: scope for scope in debugger.ask("scopes", frameId=frame["id"])["scopes"]}
    reference = scopes["Locals"]["variablesReference"]
    variables = debugger.ask("variables", variablesReference=reference)["variables"]
    assert {item["name"]: item["value"] for item in variables} == {"a": "2", "b": "3"}
    rich = debugger.ask("richInspectVariables", variableName="a", frameId=frame["id"])
    assert rich["data"]["text/plain"] == "2"
    debugger.ask("setVariable", variablesReference=reference, name="b", value="40")
    debugger.ask("next", threadId=thread)
    assert not cell.finished
    debugger.ask("setBreakpoints", source={"path": path}, breakpoints=[], sourceModified=False)
    debugger.ask("continue", threadId=thread)
    assert talk.finish(cell).text == "result 42\n"
    info = debugger.ask("debugInfo")
    assert (info["isStarted"], info["hashMethod"], info["richRendering"]) == (True, "Murmur2", True)
    assert path.startswith(info["tmpFilePrefix"])


def test_variables_are_inspected_without_a_stop(talk: Conversation, debugger: Debugger) -> None:
    talk.run("import pandas\nframe = pandas.DataFrame({'column': [1, 2]})")
    names = {item["name"] for item in debugger.ask("inspectVariables")["variables"]}
    assert "frame" in names
    rich = debugger.ask("richInspectVariables", variableName="frame")
    assert "<table" in rich["data"]["text/html"]


def test_subshells_run_beside_a_busy_shell(talk: Conversation) -> None:
    assert talk.ask("list_subshell_request", channel="control").content["subshell_id"] == []
    made = [talk.ask("create_subshell_request", channel="control").content["subshell_id"] for _ in range(2)]
    listed = talk.ask("list_subshell_request", channel="control").content["subshell_id"]
    assert sorted(listed) == sorted(made)
    talk.run("import threading\nmet = threading.Barrier(3)")
    # Each waits for the two others: they end only if all three run at once.
    cells = [talk.execute("place = met.wait()", subshell=name) for name in (None, *made)]
    for cell in cells:
        assert talk.finish(cell).content["status"] == "ok"
        assert cell.kinds == ["busy", "execute_input", "idle"]
    complete = talk.ask("complete_request", {"code": "thread", "cursor_pos": 6}, subshell=made[0])
    assert "threading" in complete.content["matches"]
    for name in made:
        assert (
            talk.ask("delete_subshell_request", {"subshell_id": name}, channel="control").content["status"]
            == "ok"
        )
    assert talk.ask("list_subshell_request", channel="control").content["subshell_id"] == []


def test_an_error_in_a_subshell_aborts_nothing_in_the_others(talk: Conversation) -> None:
    name = talk.ask("create_subshell_request", channel="control").content["subshell_id"]
    talk.run("import threading\ngo = threading.Event()")
    blocked, behind = talk.execute("go.wait()"), talk.execute("print('behind')")
    failing = talk.finish(talk.execute("1/0", subshell=name))
    assert failing.content["ename"] == "ZeroDivisionError"
    talk.finish(talk.execute("go.set()", subshell=name))
    assert talk.finish(blocked).content["status"] == "ok"
    assert talk.finish(behind).text == "behind\n"
    talk.ask("delete_subshell_request", {"subshell_id": name}, channel="control")


def test_an_unknown_subshell_is_an_error_and_not_a_silence(talk: Conversation) -> None:
    cell = talk.execute("print('nowhere')", subshell="no-such-subshell")
    assert talk.finish(cell).content["status"] == "error"
    deleted = talk.ask("delete_subshell_request", {"subshell_id": "no-such"}, channel="control")
    assert deleted.content["status"] == "error"
    assert talk.run("print('on')").text == "on\n"


def test_a_profile_without_sockets_answers_the_debugger_with_what_to_do(ours: Conversation) -> None:
    request = {"type": "request", "command": "initialize", "arguments": {"adapterID": ""}}
    ours.run("%sentinel_profile strict")
    try:
        answer = ours.ask("debug_request", {**request, "seq": 1}, channel="control").content
        assert (answer["success"], answer["request_seq"], answer["command"]) == (False, 1, "initialize")
        assert "%sentinel_profile datascience" in answer["message"]
    finally:
        ours.run("%sentinel_profile datascience")
    # The same kernel's debugger starts once the profile in force lets it.
    debugger = Debugger(ours)
    debugger.ask("initialize", adapterID="", pathFormat="path")
    debugger.ask("attach")
    debugger.ask("disconnect", restart=False, terminateDebuggee=False)
