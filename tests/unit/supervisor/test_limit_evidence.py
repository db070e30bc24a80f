"""Which limit it was: that of tasks, or that of memory, which each thread's stack counts as."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from contextlib import contextmanager
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from sentinel_kernel.kernel.limits import Limits
from sentinel_kernel.policy.failure_report import THREAD
from sentinel_kernel.policy.hints import complete
from sentinel_kernel.policy.occurrence import limit_violation
from sentinel_kernel.policy.plan import process_limit
from sentinel_kernel.supervisor import limit_evidence
from sentinel_kernel.supervisor.limit_evidence import LimitEvidence, data_held, stacks_left

if TYPE_CHECKING:
    from collections.abc import Iterator

_ROOM = 100 << 20
_THREADS = f"""
import resource, sys, threading
held = int(open("/proc/self/status").read().partition("VmData:")[2].split()[0]) << 10
if len(sys.argv) > 1:
    resource.setrlimit(resource.RLIMIT_DATA, (held + {_ROOM}, resource.RLIM_INFINITY))
ends, started = threading.Event(), 0
try:
    while started < 3:
        threading.Thread(target=ends.wait).start()
        started += 1
    while len(sys.argv) > 1:
        threading.Thread(target=ends.wait).start()
        started += 1
except RuntimeError:
    pass
print(started, flush=True)
input()
ends.set()
"""


@contextmanager
def _starts_threads(*arguments: str) -> Iterator[tuple[int, int]]:
    """Yield the number of a process and how many threads it could start, with stacks of 8 MiB."""
    shell = ["/bin/sh", "-c", 'ulimit -S -s 8192; exec "$0" "$@"', sys.executable, "-c", _THREADS, *arguments]
    child = subprocess.Popen(shell, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    try:
        yield child.pid, int(child.stdout.readline())
    finally:
        child.communicate("\n")
    assert child.returncode == 0


def test_stacks_that_a_process_was_refused_have_no_room() -> None:
    with _starts_threads("until refused") as (pid, started):
        assert 3 < started <= _ROOM // (8 << 20)
        assert stacks_left(pid) == 0


def test_stacks_that_fit_have_room() -> None:
    with _starts_threads() as (pid, started):
        assert started == 3
        assert stacks_left(pid) is None, "it has no limit"
        held = limit_evidence._status_number(pid, b"VmData") << 10
        resource.prlimit(pid, resource.RLIMIT_DATA, (held + (36 << 20), resource.RLIM_INFINITY))
        assert stacks_left(pid) == 4


@pytest.mark.parametrize(
    ("room", "tasks", "told"),
    [(0, 76, "memory"), (3, 76, "memory"), (5000, 76, "pids"), (None, 76, "pids"), (3, 1071, "pids")],
)
def test_a_thread_that_did_not_start_met_the_limit_that_comes_first(
    monkeypatch: pytest.MonkeyPatch, room: int | None, tasks: int, told: str
) -> None:
    sizes: Any = SimpleNamespace(pids=1024, memory_bytes=1 << 30)
    allowed = process_limit(sizes)
    monkeypatch.setattr(limit_evidence, "stacks_left", lambda _: room)
    monkeypatch.setattr(limit_evidence, "count_tasks", lambda _: tasks)
    monkeypatch.setattr(limit_evidence, "_limit_of", lambda *_: allowed)
    watch: Any = SimpleNamespace(pids_counted=lambda: False)
    meter: Any = SimpleNamespace(refused=lambda _, *, sure=False: {"name": "memory"} if sure else None)
    current: Any = SimpleNamespace(
        preparation=SimpleNamespace(
            plan=SimpleNamespace(sizes=sizes), profile=SimpleNamespace(name="strict")
        ),
        backend=SimpleNamespace(name="fallback"),
        own_limits=frozenset(),
        worker_pid=os.getpid(),
        peak_tasks=tasks,
    )
    entry: Any = SimpleNamespace(site=THREAD, size=None, returncode=None)
    evidence = LimitEvidence(watch, meter)
    found = [evidence.measured(current, name, entry) for name in ("pids", "memory", "starts")]
    first = next(one for one in found if one is not None)
    assert first["name"] == told
    # Of tasks that are not many, and stacks that have room, there is the worker's word alone.
    measured = (told == "memory" and room == 0) or (told == "pids" and tasks > 1000)
    assert first.get("guessed", False) is not measured
    assert first.get("wanted") == ("thread" if told == "memory" else None)


@pytest.mark.parametrize(
    ("peak", "asked", "guessed"), [(0, 1 << 50, True), (9 << 20, 0, False), (0, 0, None)]
)
def test_room_that_was_only_asked_for_is_never_certain(
    monkeypatch: pytest.MonkeyPatch, peak: int, asked: int, guessed: bool | None
) -> None:
    status = SimpleNamespace(f_blocks=16 << 8, f_bfree=16 << 8, f_frsize=4096)
    monkeypatch.setattr(limit_evidence, "file_systems", lambda _: [("tmp", "/tmp", status)])
    monkeypatch.setattr(limit_evidence, "fullness", lambda *_: None)
    current: Any = SimpleNamespace(
        preparation=SimpleNamespace(
            plan=SimpleNamespace(home="/home/u", sizes=SimpleNamespace(file_size_bytes=1 << 20)),
            profile=SimpleNamespace(name="strict"),
        ),
        backend=SimpleNamespace(name="fallback"),
        own_limits=frozenset(),
        held_peaks={"tmp_bytes": peak},
        worker_pid=os.getpid(),
    )
    entry: Any = SimpleNamespace(path=None, size=asked, gone=False, site="")
    none: Any = None
    evidence = LimitEvidence(none, none)
    monkeypatch.setattr(limit_evidence, "_limit_of", lambda *_: 1 << 20)
    for name in ("space", "file_size"):
        told = evidence.measured(current, name, entry)
        assert (told is None) is (guessed is None)
        assert told is None or told.get("guessed", False) is guessed


@pytest.mark.parametrize(("borne_out", "guessed"), [(True, False), (False, True)])
def test_memory_that_was_only_asked_for_is_never_certain(borne_out: bool, guessed: bool) -> None:
    def refused(size: int | None, *, held: int = 0, sure: bool = False) -> dict[str, Any] | None:  # noqa: ARG001 - the meter's
        assert not sure
        return {"name": "memory"} if borne_out or size else None

    none: Any = None
    meter: Any = SimpleNamespace(refused=refused)
    plan = SimpleNamespace(sizes=SimpleNamespace(memory_bytes=1 << 30))
    current: Any = SimpleNamespace(
        worker_pid=os.getpid(), limits_set=set(), preparation=SimpleNamespace(plan=plan)
    )
    entry: Any = SimpleNamespace(site="", size=1 << 50, held=0, returncode=None)
    told = LimitEvidence(none, meter).measured(current, "memory", entry)
    assert told is not None
    assert told.get("guessed", False) is guessed


@pytest.mark.parametrize(
    ("size", "limit", "set_inside", "sure"),
    [
        (80 << 20, 300 << 20, False, True),
        (80 << 20, 500 << 20, False, False),
        (80 << 20, 300 << 20, True, False),  # perhaps the program's own limit
        (2 << 30, 300 << 20, False, False),  # more than there ever is
    ],
)
def test_an_allocation_that_the_limit_in_force_has_no_room_for(
    monkeypatch: pytest.MonkeyPatch, size: int, limit: int, *, set_inside: bool, sure: bool
) -> None:
    monkeypatch.setattr(limit_evidence, "_limit_of", lambda *_: limit)
    monkeypatch.setattr(limit_evidence, "data_held", lambda *_: 250 << 20)
    meter: Any = SimpleNamespace(
        refused=lambda _size, *, held=0, sure=False: {"name": "memory"} if held and sure else None
    )
    plan = SimpleNamespace(sizes=SimpleNamespace(memory_bytes=1 << 30))
    current: Any = SimpleNamespace(
        worker_pid=os.getpid(),
        limits_set={resource.RLIMIT_DATA} if set_inside else set(),
        preparation=SimpleNamespace(plan=plan),
    )
    none: Any = None
    entry: Any = SimpleNamespace(site="", size=size, held=250 << 20, returncode=None)
    told = LimitEvidence(none, meter).measured(current, "memory", entry)
    assert told == ({"name": "memory", "guessed": True} if sure else None)


_HELD_MIB = 300
_GIVES_BACK = f"""
def load():
    return len(bytearray({_HELD_MIB} << 20))
