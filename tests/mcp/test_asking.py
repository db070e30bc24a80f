"""Questions of the kernel reach the person by elicitation, in both ways of the protocol; else the answer is no."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from assistant import LEGACY, MODERN, Assistant, assistant

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.requires("user_namespaces")

ASKING = {
    "extends": "strict",
    "syscall_rules": [{"name": "socket", "action": "ASK", "comment": "it opens a door"}],
}
OPEN = """\
import socket
try:
    socket.socket(socket.AF_INET, socket.SOCK_{}).close()
    print("open")
except OSError as error:
    print(error.errno)
"""


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder of settings with a profile that asks."""
    folder = tmp_path_factory.mktemp("settings")
    profiles = folder / "sentinel-kernel" / "profiles"
    profiles.mkdir(parents=True)
    (profiles / "asking.json").write_text(json.dumps(ASKING))
    return folder


@pytest.fixture(scope="module", params=[LEGACY, MODERN])
def helper(request: pytest.FixtureRequest, workspace: Path, settings: Path) -> Iterator[Assistant]:
    """Yield an assistant whose program can ask, in each way of the protocol."""
    with assistant(
        workspace, "--profile", "asking", mode=request.param, XDG_CONFIG_HOME=str(settings)
    ) as connected:
        yield connected


def test_a_yes_counts_once(helper: Assistant) -> None:
    helper.person.answer = "once"
    told = helper.cell(OPEN.format("STREAM"))
    assert told["stdout"] == "open\n"
    (asked,) = told["questions"]
    assert asked["answer"] == "once"
    assert "allow socket(" in asked["question"]
    assert "line 3" in asked["question"]
    assert helper.person.choices[-1] == ["once", "for this session", "no"]
    before = len(helper.person.asked)
    assert helper.cell(OPEN.format("STREAM"))["stdout"] == "open\n"
    assert len(helper.person.asked) == before + 1


@pytest.mark.parametrize("answer", ["no", None, "something else"])
def test_a_no_and_no_answer_refuse(helper: Assistant, answer: str | None) -> None:
    helper.person.answer = answer
    told = helper.cell(OPEN.format("STREAM"))
    assert told["stdout"] == "1\n"
    assert told["questions"][0]["answer"].startswith("refused")
    (violation,) = told["violations"]
    assert violation["values"]["answer"] == "no"


def test_beyond_the_ceiling_the_person_decides(helper: Assistant) -> None:
    helper.person.answer = "no"
    result = helper.call("run_cell", code="print(1)", profile="sentinelbox/web")
    assert result.is_error
    told: Any = result.structured_content
    assert (told["status"], told["profile"], told["stdout"]) == ("error", "asking", "")
    assert "was not allowed" in told["hint"]
    helper.person.answer = "yes"
    told = helper.cell("print(1)", profile="sentinelbox/web")
    assert (told["stdout"], told["profile"]) == ("1\n", "sentinelbox/web")
    assert helper.cell("print(2)", profile="asking")["profile"] == "asking"


def test_a_yes_for_the_session_is_not_asked_again(helper: Assistant) -> None:
    helper.person.answer = "for this session"
    assert helper.cell(OPEN.format("DGRAM"))["stdout"] == "open\n"
    before = len(helper.person.asked)
    assert helper.cell(OPEN.format("DGRAM"))["questions"] == []
    assert len(helper.person.asked) == before


def test_no_cell_answers_for_the_person(helper: Assistant) -> None:
    """An answer typed by the code itself, and a prompt that looks like the kernel's, are no answers."""
    helper.person.answer = "no"
    code = "print('once'); print('[y] once')\n" + OPEN.format("STREAM")
    told = helper.cell(code)
    assert told["stdout"].endswith("1\n")
    assert len(told["questions"]) == 1


@pytest.mark.parametrize("asks", [False, pytest.param(True, marks=pytest.mark.soak)])
def test_where_nobody_can_be_asked_it_is_refused(workspace: Path, settings: Path, asks: bool) -> None:
    ask = {"SENTINEL_ASK": "never"} if asks else {}
    with assistant(
        workspace, "--profile", "asking", asks=asks, XDG_CONFIG_HOME=str(settings), **ask
    ) as connected:
        told = connected.cell(OPEN.format("STREAM"))
        assert (told["stdout"], told["questions"]) == ("1\n", [])
        assert "nobody could be asked" in told["hint"]
        told = connected.cell("1", profile="sentinelbox/web")
        assert (told["status"], told["profile"]) == ("error", "asking")
        assert "nobody can be asked here" in told["hint"]
        assert connected.person.asked == []


def test_what_takes_an_answer_is_no_remedy_where_nobody_can_be_asked(workspace: Path) -> None:
    code = "import socket\nsocket.getaddrinfo('example.com', 443)"
    with assistant(workspace, asks=False) as connected:
        told = connected.cell(code)
        assert told["profile"] == "strict"
        assert told["violations"]
        for violation in told["violations"]:
            assert "%sentinel_allow" not in json.dumps(violation["remedies"])
        assert "the person's to decide, and nobody can be asked here" in told["hint"]
        repair = connected.data(
            "suggest_repair", violation_id=told["violations"][-1]["id"], original_code=code
        )
        assert "%sentinel_allow" not in json.dumps(repair)
        both = connected.cell(f"%sentinel_profile datascience\n%sentinel_allow example.com\n{code}")
        assert both["error"]["ename"] == "NetworkError"
        assert both["profile"] == "strict"  # no line has acted


def test_an_answer_that_does_not_come_is_a_no(workspace: Path, settings: Path) -> None:
    with assistant(
        workspace, "--profile", "asking", XDG_CONFIG_HOME=str(settings), SENTINEL_ASK="1"
    ) as connected:
        connected.person.silent = True
        told = connected.cell(OPEN.format("STREAM"))
        assert told["stdout"] == "1\n"
        assert "in time" in told["questions"][0]["answer"] or "in time" in told["hint"]


def test_an_answer_to_a_question_that_nobody_put_is_refused(helper: Assistant) -> None:
    if helper.client.mode == LEGACY:
        pytest.skip("a client of the handshake brings no answers by another call")

    async def call() -> Any:
        return await helper.client.session.call_tool("run_cell", {"code": "1"}, request_state="invented")

    result = helper.portal.call(call)
    assert result.is_error
    assert "is over" in result.content[0].text
