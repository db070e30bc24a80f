"""Cells that say that they have ended and go on: their seconds go on too."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from live_kernel import notebook
from waiting import wait_until

from sentinel_kernel.supervisor.processes import processes_below

if TYPE_CHECKING:
    from collections.abc import Iterator

    from live_kernel import Notebook

pytestmark = [pytest.mark.sandbox, pytest.mark.requires("user_namespaces", "overlay")]

_SAYS_THAT_IT_ENDED = """
kernel = get_ipython().kernel
kernel.session.send(
    kernel.iopub_socket, "status", {"execution_state": "idle"}, kernel.get_parent("shell"), ident=b"status"
)
try:
    while True:
        pass
except KeyboardInterrupt:
    open('/tmp/ended', 'w').close()
"""
_LEAVES_A_THREAD = """
import threading
def burn():
    while True:
        pass
threading.Thread(target=burn, daemon=True).start()
"""


@pytest.fixture
def book(tmp_path: Path) -> Iterator[Notebook]:
    with notebook(tmp_path, HOME=str(tmp_path / "work"), SENTINEL_SPARE="off") as kept:
        kept.run("%sentinel_limit wall=1")
        yield kept


def _workers(book: Notebook) -> dict[str, int]:
    """Return the processes of the sandbox by their numbers inside."""
    inside = {}
    for pid in processes_below(book.host_pid):
        try:
            lines = Path(f"/proc/{pid}/status").read_text().splitlines()
        except OSError:
            continue
        numbers = next(line.split()[1:] for line in lines if line.startswith("NSpid:"))
        if len(numbers) > 1:
            inside[numbers[-1]] = pid
    return inside


def test_cell_that_publishes_its_own_end_is_interrupted_all_the_same(book: Notebook) -> None:
    init = _workers(book)["1"]
    book.send(_SAYS_THAT_IT_ENDED)
    wait_until(Path(f"/proc/{init}/root/tmp/ended").exists, "the cell is interrupted", 200)


def test_thread_that_is_left_running_uses_up_its_cells_seconds(book: Notebook) -> None:
    number = book.run("import os; print(os.getpid())").text.strip()
    assert book.run(_LEAVES_A_THREAD).reply["status"] == "ok"
    assert number in _workers(book)
    # By processor seconds, of which a busy machine gives few.
    wait_until(lambda: number not in _workers(book), "the worker is ended", 200)
    # A cell that was sent before the host has heard of it is told of the death.
    wait_until(lambda: book.run("print(1)").text == "1\n", "the next worker runs cells")


def test_worker_that_idles_after_its_cell_stays(book: Notebook) -> None:
    number = book.run("import os; print(os.getpid())").text.strip()
    for _ in range(3):
        assert book.run("import time; time.sleep(0.5); print(os.getpid())").text.strip() == number
