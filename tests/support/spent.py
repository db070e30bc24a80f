"""Where a run's time went, and how busy the processors were: whether one more process would pay."""

from __future__ import annotations

import os
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest

_FILES = 12
_LEAST_SECONDS = 60  # a shorter run is looked at by whoever made it: pytest --durations


class Spent:
    """A plugin of the process that reports; with pytest-xdist it hears what each of the others has run."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._idle, self._all = _processors()
        self._seconds: Counter[str] = Counter()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add what a test's setup, call or teardown took."""
        self._seconds[report.nodeid.partition("::")[0].removeprefix("tests/")] += report.duration

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print the sums, longest first."""
        if time.monotonic() - self._began < _LEAST_SECONDS:
            return
        folders: Counter[str] = Counter()
        for name, seconds in self._seconds.items():
            folders[name.partition("/")[0]] += seconds
        idle, every = _processors()
        busy = 100 * (1 - (idle - self._idle) / max(every - self._all, 1))
        terminalreporter.section("where the time went")
        terminalreporter.write_line(f"processors ({os.cpu_count()}): {busy:.0f} % busy")
        for counted in (folders.most_common(), self._seconds.most_common(_FILES)):
            terminalreporter.write_line(", ".join(f"{name} {seconds:.0f} s" for name, seconds in counted))


def _processors() -> tuple[int, int]:
    """Return the clock ticks that all processors were idle, and all of them (proc(5), /proc/stat)."""
    ticks = [int(word) for word in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
    return ticks[3] + ticks[4], sum(ticks)
