"""The locks that stand for multiprocessing's on the landlock rung hold between the threads of one process too."""

from __future__ import annotations

import subprocess
import sys

_THREADS = """
import _multiprocessing, sys, threading
from sentinel_kernel.worker.shared_names import SharedLock

SharedLock.SEM_VALUE_MAX = _multiprocessing.SemLock.SEM_VALUE_MAX
sys.setswitchinterval(1e-6)
lock = SharedLock({kind}, 1, 1, "/x", True)
count = 0

def take():
    global count
    for _ in range(20_000):
        lock.acquire()
        if {kind} == 0:
            lock.acquire()
        now = count
        count = now + 1
        if {kind} == 0:
            lock.release()
        lock.release()

threads = [threading.Thread(target=take, daemon=True) for _ in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(count, lock._count(), lock._is_mine(), lock._get_value())
"""
_DEADLINE = 180
"""Seconds; it takes less than two on a quiet machine."""


def _of_threads(kind: int) -> str:
    run = subprocess.run(
        [sys.executable, "-c", _THREADS.format(kind=kind)],
        capture_output=True,
        text=True,
        timeout=_DEADLINE,
        check=True,
    )
    return run.stdout.strip()


def test_threads_take_a_recursive_lock_in_turn() -> None:
    """Each has it alone, however often it changes hands, and it is free at the end."""
    assert _of_threads(0) == "80000 0 False 1"


def test_threads_take_a_plain_lock_in_turn() -> None:
    """As above; Condition asks such a one whether it is held."""
    assert _of_threads(1) == "80000 0 False 1"
