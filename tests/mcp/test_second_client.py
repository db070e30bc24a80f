"""A client of other people's making, in another language, lists and calls the tools: the SDK's inspector (Node.js)."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from lacking import lacking_beyond_ci

if TYPE_CHECKING:
    from pathlib import Path

INSPECTOR = "@modelcontextprotocol/inspector@2.12.0"
_SECONDS = 300

pytestmark = [pytest.mark.requires("user_namespaces"), pytest.mark.soak]

CALLS: dict[str, dict[str, str]] = {
    "run_cell": {"code": "print(6 * 7)"},
    "run_notebook": {"path": "book.ipynb"},
    "recent_violations": {"limit": "5"},
    "resource_usage": {},
    "translate_error": {"errno": "EPERM", "syscall": "socket"},
    "suggest_repair": {"syscall": "mknodat", "original_code": "import os; os.mknod('x', 0o20600, 259)"},
    "scan": {"code": "import os; os.mknod('x', 0o20600, 259)"},
    "list_profiles": {},
    "explain_profile": {"name": "strict"},
}
REFUSED = {"restart_kernel": "There is no kernel 'main'", "close_kernel": "There is no kernel 'main'"}
"""Each command is a server of its own, so that no kernel runs yet."""


@pytest.fixture(scope="module")
def command() -> list[str]:
    """Return how the inspector is started; npm installs it on first use."""
    installed = shutil.which("mcp-inspector")
    if installed is not None:
        return [installed, "--cli"]
    if shutil.which("npx") is None:
        lacking_beyond_ci("inspector", "the inspector needs Node.js (npx)")
    found = subprocess.run(
        ["npx", "--yes", INSPECTOR, "--cli", "--version"],
        capture_output=True,
        text=True,
        timeout=_SECONDS,
        check=False,
    )
    if found.returncode:
        lacking_beyond_ci("inspector", f"the inspector can't be installed: {found.stderr[-200:]}")
    return ["npx", "--yes", INSPECTOR, "--cli"]


def inspect(command: list[str], workspace: Path, *arguments: str) -> dict[str, Any]:
    """Run the inspector against a server of its own; return what it prints."""
    server = [sys.executable, "-m", "sentinel_kernel.cli", "mcp"]
    done = subprocess.run(
        [*command, "--connect-timeout", "120000", *server, *arguments],
        cwd=workspace,
        env={**os.environ, "SENTINEL_LANG": "en"},
        capture_output=True,
        text=True,
        timeout=_SECONDS,
        check=False,
    )
    start = done.stdout.find("{")
    assert start >= 0, (done.returncode, done.stdout, done.stderr[-2000:])
    printed, _ = json.JSONDecoder().raw_decode(done.stdout[start:])
    assert isinstance(printed, dict)
    return printed


def test_the_inspector_lists_every_tool(command: list[str], workspace: Path) -> None:
    tools = inspect(command, workspace, "--method", "tools/list")["tools"]
    assert {tool["name"] for tool in tools} == {*CALLS, *REFUSED}
    assert all(tool["annotations"]["title"] and tool["outputSchema"] for tool in tools)


@pytest.mark.parametrize("tool", [*CALLS, *REFUSED])
def test_the_inspector_calls_every_tool(command: list[str], workspace: Path, tool: str) -> None:
    cells = [{"cell_type": "code", "source": "print('n')", "metadata": {}, "outputs": []}]
    (workspace / "book.ipynb").write_text(
        json.dumps({"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": cells})
    )
    given = [
        word for name, value in CALLS.get(tool, {}).items() for word in ("--tool-arg", f"{name}={value}")
    ]
    told = inspect(command, workspace, "--method", "tools/call", "--tool-name", tool, *given)
    if tool in REFUSED:
        assert told["isError"] is True
        assert REFUSED[tool] in told["content"][0]["text"]
        return
    assert not told.get("isError"), told
    assert told["structuredContent"]
    if tool == "run_cell":
        assert told["structuredContent"]["stdout"] == "42\n"
