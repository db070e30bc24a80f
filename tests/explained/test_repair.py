"""The first remedy of what a real kernel refuses, applied to the letter, makes the cell print what it is for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from live_kernel import notebook

from sentinel_kernel.policy.mime import VIOLATION_TYPE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from live_kernel import Notebook, Result


@pytest.fixture(scope="module")
def strict(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Notebook]:
    """Return a kernel that all cases share; each takes back what it changed."""
    with notebook(tmp_path_factory.mktemp("kernel"), SENTINEL_PROFILE="strict") as book:
        yield book


CASES = {
    "null device": """
import os, stat
os.mknod("null", stat.S_IFCHR | 0o600, os.makedev(1, 3))
print("DONE", open("null").read() == "")
""",
    "pair of sockets": """
import socket
a, b = socket.socketpair(socket.AF_INET, socket.SOCK_STREAM)
a.send(b"hi")
print("DONE", b.recv(2) == b"hi")
""",
    "priority": """
import os
os.setpriority(os.PRIO_USER, os.getuid(), 0)
print("DONE", os.getpriority(os.PRIO_PROCESS, 0) == 0)
""",
    "server inside": """
import socket
with socket.create_server(("127.0.0.1", 0)) as server:
    with socket.create_connection(server.getsockname()):
        print("DONE", True)
""",
    "timed cell": """
%%time
import socket
print("DONE", socket.socket().family.name == "AF_INET")
""",
    "memory": """
x = bytearray(1_500_000_000)
print("DONE", len(x) == 1_500_000_000)
del x
""",
    "open files": """
files = [open("/dev/null") for _ in range(6000)]
print("DONE", len(files) == 6000)
del files
""",
    "wall clock": """
import time
time.sleep(2.5)
print("DONE", True)
""",
}
BEFORE = {"wall clock": "%sentinel_limit wall=1"}
AFTER = "%sentinel_limit memory=profile open_files=profile wall=profile\n%sentinel_profile strict"


@pytest.mark.soak  # the corpus tries some of each kind every time
@pytest.mark.parametrize("case", CASES)
def test_the_first_remedy_makes_the_cell_run(strict: Notebook, case: str) -> None:
    code = CASES[case].lstrip()
    if case in BEFORE:
        strict.run(BEFORE[case])
    try:
        before = strict.run(code)
        assert "DONE" not in before.text
        record = newest(before)
        assert record["remedies"], record["hint"]
        after = strict.run(applied(record["remedies"][0], code))
        assert "DONE True" in after.text.splitlines(), (record["remedies"][0], after.outputs)
    finally:
        strict.run(AFTER)


def newest(result: Result) -> dict[str, Any]:
    """Return the last state of the only record of a cell."""
    records = [
        content["data"][VIOLATION_TYPE]
        for kind, content in result.outputs
        if kind in ("display_data", "update_display_data") and VIOLATION_TYPE in content["data"]
    ]
    assert len({record["id"] for record in records}) == 1, result.outputs
    found: dict[str, Any] = records[-1]
    return found


def applied(remedy: dict[str, Any], code: str) -> str:
    """Return the cell as somebody has it who follows the remedy without thinking."""
    if remedy["kind"] == "magic":
        return f"{remedy['text']}\n{code}"
    assert remedy["kind"] == "code"
    return str(remedy["code"])
