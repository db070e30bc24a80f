"""What is held against a sandbox: its start, and what it computes, whichever of its workers did; never twice."""

from __future__ import annotations

import os
from types import SimpleNamespace
from typing import Any

import pytest
from lacking import lacking

from sentinel_kernel.linux import autogroup
from sentinel_kernel.supervisor import giving_way
from sentinel_kernel.supervisor.backend import NICE, Backend, Backends
from sentinel_kernel.supervisor.giving_way import GivingWay


class _Time:
    """The processor time of one sandbox, as the test says."""

    seconds_of: dict[int, float]

    def seconds(self, current: Any) -> float:
        """Return what is said of its sandbox."""
        if current.sandbox.pid not in self.seconds_of:
            raise FileNotFoundError
        return self.seconds_of[current.sandbox.pid]


class _Group(Backend):
    """One that the Linux kernel weighs."""

    throttles = True


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """Return the clocks, which go as the test says; no supervisor computes, and rest has brought all credit."""
    now = SimpleNamespace(at=1000.0, seconds={})
    times = SimpleNamespace(monotonic=lambda: now.at, process_time=lambda: 0.0)
    monkeypatch.setattr(giving_way, "time", times)
    monkeypatch.setattr(giving_way, "ProcessorTime", type("Time", (_Time,), {"seconds_of": now.seconds}))
    return now


def _current(pid: int) -> Any:
    return SimpleNamespace(sandbox=SimpleNamespace(pid=pid), backend=_Group("test"), worker_pid=pid)


def _started(clock: SimpleNamespace) -> tuple[GivingWay, Backends, Any]:
    backends = Backends()
    keeper = GivingWay(SimpleNamespace(running=False), backends)  # type: ignore[arg-type]
    clock.at += 100.0
    clock.seconds[1] = 0.0
    current = _current(1)
    keeper.sandbox_ready(current, 1)
    assert keeper.catch_up() is None
    assert (backends.nice, current.backend.nice) == (0, 0)
    return keeper, backends, current


def test_the_first_sandbox_is_born_giving_way() -> None:
    assert Backends().nice == NICE
    assert Backends().make("fallback").nice == NICE


def test_workers_of_one_sandbox_are_counted_once(clock: SimpleNamespace) -> None:
    keeper, backends, current = _started(clock)
    for number in range(2, 30):
        clock.seconds[1] += 0.02
        keeper.sandbox_gone({})
        keeper.sandbox_ready(current, number)
        keeper.catch_up()
    assert backends.nice == 0
    clock.seconds[1] += 1.0
    keeper.sandbox_gone({})
    keeper.sandbox_ready(current, 30)
    assert backends.nice == NICE


def test_sandboxes_that_die_again_and_again_pay_for_their_starts(clock: SimpleNamespace) -> None:
    keeper, backends, _ = _started(clock)
    nices = []
    for pid in range(2, 6):
        keeper.sandbox_gone({})
        clock.seconds[pid] = 0.4
        keeper.sandbox_ready(_current(pid), pid)
        nices.append(backends.nice)
    assert nices == [0, 0, NICE, NICE]


def test_a_group_that_goes_is_no_fault(clock: SimpleNamespace) -> None:
    keeper, backends, _ = _started(clock)
    del clock.seconds[1]
    clock.at += 10.0
    assert keeper.catch_up() is None
    assert backends.nice == 0


def test_nothing_is_due_while_there_is_no_sandbox(clock: SimpleNamespace) -> None:
    keeper, _, _ = _started(clock)
    assert keeper.due_seconds() == 2.0
    keeper.sandbox_gone({})
    assert keeper.due_seconds() is None
    clock.at += 10.0
    assert keeper.catch_up() is None


def test_what_is_set_is_read_back_and_others_keep_theirs() -> None:
    if autogroup.obstacle() == "absent":
        lacking("the Linux kernel has no autogroups")
    before = autogroup.group_of("self")
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setsid()
            for _ in range(100_000):
                try:
                    autogroup.set_nice("self", 3)
                    break
                except BlockingIOError:
                    continue  # ten a second are taken
            os.write(writer, repr(autogroup.group_of("self")).encode())
        finally:
            os._exit(0)
    os.close(writer)
    told = os.read(reader, 100).decode()
    os.close(reader)
    os.waitpid(child, 0)
    assert told.endswith(", 3)")
    assert autogroup.group_of("self") == before
