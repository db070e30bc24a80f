"""Nothing is left: not after the client has closed the connection, not after a signal, not of a kernel nobody uses."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import leaks
import pytest
from assistant import assistant
from waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.requires("user_namespaces")


class Raw:
    """The server spoken to by hand, a line at a time."""

    def __init__(self, workspace: Path) -> None:
        self.workspace = workspace
        command = [sys.executable, "-m", "sentinel_kernel.cli", "mcp", "--workspace", str(workspace)]
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            bufsize=1,
        )
        self._number = 0
        client = {"name": "raw", "version": "1"}
        told = self.ask("initialize", protocolVersion="2025-06-18", capabilities={}, clientInfo=client)
        assert told["serverInfo"]["name"] == "sentinel-kernel"
        self.send("notifications/initialized")

    def send(self, method: str, number: int | None = None, **params: Any) -> None:
        """Send a request or a notification."""
        message: dict[str, Any] = {"jsonrpc": "2.0", "method": method, "params": params}
        if number is not None:
            message["id"] = number
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(message) + "\n")
        self.process.stdin.flush()

    def ask(self, method: str, **params: Any) -> dict[str, Any]:
        """Send a request and return its result."""
        self._number += 1
        self.send(method, self._number, **params)
        assert self.process.stdout is not None
        while True:
            answer = json.loads(self.process.stdout.readline())
            if answer.get("id") == self._number:
                result: dict[str, Any] = answer["result"]
                return result

    def cell(self, code: str) -> dict[str, Any]:
        """Run a cell."""
        told = self.ask("tools/call", name="run_cell", arguments={"code": code})
        structured: dict[str, Any] = told["structuredContent"]
        return structured

    def close(self) -> None:
        """Close both ends of the connection."""
        for stream in (self.process.stdin, self.process.stdout):
            assert stream is not None
            stream.close()


@pytest.fixture
def raw(workspace: Path) -> Iterator[Raw]:
    """Yield a server with one kernel; nothing of them is left after the test."""
    before = leaks.traces()
    server = Raw(workspace)
    try:
        assert server.cell("print('up')")["stdout"] == "up\n"
        yield server
    finally:
        server.process.kill()
        server.process.wait()
        server.close()
    leaks.wait_clean(before, 30)


def kernels(server: Raw) -> set[int]:
    """Return the processes below the server: hosts, supervisors, sandboxes."""
    return leaks.descendants(server.process.pid)


def test_the_end_of_the_connection_ends_every_kernel_even_a_busy_one(raw: Raw) -> None:
    assert kernels(raw)
    raw.send("tools/call", 99, name="run_cell", arguments={"code": "print(1)\nwhile True: pass"})
    raw.close()
    assert raw.process.wait(60) == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.soak)])
def test_a_signal_ends_every_kernel(raw: Raw, number: signal.Signals) -> None:
    below = kernels(raw)
    assert below
    raw.process.send_signal(number)
    assert raw.process.wait(60) == -number
    wait_until(lambda: not below & leaks.descendants(), "the kernels have ended", 30)


def test_a_server_that_is_killed_takes_its_kernels_along(raw: Raw) -> None:
    below = kernels(raw)
    folder = next(
        name for name in os.listdir(os.environ["XDG_RUNTIME_DIR"]) if name.startswith("sentinel-mcp-")
    )
    raw.process.kill()
    raw.process.wait()
    wait_until(lambda: not below & leaks.descendants(), "the kernels have ended", 60)
    # What a killed process can't remove, the next server does.
    assert folder in os.listdir(os.environ["XDG_RUNTIME_DIR"])
    following = Raw(raw.workspace)
    try:
        assert following.cell("print('up')")["stdout"] == "up\n"
        assert folder not in os.listdir(os.environ["XDG_RUNTIME_DIR"])
    finally:
        following.close()
        assert following.process.wait(60) == 0


def test_a_kernel_that_nobody_uses_is_ended_and_the_next_call_says_so(workspace: Path) -> None:
    with assistant(workspace, "--idle-minutes", "0.02") as helper:
        assert helper.cell("kept = 1")["status"] == "ok"
        wait_until(lambda: helper.data("resource_usage")["kernels"] == [], "the kernel has ended", 60)
        told = helper.cell("print('new')")
        assert told["stdout"] == "new\n"
        assert "was ended before (it was not used for" in told["hint"]
