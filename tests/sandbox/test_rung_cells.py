"""Cells of a real kernel on the landlock rung: what works there as elsewhere, and what is said of what does not."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from lesser_machine import prefix
from readable_place import readable_place
from supervised import own_folder

if TYPE_CHECKING:
    from ordinary_user import Identity

pytestmark = [pytest.mark.sandbox, pytest.mark.requires("landlock")]

_WHO = ["user", "root"] if os.geteuid() == 0 else ["user"]
_DRIVER = Path(__file__).parent / "drivers" / "run_cells.py"

_LOCKS = """
import multiprocessing
from concurrent.futures import ProcessPoolExecutor
fork = multiprocessing.get_context("fork")
def count(lock, value):
    for _ in range(500):
        with lock:
            value.value += 1
lock, value = fork.Lock(), fork.Value("i", 0, lock=False)
counting = [fork.Process(target=count, args=(lock, value)) for _ in range(3)]
for one in counting: one.start()
for one in counting: one.join()
print(value.value, lock.acquire(), lock.acquire(timeout=0.01), lock.acquire(block=False))
lock.release()
try:
    lock.release()
except ValueError:
    print("released once")
again, event, queue = fork.RLock(), fork.Event(), fork.Queue()
with again, again:
    print(again.acquire(block=False))
fork.Process(target=event.set).start()
fork.Process(target=queue.put, args=("sent",)).start()
print(event.wait(60), queue.get(timeout=60))
with fork.Pool(2) as pool:
    print(pool.map(abs, [-1, -2]))
with ProcessPoolExecutor(2, mp_context=fork) as pool:
    print(list(pool.map(abs, [-3, -4])))
"""
_SHARED = """
from multiprocessing.shared_memory import SharedMemory
one = SharedMemory(create=True, size=100)
other = SharedMemory(one.name)
one.buf[0] = 7
print(other.buf[0])
other.close(); one.close(); one.unlink()
try:
    SharedMemory(one.name)
except FileNotFoundError:
    print("gone")
"""
_SPAWNED = "multiprocessing.get_context('spawn').Lock()"
_IN_SHM = "open('/dev/shm/mine', 'w')"
_IN_PROC = "open('/proc/self/status')"


@pytest.fixture(scope="module", params=_WHO)
def ran(request: pytest.FixtureRequest) -> dict[str, dict[str, Any]]:
    """Run the cells in one kernel, and return what each printed and what error it had."""
    cells = [_LOCKS, _SHARED, _SPAWNED, _IN_SHM, _IN_PROC]
    with readable_place(root=request.param == "root") as (owner, home):
        someone = replace(owner, home=home)
        for name in ("tmp", "work"):
            own_folder(someone, home / name).chmod(0o755)
        (home / "run_cells.py").write_bytes(_DRIVER.read_bytes())
        done = someone.run(
            *_machine(someone), someone.python, str(home / "run_cells.py"), *cells, cwd=home / "work"
        )
    return dict(zip(cells, json.loads(done.stdout.splitlines()[-1]), strict=True))


def _machine(someone: Identity) -> tuple[str, ...]:
    return prefix(someone.python, "docker" if someone.uid == 0 else "no_namespaces")


def test_forked_processes_share_locks_and_queues(ran: dict[str, dict[str, Any]]) -> None:
    assert ran[_LOCKS]["text"].splitlines() == [
        "1500 True False False",
        "released once",
        "True",
        "True sent",
        "[1, 2]",
        "[3, 4]",
    ], ran[_LOCKS]


def test_memory_with_a_name_is_shared(ran: dict[str, dict[str, Any]]) -> None:
    assert ran[_SHARED]["text"].splitlines() == ["7", "gone"], ran[_SHARED]


@pytest.mark.parametrize(
    ("cell", "says", "helps"),
    [
        (_IN_SHM, "/dev/shm is the machine's", "multiprocessing.shared_memory"),
        (_IN_PROC, "/proc tells of the machine's processes", "resource.getrusage"),
        (_SPAWNED, "the machine's", "get_context('fork')"),
    ],
    ids=["a file in /dev/shm", "a file in /proc", "a lock of spawned processes"],
)
def test_what_is_shut_is_said_with_what_helps(
    ran: dict[str, dict[str, Any]], cell: str, says: str, helps: str
) -> None:
    found = ran[cell]
    assert found["error"]["ename"] == "PermissionError", found
    records = [record for record in found["violations"] if says in record["message"]["en"]]
    assert records, found
    assert helps in records[0]["hint"]["en"]
    assert records[0]["message"]["zh"] != records[0]["message"]["en"]
