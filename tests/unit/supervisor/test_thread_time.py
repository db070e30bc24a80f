"""The time that a thread has had is the clock's, less what it waited for a processor."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from sentinel_kernel.supervisor.thread_time import ThreadTime

if TYPE_CHECKING:
    from collections.abc import Iterator

_SECONDS = 0.5


@pytest.fixture
def processes() -> Iterator[list[subprocess.Popen[bytes]]]:
    made: list[subprocess.Popen[bytes]] = []
    yield made
    for process in made:
        process.kill()
        process.communicate()


def _computing(processes: list[subprocess.Popen[bytes]], processor: int, policy: int) -> int:
    code = (
        f"import os; os.sched_setaffinity(0, {{{processor}}})\n"
        f"os.sched_setscheduler(0, {policy}, os.sched_param(0))\n"
        "print(flush=True)\nwhile True: pass"
    )
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    processes.append(process)
    assert process.stdout is not None
    process.stdout.readline()
    return process.pid


def _had(thread: int) -> tuple[float, float]:
    """Return what a thread has had, and what the clock says."""
    began, had = time.monotonic(), ThreadTime(thread)
    while time.monotonic() < began + _SECONDS:
        had.seconds()  # looking often changes nothing
    return had.seconds(), time.monotonic() - began


def test_one_that_sleeps_has_all_of_it(processes: list[subprocess.Popen[bytes]]) -> None:
    code = "print(flush=True); import sys; sys.stdin.read()"
    process = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    processes.append(process)
    assert process.stdout is not None
    process.stdout.readline()
    had, clock = _had(process.pid)
    assert had > clock * 0.8


def test_one_that_others_go_before_has_little_of_it(processes: list[subprocess.Popen[bytes]]) -> None:
    processor = max(os.sched_getaffinity(0))
    last = _computing(processes, processor, os.SCHED_IDLE)
    _computing(processes, processor, os.SCHED_OTHER)
    had, clock = _had(last)
    assert had < clock * 0.5


def test_counting_begins_anew_and_one_that_is_gone_has_the_clocks() -> None:
    began = time.monotonic()
    had = ThreadTime(2**22 + 1)  # above every pid_max: nobody's
    while had.seconds() < 0.01:
        assert had.due(0.01) >= began
    assert had.seconds() <= time.monotonic() - began
    had.begin_anew()
    assert had.due(1.0) > began + 1.0
