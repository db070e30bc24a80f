"""What a person has set with `%sentinel_limit` outlives every sandbox of a kernel, and ends with a restart."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING, Any

import leaks
import pytest
from live_kernel import SECONDS, Notebook, notebook
from waiting import wait_until

from sentinel_kernel.policy.mime import LIMITS_TYPE

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.sandbox, pytest.mark.requires("user_namespaces", "overlay")]

KILLED = "import ctypes\nctypes.CDLL(None).ptrace(0, 0, 0, 0)"
INSIDE = "import resource\nprint(resource.getrlimit(resource.RLIMIT_NOFILE)[0])"


def _limit(book: Notebook, name: str) -> dict[str, Any]:
    """Return what the page says of a limit."""
    [page] = book.run("%sentinel_limit").bundles(LIMITS_TYPE)
    found: dict[str, Any] = next(one for one in page["limits"] if one["name"] == name)
    return found


def _supervisor() -> int:
    """Return the supervisor; the audit's writer is a fork of it, and younger."""
    return min(pid for pid in leaks.descendants() if b"supervisor/__main__.py" in _command(pid))


def _command(pid: int) -> bytes:
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return file.read()
    except OSError:
        return b""


def _end_supervisor(book: Notebook) -> None:
    before = _supervisor()
    os.kill(before, signal.SIGKILL)
    wait_until(lambda: not _command(before), "the supervisor has ended", SECONDS)
    assert book.run("1").reply["status"] in ("ok", "error")  # the cell that meets the death says so


def test_own_limits_outlive_sandboxes_and_end_with_a_restart(tmp_path: Path) -> None:
    with notebook(tmp_path) as book:
        of_profile = book.run(INSIDE).text
        told = book.run("%sentinel_limit open_files=300 wall=300").bundles("text/plain")[0]
        assert "a restart of the kernel goes back to the profile's" in told
        for end in (
            lambda: book.run("%sentinel_reset"),
            lambda: book.run(KILLED),
            lambda: _end_supervisor(book),
        ):
            end()
            assert (_limit(book, "open_files")["value"], book.run(INSIDE).text) == (300, "300\n")
            assert _limit(book, "wall") | {"used": None} == {
                "name": "wall", "field": "wall_seconds", "unit": "seconds", "value": 300, "used": None,
                "ceiling": None, "own": True, "held": True,
            }  # fmt: skip
        supervisor = _supervisor()
        book.manager.restart_kernel()
        book.client.wait_for_ready(timeout=SECONDS)
        assert book.run(INSIDE).text == of_profile != "300\n"
        assert not _limit(book, "wall")["own"]
        assert _supervisor() == supervisor  # it had made ready what the next host asks for