def data():
    return int(open("/proc/self/statm").read().split()[5]) << 12
load()
print(data(), flush=True)
input()
"""


def test_what_was_given_back_is_borne_out_by_the_peak_alone() -> None:
    child = subprocess.Popen(
        [sys.executable, "-c", _GIVES_BACK], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    try:
        now = int(child.stdout.readline())
        said = now + (_HELD_MIB << 20)
        assert data_held(child.pid, said - (1 << 20)) == said - (1 << 20)
        # What it can't have had is not believed.
        assert said - (8 << 20) <= data_held(child.pid, 1 << 50) <= said + (8 << 20)
        assert data_held(child.pid, -1) == 0
    finally:
        child.communicate("\n")
    assert data_held(child.pid, said) == 0


def _event(**fields: Any) -> dict[str, Any]:
    told = {"name": "memory", "stage": "refused", "used": 1 << 29, "allowed": 1 << 30, "unit": "bytes"}
    return {**told, "profile": "strict", "own": False, "backend": "fallback", "detail": "", **fields}


def test_words_of_memory_name_no_error_that_the_cell_did_not_get() -> None:
    for fields, word in (({"wanted": "thread"}, "thread"), ({}, "refused"), ({"machine": True}, "refused")):
        told = complete(limit_violation(_event(**fields), id="x", time_ms=0)).message
        assert told is not None
        assert word in told.en
        assert "MemoryError" not in told.en + told.zh


def test_the_error_has_the_remedy_that_the_box_has() -> None:
    code = "ts = [threading.Thread(target=f) for _ in range(300)]"
    asked: list[dict[str, Any]] = []
    host: Any = SimpleNamespace(
        lifecycle=SimpleNamespace(told={}),
        violation_words=SimpleNamespace(complete=lambda violation: asked.append(violation) or violation),
    )
    cell: Any = SimpleNamespace(request=SimpleNamespace(msg_id="cell-1"), code=code)
    limit = _event(name="pids", used=170, allowed=176, unit="count", owed=True)
    assert Limits(host).explained(limit, {}, cell) is not None
    assert asked[0]["cell"] == "cell-1", "whose code says how many there are to be"
