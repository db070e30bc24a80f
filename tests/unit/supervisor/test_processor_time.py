"""Whether something in a sandbox wants a processor."""

from __future__ import annotations

import subprocess
import sys
from types import SimpleNamespace

import pytest
from waiting import wait_until

from sentinel_kernel.supervisor.processor_time import has_runnable

_BURNS_IN_A_THREAD = """
import os, sys, threading
def burn():
    while True:
        pass
if sys.argv[1] == "burns":
    os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    threading.Thread(target=burn, daemon=True).start()
print("started", flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize(("what", "expected"), [("burns", True), ("rests", False)])
def test_thread_that_wants_a_processor_is_seen_however_little_it_gets(what: str, expected: bool) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", _BURNS_IN_A_THREAD, what], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        current = SimpleNamespace(sandbox=SimpleNamespace(pid=process.pid))
        wait_until(lambda: has_runnable(current) is expected, f"it {what}")  # type: ignore[arg-type]
        process.kill()
