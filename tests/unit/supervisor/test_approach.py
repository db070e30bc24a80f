"""The line that fills a file system is where the worker was as it filled up, not where it is once nothing fits in."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from sentinel_kernel.policy.stack_dump import Place
from sentinel_kernel.supervisor import approach
from sentinel_kernel.supervisor.approach import Approach

if TYPE_CHECKING:
    from collections.abc import Callable

SIZE = 4 << 20


class Worker:
    """A worker that is asked where it is, and the file system that it fills."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.held, self.line = 0, 0
        sizes = SimpleNamespace(disk_bytes=SIZE, tmp_bytes=SIZE, shm_bytes=SIZE)
        self.current: Any = SimpleNamespace(
            preparation=SimpleNamespace(plan=SimpleNamespace(sizes=sizes, home="/home/u")),
            held_peaks={},
            filling={},
            held_line=SimpleNamespace(ask=self._ask),
            worker_pid=7,
        )
        monkeypatch.setattr(approach, "file_systems", lambda _: [("disk", "/w", None)])
        monkeypatch.setattr(approach, "fullness", lambda *_: {} if self.held < SIZE else {"name": "disk"})
        self.approach = Approach(self.current)
        self.approach.begin_cell(0)

    def _ask(self, _process: int, _thread: int, found: Callable[[Place], None], _patience: float) -> bool:
        found(Place(line=self.line))
        return True

    def sample(self, held: int, line: int) -> None:
        """Take a sample while ``held`` bytes are there, with the worker at ``line``."""
        self.held = self.current.held_peaks["disk_bytes"] = held
        self.line = line
        self.approach.look(0, 1 << 30)

    @property
    def filled_at(self) -> int | None:
        return self.current.filling["disk_bytes"].line


@pytest.fixture
def worker(monkeypatch: pytest.MonkeyPatch) -> Worker:
    return Worker(monkeypatch)


def test_a_sample_that_comes_after_the_last_write_changes_no_line(worker: Worker) -> None:
    worker.sample(SIZE // 2, 5)
    worker.sample(SIZE, 8)
    assert worker.filled_at == 5


def test_who_goes_on_filling_it_is_who_fills_it(worker: Worker) -> None:
    worker.sample(SIZE // 4, 3)
    worker.sample(SIZE // 2, 5)
    assert worker.filled_at == 5


def test_where_nothing_else_is_known_the_only_sample_counts(worker: Worker) -> None:
    worker.sample(SIZE, 8)
    assert worker.filled_at == 8
