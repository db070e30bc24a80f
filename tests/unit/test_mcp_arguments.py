"""Arguments that have two names: either will do, and the schema tells both."""

from __future__ import annotations

import asyncio
import threading
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest
from sample_violations import occurred

from sentinel_kernel.errors import SentinelError
from sentinel_kernel.mcp import repair_tools
from sentinel_kernel.mcp.argument_check import by_one_name, check_arguments
from sentinel_kernel.mcp.recent import Recent
from sentinel_kernel.mcp.server import McpServer
from sentinel_kernel.mcp.tool_list import TOOLS
from sentinel_kernel.mcp.tool_schemas import ALIASES
from sentinel_kernel.policy.leeway import Leeway
from sentinel_kernel.policy.profile import load_profile

if TYPE_CHECKING:
    from sentinel_kernel.mcp.asking import Job

_PAIRS = [(tool, alias, name) for tool, names in ALIASES.items() for alias, name in names.items()]


@pytest.mark.parametrize("kernel", ["a\n", "a\n\n", "\na", "a b", "../a", "a" * 41, ""])
def test_a_kernels_name_is_letters_and_digits_to_its_end(kernel: str) -> None:
    (schema,) = (one.input_schema for one in TOOLS if one.name == "run_cell")
    check_arguments(schema, {"code": "1", "kernel": "a" * 40})
    with pytest.raises(SentinelError, match="kernel: "):
        check_arguments(schema, {"code": "1", "kernel": kernel})


@pytest.mark.parametrize(("tool", "alias", "name"), _PAIRS)
def test_either_name_will_do_and_both_are_in_the_schema(tool: str, alias: str, name: str) -> None:
    (schema,) = (one.input_schema for one in TOOLS if one.name == tool)
    assert {alias, name} <= schema["properties"].keys()
    assert name in schema["properties"][alias]["description"]
    assert "anyOf" not in schema
    rest = dict.fromkeys(schema["required"], "socket")
    for given in (alias, name):
        check_arguments(schema, {**rest, given: "strict"})
        assert by_one_name({**rest, given: "strict"}, ALIASES[tool]) == {**rest, name: "strict"}
    with pytest.raises(SentinelError, match=f"The argument '{name}' is missing"):
        by_one_name(rest, ALIASES[tool])
    with pytest.raises(SentinelError, match="they mean the same"):
        by_one_name({alias: "strict", name: "strict"}, ALIASES[tool])


def test_a_repair_is_asked_for_by_the_violation_alone_or_by_the_call(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (schema,) = (one.input_schema for one in TOOLS if one.name == "suggest_repair")
    code = {"original_code": "1"}
    for given in ({"violation_id": "v"}, {"syscall": "socket"}, {}):
        check_arguments(schema, {**code, **given})
    assert "violation_id" in schema["properties"]["syscall"]["description"]
    violation = occurred("memory")
    recent = Recent()
    recent.add("main", [violation.to_json()])
    check: Any = SimpleNamespace(known_profile=str, found=lambda *_: [])
    pool: Any = SimpleNamespace(kernels=[])
    profiles: Any = SimpleNamespace(settings=dict)
    tools = repair_tools.RepairTools(pool, profiles, check, recent, "en")
    monkeypatch.setattr(
        repair_tools, "leeway_in_force", lambda *_: Leeway(profiles=(load_profile("strict"),))
    )
    job = cast("Job", SimpleNamespace(can_ask=True))
    told = asyncio.run(tools.suggest_repair(job, {**code, "violation_id": violation.id}))
    assert told.content["cause"] == "memory"
    with pytest.raises(SentinelError, match="Give violation_id or syscall"):
        asyncio.run(tools.suggest_repair(job, code))


@pytest.mark.parametrize(("language", "words"), [("en", "does not parse"), ("zh", "无法作为单元格解析")])
def test_no_repair_is_returned_that_does_not_parse(
    language: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A part of a cell stays one with a line on top of it."""
    check: Any = SimpleNamespace(known_profile=str, found=lambda *_: [])
    pool: Any = SimpleNamespace(kernels=[])
    profiles: Any = SimpleNamespace(settings=dict)
    tools = repair_tools.RepairTools(pool, profiles, check, Recent(), language)
    leeway = Leeway(profiles=tuple(map(load_profile, ("strict", "datascience"))))
    monkeypatch.setattr(repair_tools, "leeway_in_force", lambda *_: leeway)
    job = cast("Job", SimpleNamespace(can_ask=True))

    def told(code: str) -> Any:
        asked = {"original_code": code, "syscall": "socket", "profile": "strict"}
        return asyncio.run(tools.suggest_repair(job, asked)).content

    server = "import socket\ns = socket.create_server(('127.0.0.1', 0))"
    whole = told(server)
    assert whole["repaired_code"] == f"%sentinel_profile datascience\n{server}"
    part = told(f"{server}\nwith s:")
    assert part["repaired_code"] is None
    assert words in part["hint"]
    assert whole["hint"] in part["hint"]
    below_a_magic = told(f"%%time\n{server}")["repaired_code"]
    assert below_a_magic == f"%sentinel_profile datascience\n%%time\n{server}"


def test_a_tool_that_fails_on_what_it_was_given_answers_with_an_error() -> None:
    """The model reads it, and the server goes on; the message holds no word of what was given."""

    async def tool(*_: object) -> Any:
        raise ValueError("<what was given>")

    server, job = cast("McpServer", None), cast("Job", SimpleNamespace(tool="scan"))
    answer = asyncio.run(McpServer._work(server, tool, job, {}))
    assert answer.is_error
    assert [getattr(part, "text", "") for part in answer.content] == [
        "scan failed on what it was given: ValueError."
    ]


def test_code_is_read_beside_the_loop_that_answers_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    """Long code takes a second or more; whoever calls meanwhile does not wait for it."""
    threads = []

    def noted(*_: object, **__: object) -> Any:
        threads.append(threading.current_thread())
        raise repair_tools.UnknownError("no such call")

    monkeypatch.setattr(repair_tools, "suggest_repair", noted)
    check: Any = SimpleNamespace(known_profile=str, refusals=noted)
    pool: Any = SimpleNamespace(kernels=[])
    profiles: Any = SimpleNamespace(settings=dict)
    tools = repair_tools.RepairTools(pool, profiles, check, cast("Recent", None), "en")
    job = cast("Job", SimpleNamespace(can_ask=True, while_wanted=iter))
    monkeypatch.setattr(repair_tools, "leeway_in_force", lambda *_: None)
    with pytest.raises(SentinelError, match="no such call"):
        asyncio.run(
            tools.suggest_repair(job, {"original_code": "", "syscall": "socket", "profile": "strict"})
        )
    with pytest.raises(repair_tools.UnknownError):
        asyncio.run(tools.scan(job, {"code": "", "profile": "strict"}))
    assert len(threads) == 2
    assert threading.main_thread() not in threads
