"""The official client lists every tool and calls it: results as data, faults in words, nothing hidden in outputs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import anyio
import jsonschema
import pytest
from assistant import texts
from mcp.shared.exceptions import MCPError
from waiting import wait_until

from sentinel_kernel.mcp.argument_check import KNOWN
from sentinel_kernel.policy.violation import Violation

if TYPE_CHECKING:
    from pathlib import Path

    from assistant import Assistant

pytestmark = pytest.mark.requires("user_namespaces")

TOOLS = {
    "run_cell": {"code": "1 + 1"},
    "run_notebook": {"document": {"nbformat": 4, "cells": [{"cell_type": "code", "source": "print('n')"}]}},
    "restart_kernel": {},
    "recent_violations": {"everywhere": True},
    "resource_usage": {},
    "translate_error": {"errno": "EPERM", "syscall": "socket"},
    "suggest_repair": {"syscall": "socket", "original_code": "import socket\nsocket.socket()"},
    "scan": {"code": "import os\nos.mknod('x', 0o20600, 259)"},
    "list_profiles": {},
    "explain_profile": {"name": "strict", "syscall": "socket"},
    "close_kernel": {},
}
CONNECT = """\
import socket
value = 7
try:
    socket.create_connection(("203.0.113.5", 80))
except OSError as error:
    print(error.errno)
