"""Memory's limits: who may be killed, what is said where the machine is short, and that looking itself is bounded."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from waiting import wait_until

from sentinel_kernel.policy.hints import complete
from sentinel_kernel.policy.occurrence import limit_violation
from sentinel_kernel.policy.sizes_in_words import size_text
from sentinel_kernel.supervisor import headroom, shared_mappings
from sentinel_kernel.supervisor.headroom import Headroom
from sentinel_kernel.supervisor.memory_use import MemoryUse
from sentinel_kernel.supervisor.meter import Meter
from sentinel_kernel.supervisor.processes import Process, status_of_memory
from sentinel_kernel.supervisor.shared_mappings import SharedMappings
from sentinel_kernel.supervisor.soft_memory import _words, memory_limit

# Its first thread ends at the first line; the other one at the end of what it reads.
_FIRST_ENDS = """
import ctypes, os, threading
read = threading.Event()
def other():
    read.wait()
    while os.read(0, 1): pass
    os._exit(0)
threading.Thread(target=other).start()
print(flush=True)
os.read(0, 1)
read.set()
ctypes.CDLL(None).syscall(60 if os.uname().machine == "x86_64" else 93, 0)  # exit(2), of this thread
"""
_NO_USE: Any = SimpleNamespace(largest=lambda _: [], held_bytes={}, shared_bytes=0)


def test_a_number_that_has_become_another_ones_is_not_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    process = Process(child.pid, keep_open=False)
    processes: Any = SimpleNamespace(first=child.pid)
    room = Headroom(processes, _NO_USE)
    try:
        monkeypatch.setattr(headroom, "same_sandbox", lambda pid, first: pid != first)
        assert not room.kill(process)
        child.communicate(b"\n")
        assert child.returncode == 0
    finally:
        child.kill()
        child.wait()
        room.close()


def test_the_threads_of_a_process_are_listed_only_where_the_first_one_has_no_memory_any_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    listed: list[str] = []
    real = os.listdir

    def listing(path: str) -> list[str]:
        listed.append(path)
        return real(path)

    monkeypatch.setattr(os, "listdir", listing)
    with subprocess.Popen(
        [sys.executable, "-c", _FIRST_ENDS], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        child.stdout.readline()
        assert b"\nVmPTE:" in status_of_memory(child.pid)
        assert listed == []
        child.stdin.write(b"\n")
        child.stdin.flush()
        stat = Path(f"/proc/{child.pid}/stat")
        wait_until(
            lambda: stat.read_text().rpartition(")")[2].split()[0] == "Z", "its first thread has ended"
        )
        assert b"\nVmPTE:" in status_of_memory(child.pid)
        assert listed == [f"/proc/{child.pid}/task"]
        child.stdin.close()
    with pytest.raises(FileNotFoundError):
        status_of_memory(child.pid)


def test_one_of_the_sandbox_is_killed() -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    processes: Any = SimpleNamespace(first=child.pid)
    room = Headroom(processes, _NO_USE)
    assert room.kill(Process(child.pid, keep_open=False))
    assert child.wait() == -9
    assert child.stdin is not None
    child.stdin.close()
    room.close()


class _Held(SimpleNamespace):
    """A process that holds memory."""

    def heap_bytes(self) -> int:
        """Have no heap."""
        return 0

    def measure(self) -> bool:
        """Stay as it is."""
        return True


class _Two(dict[int, Any]):
    """The worker and one other process."""

    first = 1

    def __iter__(self) -> Any:
        return iter(self.values())


@pytest.mark.parametrize("machine", [8 << 30, 512 << 20])
@pytest.mark.parametrize("sampled", [True, False], ids=["sampled", "at_once"])
def test_a_process_may_take_nine_tenths_of_what_the_limit_and_the_machine_leave(
    machine: int, sampled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    mib = 1 << 20
    worker = _Held(pid=7, anonymous_bytes=100 * mib, data_bytes=150 * mib)
    other = _Held(pid=8, anonymous_bytes=20 * mib, data_bytes=20 * mib)
    processes: Any = _Two({7: worker, 8: other})
    use: Any = SimpleNamespace(total_bytes=120 * mib)
    meter: Any = SimpleNamespace(
        _use=use,
        _sizes=SimpleNamespace(memory_bytes=1 << 30),
        _machine=SimpleNamespace(spare_bytes=lambda: machine - use.total_bytes),
    )
    allowed = Meter.allowed_bytes(meter)
    assert allowed == min(1 << 30, machine)
    written: dict[int, int] = {}
    monkeypatch.setattr(
        headroom, "set_soft_limit", lambda pid, _first, _what, soft: written.update({pid: soft})
    )
    room = Headroom(processes, use)
    if sampled:  # before a cell: what is mapped and not touched by then counts for nothing
        room.write(allowed, -1, 7, None)
    room.begin_cell(7, allowed)
    room.write(allowed, -1, 7, use.total_bytes)
    assert written[7] == (int(allowed * 0.9) - 20 * mib + 50 * mib) // mib * mib
    assert written[8] == (int(allowed * 0.9) - 100 * mib) // mib * mib


@pytest.mark.parametrize("worker", [7, -1])
def test_the_workers_end_is_told_as_its_death_alone(worker: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """An event of its own would be shown as a process of the next cell, with the variables kept."""
    told: list[dict[str, Any]] = []
    meter = Meter(lambda _, fields: told.append(fields["limit"]))
    held: dict[str, Any] = {
        "_use": SimpleNamespace(exact=True),
        "_processes": [],
        "_over_since": None,
        "_headroom": SimpleNamespace(waits_for_death=False, worst=lambda *_: None),
        "_limit": lambda _, stage, used, allowed: {"stage": stage, "used": used, "allowed": allowed},
    }
    vars(meter).update(held)
    killed: list[int] = []
    monkeypatch.setattr("signal.pidfd_send_signal", lambda pidfd, _: killed.append(pidfd))
    current: Any = SimpleNamespace(worker_pid=worker, sandbox=SimpleNamespace(pidfd=5))
    cause = meter._kill(current, 332, 200)
    limit = {"stage": "kill", "used": 332, "allowed": 200, "detail": "worker"}
    if worker > 0:
        assert (cause, told, killed) == ({"kind": "limit", "limit": limit}, [], [])
    else:  # nothing but this tells of it: the sandbox's first process dies like any other
        assert (cause, told, killed) == (None, [limit], [5])
    meter._current = None
    meter.close()


def _limit(stage: str, allowed: int) -> dict[str, Any]:
    sizes = SimpleNamespace(memory_bytes=1 << 30)
    current: Any = SimpleNamespace(
        preparation=SimpleNamespace(
            plan=SimpleNamespace(sizes=sizes), profile=SimpleNamespace(name="default")
        )
    )
    return memory_limit(current, stage, 200 << 20, allowed, _NO_USE, _NO_USE)


def _told(limit: dict[str, Any], *, died: bool) -> tuple[str, str, str]:
    told = complete(limit_violation(limit, id="x", time_ms=0, died=died))
    assert told.message is not None
    assert told.hint is not None
    return told.message.en, told.message.zh, told.hint.en + told.hint.zh


@pytest.mark.parametrize("stage", ["soft", "refused", "kill", "death"])
def test_a_machine_that_is_short_is_not_blamed_on_the_limit(stage: str) -> None:
    died = stage == "death"
    stage = "kill" if died else stage
    english, chinese, hints = _told(_limit(stage, 256 << 20), died=died)
    assert "machine" in english
    assert "计算机" in chinese
    assert "256" in english
    assert "%sentinel_limit" not in hints
    english, _, hints = _told(_limit(stage, 1 << 30), died=died)
    assert "machine" not in english
    assert "`%sentinel_limit` at a cell's top shows what is in force (memory)" in hints


def test_the_exception_leaves_the_limit_to_its_hint_and_says_sizes_as_that_does() -> None:
    limit = _limit("soft", 1 << 30)
    words, (english, _, _) = _words(limit), _told(limit, died=False)
    assert "memory=" not in words
    for size in (size_text(limit["used"]), size_text(limit["allowed"])):
        assert size in words
        assert size in english
    assert "%sentinel_limit" not in _words(_limit("soft", 1 << 20))


def test_a_limit_of_the_persons_own_is_not_called_the_profiles() -> None:
    limit = _limit("soft", 1 << 30)
    assert not limit["own"]
    assert "profile 'default' allows 1 GiB" in _words(limit)
    assert "the limit set with %sentinel_limit allows 1 GiB" in _words(limit | {"own": True})
    english, chinese, _ = _told(limit | {"own": True}, died=False)
    assert "set with %sentinel_limit" in english
    assert "由 %sentinel_limit 设定" in chinese


def _use(monkeypatch: pytest.MonkeyPatch, lists: dict[int, dict[bytes, int]]) -> MemoryUse:
    processes: Any = [SimpleNamespace(pid=pid, mapped_bytes=1, virtual_bytes=1) for pid in lists]
    current: Any = SimpleNamespace(
        held_peaks={},
        sandbox=SimpleNamespace(pid=0, workspace_upper=-1),
        preparation=SimpleNamespace(plan=SimpleNamespace(home="/nowhere", lists=None)),
        backend=None,
    )
    machine: Any = None
    monkeypatch.setattr(shared_mappings, "_shared_mappings", lambda pid, _who: dict(lists[pid]))
    return MemoryUse(current, processes, machine)


def test_many_mappings_are_kept_as_their_sum(monkeypatch: pytest.MonkeyPatch) -> None:
    many = {b"%d" % number: 4096 for number in range(5000)}
    few = {b"a": 1 << 20}
    use = _use(monkeypatch, {1: many, 2: dict(many), 3: few, 4: dict(few), 5: {**many, b"b": 4096}})
    use._mappings.look()
    assert use.shared_bytes - (1 << 20) == 5000 * 4096 + 5001 * 4096
    assert sum(map(len, use._mappings._mappings.values())) == 2
    assert use._mappings._mappings[3] is use._mappings._mappings[4]


def test_one_look_ends_and_the_next_one_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    use = _use(monkeypatch, {pid: {b"%d" % pid: 1 << 20} for pid in range(8)})
    monkeypatch.setattr(shared_mappings, "_MOST_LOOK_SECONDS", 0.0)
    ticks = iter(range(1, 1000))
    monkeypatch.setattr(time, "monotonic", lambda: next(ticks) / 2)
    for _ in range(20):
        use._mappings.look()
    assert use.shared_bytes == 8 << 20


def _closing(monkeypatch: pytest.MonkeyPatch, lists: dict[int, dict[bytes, int] | None]) -> SharedMappings:
    """Return the sum of those; None for a process that is closed, of whose shared memory nothing is resident."""
    processes: Any = _Listed(lists)
    monkeypatch.setattr(shared_mappings, "_shared_mappings", lambda pid, _who: lists[pid])
    monkeypatch.setattr(shared_mappings, "_resident", lambda process: process.mapped_bytes - 1)
    return SharedMappings(processes, None)


class _Listed:
    """Processes without a first one, which are the keys of a table."""

    first = 0

    def __init__(self, lists: dict[int, dict[bytes, int] | None]) -> None:
        self.lists = lists
        self.size = 1

    def __iter__(self) -> Any:
        self.size += 1  # or they would not be looked at again
        return iter([SimpleNamespace(pid=pid, mapped_bytes=1, virtual_bytes=self.size) for pid in self.lists])

    def refresh(self) -> None:
        """Stay as they are."""


def _looked(mappings: SharedMappings) -> int:
    mappings.again()
    mappings.look()
    return mappings.total_bytes


def test_what_a_closed_process_may_have_by_fork_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    lists: dict[int, dict[bytes, int] | None] = {1: {b"a": 1 << 20}}
    mappings = _closing(monkeypatch, lists)
    assert _looked(mappings) == 1 << 20
    lists[2] = None
    lists[1] = {}
    assert [_looked(mappings) for _ in range(5)] == [1 << 20] * 5
    lists[1] = {b"b": 4 << 20}  # made since, and let go: the closed one was there before
    assert _looked(mappings) == 5 << 20
    lists[1] = {}
    assert [_looked(mappings) for _ in range(4)][-1] == 1 << 20
    lists[3] = None  # a child of the closed one takes over
    del lists[2]
    assert [_looked(mappings) for _ in range(4)][-1] == 1 << 20
    del lists[3]
    assert [_looked(mappings) for _ in range(4)][-1] == 0  # the positive control


def test_what_a_closed_process_asks_for_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    lists: dict[int, dict[bytes, int] | None] = {1: {}, 2: None}
    mappings = _closing(monkeypatch, lists)
    monkeypatch.setattr(mappings, "_is_of", lambda thread, processes: thread in set(processes))
    _looked(mappings)
    for times in range(1, 4):
        mappings.asked(2, 1 << 20)
        assert _looked(mappings) == times << 20
    mappings.asked(1, 8 << 20)  # whose list will tell
    assert _looked(mappings) == 3 << 20
    mappings.asked(1, 8 << 20)
    assert _looked(mappings) == 3 << 20
    del lists[2]
    assert [_looked(mappings) for _ in range(4)][-1] == 0
