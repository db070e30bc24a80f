"""What was started below a worker since a moment is ended, however it hides; what is older keeps its own."""

from __future__ import annotations

import os
import signal
import time
from typing import TYPE_CHECKING

import pytest
from init_tree import Tree, alive, init_tree
from waiting import wait_until

from sentinel_kernel.supervisor import clearing
from sentinel_kernel.supervisor.dry_copies import DryCopies
from sentinel_kernel.supervisor.processes import processes_below

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
            ctypes.CDLL(None).syscall(60 if os.uname().machine == "x86_64" else 93, 0)  # exit(2), of this thread
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


@pytest.fixture
def tree() -> Iterator[Tree]:
    with init_tree(TREE) as made:
        yield made


@pytest.mark.parametrize("kind", ["plain", "daemon", "hides", "hops"])
def test_a_dry_runs_end_waits_until_all_that_it_has_started_is_gone(kind: str, tree: Tree) -> None:
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
    assert len(alive(init.pid)) > 4 or kind == "hops"
    copies.end_cell({})
    causes: list[object] = []

    def over() -> bool:
        causes.append(copies.catch_up())
        return not copies.busy

    wait_until(over, "all has gone")
    assert not any(causes)
    kept = set(processes_below(current.older))
    assert len(kept) == 2
    assert set(alive(init.pid)) == {init.pid, current.worker_pid, *kept}


def test_what_can_not_be_ended_goes_with_the_worker(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
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