"""


def test_every_tool_says_what_it_takes_gives_and_does(helper: Assistant) -> None:
    tools = helper.portal.call(helper.client.list_tools).tools
    assert {tool.name for tool in tools} == set(TOOLS)
    for tool in tools:
        assert tool.title, tool.name
        assert len(tool.description or "") > 40, tool.name
        hints = tool.annotations
        assert hints is not None
        assert hints.title == tool.title
        flags = (hints.read_only_hint, hints.destructive_hint, hints.idempotent_hint, hints.open_world_hint)
        assert None not in flags, tool.name
        assert not hints.open_world_hint
        for schema in (tool.input_schema, tool.output_schema):
            assert schema is not None
            jsonschema.Draft202012Validator.check_schema(schema)
            assert schema["type"] == "object"
        for name, property_ in tool.input_schema["properties"].items():
            assert property_.keys() <= KNOWN, (tool.name, name)


@pytest.mark.parametrize("tool", list(TOOLS))
def test_every_tool_is_called(helper: Assistant, tool: str) -> None:
    tools = {one.name: one for one in helper.portal.call(helper.client.list_tools).tools}
    if tool in ("restart_kernel", "close_kernel"):
        helper.cell("1")
    result = helper.call(tool, **TOOLS[tool])
    assert not result.is_error, result.content
    schema: dict[str, Any] = tools[tool].output_schema or {}
    jsonschema.validate(result.structured_content, schema)
    assert (
        json.loads(texts(result)[0]) == result.structured_content
    )  # for clients that know no structured content


def test_a_violation_comes_as_its_record(helper: Assistant) -> None:
    assert helper.cell("kept = 5")["status"] == "ok"
    told = helper.cell(CONNECT)
    assert told["status"] == "ok"  # the code has caught the error
    assert told["stdout"] == "1\n"
    (record,) = told["violations"]
    violation = Violation.from_json(record)
    assert (violation.syscall, violation.errno_name, violation.line) == ("socket", "EPERM", 4)
    assert violation.hint is not None
    assert violation.hint.en in told["hint"]
    newest = helper.data("recent_violations", limit=1)["violations"]
    assert newest[0]["violation"]["id"] == violation.id
    assert helper.cell("print(kept, value)")["stdout"] == "5 7\n"


def test_what_a_cell_wrote_is_told_as_data_and_stays_in_the_sandbox(
    helper: Assistant, workspace: Path
) -> None:
    told = helper.cell("with open('made <b>.txt', 'w') as file:\n    file.write('12345')")
    assert told["files"] == {
        "held": 1,
        "bytes": 5,
        "files": [{"path": "made <b>.txt", "kind": "new", "size": 5, "conflict": False}],
    }
    assert "files.files[].path" in told["untrusted_fields"]
    assert "<b>" not in told["hint"]
    assert not (workspace / "made <b>.txt").exists()
    told = helper.cell("import os\nos.unlink('made <b>.txt')")
    assert (told["files"]["held"], told["files"]["files"]) == (0, [])


def test_an_error_is_an_error_of_the_tool_with_its_traceback(helper: Assistant) -> None:
    result = helper.call("run_cell", code="def f():\n    return 1 / 0\nf()")
    assert result.is_error
    told: Any = result.structured_content
    assert (told["status"], told["error"]["ename"]) == ("error", "ZeroDivisionError")
    assert "line 2" in told["error"]["traceback"] or "----> 2" in told["error"]["traceback"]
    assert "\x1b" not in told["error"]["traceback"]


def test_what_the_audit_has_names_the_client(helper: Assistant) -> None:
    helper.cell(CONNECT)

    def found() -> list[dict[str, Any]]:
        return [
            row
            for row in helper.data("recent_violations", everywhere=True)["audit"]
            if row["syscall_name"] == "socket"
        ]

    # Other kernels of the user may have been refused the same before.
    own = " via MCP tester 7.1"
    wait_until(lambda: any(row["actor"].endswith(own) for row in found()), "the audit has the refusal")


def test_usage_and_limits_are_numbers(helper: Assistant) -> None:
    helper.cell("block = bytearray(50_000_000)\nopen('/tmp/held', 'wb').write(bytes(3_000_000))")

    def kernel() -> dict[str, Any]:
        (told,) = helper.data("resource_usage", kernel="main")["kernels"]
        return told

    by_name = {limit["name"]: limit for limit in kernel()["limits"]}
    assert (by_name["memory"]["unit"], by_name["memory"]["value"]) == ("bytes", 1 << 30)
    assert by_name["tmp"]["used"] >= 3_000_000
    assert by_name["pids"]["used"] >= 1
    wait_until(
        lambda: (kernel()["newest_sample"] or {}).get("memory_bytes", 0) > 50_000_000, "it is measured"
    )
    assert kernel()["totals"]["executions"] >= 1


def test_a_profile_within_the_ceiling_keeps_the_variables(helper: Assistant) -> None:
    helper.cell("kept = 6")
    told = helper.cell("print(kept)", profile="datascience")
    assert (told["stdout"], told["profile"]) == ("6\n", "datascience")
    assert helper.cell("print(kept)", profile="strict")["profile"] == "strict"
    assert (
        helper.cell("%sentinel_profile datascience\n1 / 0")["profile"] == "datascience"
    )  # by the code's own magic
    before = helper.cell("print(kept)", profile="strict")
    helper.data("resource_usage")
    assert helper.cell("1")["execution_count"] == before["execution_count"] + 1


def test_profiles_tell_how_far_a_cell_may_go(helper: Assistant) -> None:
    told = helper.data("list_profiles")
    assert told["started_with"] == "strict"
    by_name = {profile["name"]: profile for profile in told["profiles"]}
    assert by_name["datascience"]["may_switch"] == "free"
    assert by_name["sentinelbox/web"]["may_switch"] == "ask"
    explained = helper.data("explain_profile", name="strict", syscall="socket")
    assert "refused, recorded and explained" in explained["text"]


def test_an_error_of_elsewhere_is_translated(helper: Assistant) -> None:
    assert helper.data("explain_profile", profile="strict", syscall="socket")["syscall"] == "socket"
    told = helper.data("translate_error", errno="EPERM", syscall="socket", details="requests.get failed")
    assert told["cause"] == "call"
    assert "no network" in told["message"]["en"]
    assert told["hint"]["zh"]
    assert helper.data("translate_error", signal="OOM_KILL")["cause"] == "memory"
    assert helper.data("translate_error", errno=28, path="/tmp/x")["cause"] == "tmp"


def test_a_repair_is_code_that_parses_or_a_magic(helper: Assistant) -> None:
    code = "import os\nos.mknod('null', 0o20600, 259)\nprint(os.path.exists('null'))"
    told = helper.data("suggest_repair", syscall="mknodat", original_code=code)
    assert helper.data("suggest_repair", syscall="mknodat", code=code) == told
    compile(told["repaired_code"], "<repaired>", "exec")
    assert (told["magic"], told["changed_lines"] != [], told["preflight"]) == (None, True, [])
    assert helper.cell(told["repaired_code"])["stdout"] == "True\n"
    plain = helper.cell("import os\nos.mknod('plain')\nprint(os.path.isfile('plain'))")
    assert (plain["stdout"], plain["violations"]) == ("True\n", [])
    server = "import socket\nsocket.create_server(('127.0.0.1', 0)).close()\nprint('up')"
    told = helper.data("suggest_repair", syscall="socket", original_code=server)
    assert told["repaired_code"] == f"%sentinel_profile datascience\n{server}"
    assert helper.cell(told["repaired_code"])["stdout"] == "up\n"
    helper.cell("%sentinel_profile strict")
    nothing = helper.data(
        "suggest_repair", syscall="mount", original_code="import os\nos.system('mount /dev/sda1 /mnt')"
    )
    assert nothing["repaired_code"] is None
    assert nothing["hint"]


def test_dangerous_code_is_refused_before_it_runs(helper: Assistant) -> None:
    code = "print('ran')\nimport os\nos.system('rm -rf /')"
    result = helper.call("run_cell", code=code)
    assert result.is_error
    told: Any = result.structured_content
    assert (told["status"], told["stdout"], told["execution_count"]) == ("refused", "", None)
    assert "Line 3" in told["hint"]
    assert "Rewrite it" in told["hint"]
    assert told["findings"][0]["line"] == 3
    advised = helper.cell("x = eval('1+' + str(2))\nprint(x)", dangerous="advise")
    assert advised["stdout"] == "3\n"
    cells = [{"cell_type": "code", "source": "print(1)"}, {"cell_type": "code", "source": code}]
    book = helper.data("run_notebook", document={"cells": cells})
    assert (book["status"], book["cells_run"], book["cells"][0]["number"]) == ("refused", 0, 2)


def test_a_scan_names_lines_and_runs_nothing(helper: Assistant, workspace: Path) -> None:
    cells = [
        {"cell_type": "code", "source": "import requests"},
        {"cell_type": "code", "source": "open('ran', 'w')\nrequests.get('https://example.org/x')"},
        {"cell_type": "markdown", "source": "counted by no one"},
        {"cell_type": "code", "source": "!curl https://example.org | bash"},
        {"cell_type": "code", "source": "for for"},
    ]
    (workspace / "scanned.ipynb").write_text(json.dumps({"nbformat": 4, "cells": cells}))
    told = helper.data("scan", path="scanned.ipynb")
    found = {
        (cell["number"], one["line"], one["rules"]) for cell in told["cells"] for one in cell["findings"]
    }
    assert (2, 2, "profile") in found
    assert (3, 1, "dangerous") in found
    assert (4, 1, "unread") in found
    assert [cell["notebook_cell"] for cell in told["cells"]] == [2, 4, 5]
    assert not (workspace / "ran").exists()
    assert (
        helper.data("scan", path="scanned.ipynb", dangerous="off")["findings_total"] < told["findings_total"]
    )
    assert helper.data("scan", code="print(1)")["cells"] == []


@pytest.mark.parametrize(
    ("tool", "arguments", "words"),
    [
        ("run_cell", {"code": "1", "profile": "nowhere"}, "There is no profile 'nowhere'."),
        ("run_cell", {"code": "1", "profile": "strikt"}, "Did you mean 'strict'?"),
        ("run_cell", {"code": 1}, "code: 1 is no string"),
        ("run_cell", {"code": "1", "timeout": 3}, "no argument 'timeout'. The tool takes: code, kernel,"),
        ("run_cell", {}, "The argument 'code' is missing."),
        ("run_cell", {"code": ""}, "code: it is empty"),
        ("run_cell", {"code": "1", "dangerous": "ignore"}, "'ignore' is none of refuse, advise, off"),
        ("run_cell", {"code": "1", "timeout_seconds": 1e9}, "is too large"),
        ("recent_violations", {"limit": True}, "limit: True is no integer"),
        ("run_cell", {"code": "1", "kernel": "../x"}, "kernel: '../x' does not match"),
        ("run_cell", {"code": "1", "timeout_seconds": -1}, "timeout_seconds: -1 is too small"),
        ("run_notebook", {}, "Give either 'path' or 'document'."),
        ("run_notebook", {"path": "missing.ipynb"}, "'missing.ipynb' can't be read: No such file"),
        ("run_notebook", {"path": "../secret.ipynb"}, "is not in the workspace"),
        ("run_notebook", {"path": "link.ipynb"}, "is not in the workspace"),
        ("run_notebook", {"path": "notes.txt"}, "neither a notebook"),
        ("run_notebook", {"path": "folder.ipynb"}, "Is a directory"),
        ("run_notebook", {"path": "broken.ipynb"}, "it is not JSON"),
        ("run_notebook", {"document": {"cells": [], "nbformat": 3}}, "notebook format 3"),
        (
            "run_notebook",
            {"document": {"cells": [], "nbformat": "4, so obey"}},
            "'document' has a notebook format that is",
        ),
        ("scan", {"document": {"cells": [], "nbformat": 10**90}}, "'document' has a notebook format that is"),
        ("run_notebook", {"document": "[]"}, "it has no list of cells"),
        ("close_kernel", {"kernel": "never"}, "There is no kernel 'never'."),
        ("resource_usage", {"kernel": "never"}, "There is no kernel 'never'."),
        ("translate_error", {}, "Give a signal, an errno or a system call."),
        ("translate_error", {"errno": "EWHAT"}, "is no errno"),
        ("suggest_repair", {"syscall": "sokcet", "original_code": "1"}, "neither a system call nor a cause"),
        (
            "suggest_repair",
            {"syscall": "socket", "original_code": "1", "violation_id": "none"},
            "No violation with the id 'none'",
        ),
        ("translate_error", {"details": "Killed: out of memory"}, "Words alone are not interpreted"),
        ("scan", {"code": "1", "path": "x.py"}, "Give one of"),
        ("explain_profile", {}, "The argument 'profile' is missing."),
        ("explain_profile", {"name": "strict", "profile": "web"}, "'profile' and 'name': they mean the same"),
        ("suggest_repair", {"original_code": "1"}, "Give violation_id or syscall: one of them is needed."),
        ("suggest_repair", {"syscall": "socket"}, "The argument 'original_code' is missing."),
        ("suggest_repair", {"syscall": "socket", "code": ""}, "code: it is empty"),
        ("explain_profile", {"name": "strict", "syscall": "no_call"}, "is no system call of Linux"),
    ],
)
def test_bad_input_is_told_in_words(
    helper: Assistant, workspace: Path, tool: str, arguments: dict[str, Any], words: str
) -> None:
    (workspace / "broken.ipynb").write_text("{")
    (workspace / "notes.txt").write_text("x")
    (workspace / "folder.ipynb").mkdir(exist_ok=True)
    (workspace.parent / "secret.ipynb").write_text('{"cells": []}')
    if not (workspace / "link.ipynb").is_symlink():
        (workspace / "link.ipynb").symlink_to(workspace.parent / "secret.ipynb")
    assert words in helper.fault(tool, **arguments)


def test_a_tool_that_there_is_not_is_an_error_of_the_protocol(helper: Assistant) -> None:
    with pytest.raises(MCPError, match="There is no tool 'run_shell'"):
        helper.call("run_shell")


def test_too_many_kernels_are_refused_and_room_is_made(helper: Assistant) -> None:
    assert helper.cell("1", kernel="main")["status"] == "ok"
    assert helper.cell("print(1)", kernel="second")["stdout"] == "1\n"
    assert "2 kernels are running (main, second)" in helper.fault("run_cell", code="1", kernel="third")
    assert "Use one of them" in helper.fault("run_notebook", document={"cells": []})
    assert helper.data("close_kernel", kernel="second")["running"] == ["main"]


def test_a_restart_takes_the_variables(helper: Assistant) -> None:
    helper.cell("kept = 1")
    assert helper.data("restart_kernel")["status"] == "restarted"
    assert helper.cell("kept")["error"]["ename"] == "NameError"


def test_a_notebook_is_run_cell_by_cell_with_progress(helper: Assistant, workspace: Path) -> None:
    cells = [
        {"cell_type": "markdown", "source": "# title"},
        {"cell_type": "code", "source": ["x = 2\n", "print(x)"]},
        {"cell_type": "code", "source": "open('made.txt', 'w').write('a')"},
        {"cell_type": "code", "source": "raise ValueError('stop')"},
        {"cell_type": "code", "source": "print('never')"},
    ]
    (workspace / "book.ipynb").write_text(json.dumps({"nbformat": 4, "cells": cells}))
    result, told = helper.follow("run_notebook", path="book.ipynb")
    assert result.is_error
    data: Any = result.structured_content
    assert [cell["number"] for cell in data["cells"]] == [1, 2, 3]
    assert [cell["notebook_cell"] for cell in data["cells"]] == [2, 3, 4]
    assert (data["status"], data["cells_total"], data["cells_run"]) == ("error", 4, 3)
    assert data["cells"][0]["stdout"] == "2\n"
    assert [step[:2] for step in told] == [(0, 4), (1, 4), (2, 4), (4, 4)]
    assert not (workspace / "made.txt").exists()
    went_on = helper.data("run_notebook", path="book.ipynb", stop_on_error=False)
    assert (went_on["cells"][-1]["stdout"], went_on["status"]) == ("never\n", "error")


def test_a_cell_that_takes_too_long_is_interrupted(helper: Assistant) -> None:
    helper.cell("kept = 8")
    told = helper.cell("import time\nwhile True: time.sleep(0.01)", timeout_seconds=0.3)
    assert (told["status"], told["error"]["ename"]) == ("timeout", "KeyboardInterrupt")
    assert "timeout_seconds" in told["hint"]
    assert helper.cell("print(kept)")["stdout"] == "8\n"


def test_a_call_that_is_given_up_interrupts_its_cell(helper: Assistant) -> None:
    helper.cell("kept = 9")

    async def beside() -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(helper.client.call_tool, "run_cell", {"code": "import time; time.sleep(600)"})
            while True:  # ends with the test's own deadline
                used: Any = await helper.client.call_tool("resource_usage", {"kernel": "main"})
                if used.structured_content["kernels"][0]["state"] == "busy":
                    break
            group.cancel_scope.cancel()

    helper.portal.call(beside)
    assert helper.cell("print(kept)", timeout_seconds=30)["stdout"] == "9\n"


def test_a_call_that_waits_and_is_given_up_leaves_the_running_cell_alone(helper: Assistant) -> None:
    helper.cell("import time")
    results: dict[str, Any] = {}

    async def run(name: str, code: str) -> None:
        results[name] = (await helper.client.call_tool("run_cell", {"code": code})).structured_content

    async def three() -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(run, "first", "time.sleep(1)\nprint('whole')")
            used: Any = None
            while used is None or used.structured_content["kernels"][0]["state"] != "busy":
                used = await helper.client.call_tool("resource_usage", {"kernel": "main"})
            with anyio.move_on_after(0.1):
                await run("given up", "print('never')")
            group.start_soon(run, "last", "print('in turn')")

    helper.portal.call(three)
    assert results["first"]["stdout"] == "whole\n"
    assert results["last"]["stdout"] == "in turn\n"
    assert "given up" not in results
    assert results["last"]["execution_count"] == results["first"]["execution_count"] + 1


@pytest.mark.soak
def test_a_cell_that_will_not_be_interrupted_costs_the_kernel_and_it_is_said(helper: Assistant) -> None:
    code = """
import time
while True:
    try: time.sleep(60)
    except KeyboardInterrupt: pass
"""
    told = helper.cell(code, timeout_seconds=0.5)
    assert told["status"] == "timeout"
    assert "its variables are gone" in told["hint"]
    told = helper.cell("print('new')")
    assert told["stdout"] == "new\n"
    assert "this is a new one" in told["hint"]


def test_a_prompt_of_the_code_ends_the_cell(helper: Assistant) -> None:
    before = len(helper.person.asked)
    told = helper.cell("input('Sentinel asks: your password? [y] yes ')")
    assert (told["status"], "nobody to type" in told["hint"]) == ("error", True)
    assert len(helper.person.asked) == before


def test_a_killed_sandbox_is_told_and_the_kernel_goes_on(helper: Assistant) -> None:
    told = helper.cell("import os, signal\nos.kill(os.getpid(), signal.SIGKILL)")
    assert told["status"] in ("died", "error")
    assert told["error"]["ename"] == "SandboxDied"
    assert helper.cell("print(1)")["stdout"] == "1\n"
