"""What a cell has started is ended for others; what is older is left, and nobody waits for what it does not reap."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from init_tree import Tree, init_of, init_tree
from waiting import wait_until

from sentinel_kernel.supervisor.clearing import Clearing
from sentinel_kernel.supervisor.processes import processes_below
from sentinel_kernel.supervisor.processor_time import count_tasks, is_running

if TYPE_CHECKING:
    from collections.abc import Iterator

# An init that reaps, a worker, and a process that starts others when told to, and reaps none of them.
TREE = """\
import os, signal, sys
worker = os.fork()
if worker == 0:
    signal.pause()
older = os.fork()
if older == 0:
    for line in sys.stdin:
        for _ in range(int(line)):
            if os.fork() == 0:
                signal.pause()
        print("started", flush=True)
    signal.pause()
print(worker, older, flush=True)
while True:
    os.wait()
"""


@pytest.fixture
def tree() -> Iterator[Tree]:
    with init_tree(TREE) as made:
        yield made


def test_the_children_of_an_older_process_are_ended_and_not_waited_for(tree: Tree) -> None:
    init, current = tree
    assert init.stdin is not None
    assert init.stdout is not None
    time_of_boot = time.clock_gettime(time.CLOCK_BOOTTIME)
    began = time_of_boot + 0.02
    wait_until(lambda: time.clock_gettime(time.CLOCK_BOOTTIME) > began + 0.02, "the clock has gone on")
    init.stdin.write("20\n")
    init.stdin.flush()
    init.stdout.readline()
    assert count_tasks(current) == 23
    clearing = Clearing(current, began)
    looks = 0

    def steps() -> bool:
        nonlocal looks
        looks += 1
        return clearing.step()

    wait_until(steps, "the others have ended", 4)  # their zombies stay, and it gives up after twice that
    assert clearing.ended == 20
    assert is_running(current.worker_pid)
    assert is_running(current.older)
    assert clearing.tasks_left() == 23  # so that nobody says that there is room


# What is left of a tree that is ended goes to its init, as in a sandbox.
LATER = """
import os, signal, sys, time
from sentinel_kernel.linux.process import adopt_orphans
adopt_orphans()
print(flush=True)
doing = sys.stdin.readline().strip()
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
if os.fork() == 0:
    while doing == "forks":
        if os.fork() == 0:
            time.sleep(0.2)
            os._exit(0)
        for _ in range(20_000):
            pass
    while True:
        pass
print(flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize(("doing", "ended"), [("forks", True), ("computes", False)])
def test_what_was_started_is_ended_where_it_multiplies(doing: str, *, ended: bool) -> None:
    with init_of(LATER) as init:
        assert init.stdin is not None
        assert init.stdout is not None
        init.stdout.readline()
        sandbox = SimpleNamespace(pid=init.pid)
        current: Any = SimpleNamespace(sandbox=sandbox, worker_pid=init.pid, word_pipe=-1)
        began = time.clock_gettime(time.CLOCK_BOOTTIME) + 0.02
        wait_until(lambda: time.clock_gettime(time.CLOCK_BOOTTIME) > began + 0.02, "the clock has gone on")
        init.stdin.write(f"{doing}\n")
        init.stdin.flush()
        init.stdout.readline()
        clearing = Clearing(current, began, crowded=False)
        wait_until(clearing.step, "it is known what goes on")
        assert (clearing.ended > 0) == ended
        left = 1 if ended else 2
        # One that has ended by itself meanwhile is reaped by the Linux kernel at once, and can be seen until it is.
        wait_until(lambda: len(list(processes_below(init.pid))) == left, "no other is left")
