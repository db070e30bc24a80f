"""What finds the lines of refusals harms nobody: neither who has given up its handler, nor a flood in threads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from live_kernel import Notebook, notebook

from sentinel_kernel.kernel.output_rule import VIOLATION_TYPE

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [
    pytest.mark.sandbox,
    pytest.mark.requires("user_namespaces", "overlay", "fresh_proc", "notifications"),
]

SWALLOWED = """\
import socket

def attempt():
    try:
        socket.socket(socket.AF_INET)
    except OSError:
        pass
"""


@pytest.fixture
def book(tmp_path: Path) -> Iterator[Notebook]:
    with notebook(tmp_path) as book:
        yield book


def last_state(book: Notebook, code: str) -> dict[str, Any]:
    """Run a cell and return its violation as it is shown in the end."""
    shown = [
        content["data"][VIOLATION_TYPE]
        for kind, content in book.run(code).outputs
        if kind in ("display_data", "update_display_data") and VIOLATION_TYPE in content["data"]
    ]
    assert len({violation["id"] for violation in shown}) == 1
    final: dict[str, Any] = shown[-1]
    return final


def test_a_worker_that_gave_up_the_handler_lives_on_without_a_line(book: Notebook) -> None:
    book.run("import faulthandler, signal\nfor number in range(34, 65):\n    faulthandler.unregister(number)")
    violation = last_state(book, f"{SWALLOWED}\nattempt()")
    assert violation["line"] is None
    assert book.run("print('alive')").text == "alive\n"


def test_a_thousand_refusals_in_threads_leave_the_worker_alive(book: Notebook) -> None:
    code = (
        f"{SWALLOWED}\nimport threading\n"
        "threads = [threading.Thread(target=lambda: [attempt() for _ in range(125)]) for _ in range(8)]\n"
        "for thread in threads: thread.start()\nfor thread in threads: thread.join()\n"
    )
    assert last_state(book, code)["count"] == 1000
    assert book.run("print('alive')").text == "alive\n"
