"""What was started below a worker since a moment is ended, however it hides; what is older keeps its own."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from waiting import wait_until

from sentinel_kernel.supervisor import clearing
from sentinel_kernel.supervisor.dry_copies import DryCopies
from sentinel_kernel.supervisor.processes import processes_below
from sentinel_kernel.supervisor.processor_time import has_ended, stat_fields

if TYPE_CHECKING:
    from collections.abc import Iterator

# An init that reaps what is left to it, an older process that starts another one, and a worker that becomes what it is
# told to be.
TREE = """
import ctypes, os, signal, sys, threading
from sentinel_kernel.linux.process import adopt_orphans
adopt_orphans()
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
older = os.fork()
if older == 0:
    signal.sigwait([signal.SIGUSR1])
    if os.fork() == 0:
        signal.pause()
    os.write(1, b"kept\\n")
    signal.pause()
worker = os.fork()
if worker == 0:
    told = sys.stdin.readline().strip()
    if os.fork() == 0:
        if told == "hops":
            while os.fork() == 0:
                pass
            os._exit(0)
        if told == "hides":
            threading.Thread(target=signal.sigwait, args=([signal.SIGUSR1],)).start()
            os.write(1, b"on\\n")
            ctypes.CDLL(None).syscall(60, 0)
        if told == "daemon" and (os.fork() or os.setsid() or os.fork()):
            os._exit(0)
        os.write(1, b"on\\n")
        signal.pause()
    if told == "hops":
        os.write(1, b"on\\n")
    while True:
        signal.pause()
print(worker, older, flush=True)
while True:
    os.wait()
"""


def alive(current: Any) -> list[int]:
    return [pid for pid in processes_below(current.sandbox.pid) if not has_ended(stat_fields(pid))]


@pytest.fixture
def tree() -> Iterator[tuple[subprocess.Popen[str], Any]]:
    init = subprocess.Popen(
        [sys.executable, "-c", TREE], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert init.stdout is not None
    worker, older = map(int, init.stdout.readline().split())
    current = SimpleNamespace(sandbox=SimpleNamespace(pid=init.pid), worker_pid=worker, older=older)
    yield init, current
    while left := alive(current)[1:]:  # init goes last: the others would be nobody's
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    init.kill()
    init.communicate()


@pytest.mark.parametrize("kind", ["plain", "daemon", "hides", "hops"])
def test_a_dry_runs_end_waits_until_all_that_it_has_started_is_gone(
    kind: str, tree: tuple[subprocess.Popen[str], Any]
) -> None:
    init, current = tree
    assert init.stdin is not None
    assert init.stdout is not None
    began = time.clock_gettime(time.CLOCK_BOOTTIME)
    wait_until(lambda: time.clock_gettime(time.CLOCK_BOOTTIME) > began + 0.05, "those before are older")
    copies = DryCopies()
    copies.sandbox_ready(current, 1)
    copies.begin_cell({"dry_run": True})
    os.kill(current.older, signal.SIGUSR1)
    init.stdin.write(f"{kind}\n")
    init.stdin.flush()
    assert {init.stdout.readline(), init.stdout.readline()} == {"kept\n", "on\n"}
    assert len(alive(current)) > 4 or kind == "hops"
    copies.end_cell({})
    causes: list[object] = []

    def over() -> bool:
        causes.append(copies.catch_up())
        return not copies.busy

    wait_until(over, "all has gone")
    assert not any(causes)
    kept = set(processes_below(current.older))
    assert len(kept) == 2
    assert set(alive(current)) == {init.pid, current.worker_pid, *kept}


def test_what_can_not_be_ended_goes_with_the_worker(
    tree: tuple[subprocess.Popen[str], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    _, current = tree
    monkeypatch.setattr(clearing, "_SECONDS", 0.0)
    copies = DryCopies()
    copies.sandbox_ready(current, 1)
    copies.begin_cell({"dry_run": True})
    copies.end_cell({})
    busy = [copies.busy]
    assert copies.catch_up() == {"kind": "signal", "signal": 9}
    copies.sandbox_gone({})
    busy.append(copies.busy)
    copies.begin_cell({})
    copies.end_cell({})
    assert [*busy, copies.busy] == [True, False, False]
