"""Files watched for events: a look is bounded however many descriptors there are, and who only might hide is let be."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from sentinel_kernel.linux import same_file
from sentinel_kernel.linux.epoll import sets_among
from sentinel_kernel.supervisor import watched_files, watched_sets
from sentinel_kernel.supervisor.watched_files import WatchedFiles
from sentinel_kernel.supervisor.watched_sets import Look

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_MOST = 1 << 18
_GROWN = 2 * _MOST * 200

_FORKED = """
import os, resource, select, signal, sys

files, children, own = map(int, sys.argv[1:])
resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
opened = [os.eventfd(0) for _ in range(files)]
sets = [select.epoll() for _ in range(3)]
for one in sets:
    for file in opened[:10]:
        one.register(file, select.EPOLLIN)
pids = [os.getpid()]
reader, writer = os.pipe()
for _ in range(children):
    pids.append(os.fork())
    if pids[-1] == 0:
        for _ in range(own):
            sets.append(select.epoll())
            sets[-1].register(opened[0], select.EPOLLIN)
        os.write(writer, b"x")
        while True:
            signal.pause()
for _ in range(children):
    os.read(reader, 1)
print(*pids, flush=True)
signal.pause()
"""


@pytest.fixture
def forked() -> Iterator[Callable[..., list[int]]]:
    """Return who starts a process with so many files, children that have them too, and ten of them in each of 3 sets.

    Each child may have so many sets of one file of its own. The numbers of all of them.
    """
    started: list[subprocess.Popen[bytes]] = []

    def start(files: int, children: int, own: int = 0) -> list[int]:
        command = [sys.executable, "-c", _FORKED, str(files), str(children), str(own)]
        started.append(subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True))
        assert started[-1].stdout is not None
        return list(map(int, started[-1].stdout.readline().split()))

    yield start
    for process in started:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def test_a_look_goes_on_piece_by_piece_and_reads_what_many_share_once(
    forked: Callable[..., list[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    pids = forked(3500, 110)
    work = {"calls": 0, "reads": 0, "clock": 0.0}
    reading, asking = watched_sets._read, os.readlink

    def clock() -> float:
        work["clock"] += 0.0005  # it is asked twice a step
        return work["clock"]

    def read(*of: Any) -> tuple[int, bytes]:
        work["reads"] += 1
        return reading(*of)

    def readlink(path: str, **of: Any) -> str:
        work["calls"] += 1
        return asking(path, **of)

    def among(thread: int, files: list[int], number: int) -> Iterator[tuple[int, bool | OSError]]:
        work["calls"] += len(files)
        return sets_among(thread, files, number)

    monkeypatch.setattr(watched_sets, "sets_among", among)
    monkeypatch.setattr(watched_sets, "_read", read)
    monkeypatch.setattr(watched_sets, "time", SimpleNamespace(monotonic=clock, thread_time=clock))
    monkeypatch.setattr(watched_sets, "os", SimpleNamespace(**vars(os) | {"readlink": readlink}))
    look = Look(pids, 0, None, _MOST)
    pieces, before, most = 0, 0.0, 0.0
    for sockets in (False, True):
        if sockets:
            look.ask_sockets()
        complete = False
        while not complete:
            complete = look.piece()
            pieces += 1
            most, before = max(most, work["calls"] - before), work["calls"]
    steps = watched_sets._PIECE_SECONDS / 0.001
    assert most <= (steps + 1) * (watched_sets._BATCH + 1)
    assert work["calls"] > 2 * 3500 * 110
    assert pieces >= work["calls"] / most
    assert (look.total, look.unsure, work["reads"]) == (30, 0, 3)
    assert look.of == dict.fromkeys(pids, 30)
    assert not look.closed


def test_sets_that_can_not_be_told_apart_are_one_for_sure_and_several_at_most(
    forked: Callable[..., list[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: Any) -> int:
        raise PermissionError

    monkeypatch.setattr(watched_sets, "compare_files", refused)
    look = Look(forked(20, 4), 0, None, _MOST)
    while not look.piece():
        pass
    assert 10 <= look.total <= 30
    assert look.total + look.unsure == 150


def test_a_set_whose_holders_have_ended_is_counted_by_who_has_it_still(
    forked: Callable[..., list[int]],
) -> None:
    pids = forked(20, 3)
    look = Look(pids[:2], 0, None, _MOST)
    while not look.piece():
        pass
    os.kill(pids[1], signal.SIGKILL)
    os.kill(pids[0], signal.SIGKILL)
    while os.path.exists(f"/proc/{pids[0]}/task/{pids[0]}/fd/0"):
        pass
    look._steps = look._walk(pids[2:])
    while not look.piece():
        pass
    assert look.total == 30


@pytest.mark.parametrize("told_apart", [True, False])
def test_what_many_small_sets_cost_a_look_is_bounded_and_the_rest_counts_as_not_seen(
    told_apart: bool, forked: Callable[..., list[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    pids = forked(1, 4, 400)
    work = {"compared": 0, "read": 0}
    comparing, reading = same_file.compare_files, watched_sets._read

    def compare(*of: Any) -> int | None:
        work["compared"] += 1
        if not told_apart:
            raise PermissionError
        return comparing(*of)

    def read(*of: Any) -> tuple[int, bytes]:
        work["read"] += 1
        return reading(*of)

    monkeypatch.setattr(watched_sets, "compare_files", compare)
    monkeypatch.setattr(watched_sets, "_read", read)
    looks = []
    for most in (watched_sets._MOST_CALLS, 4000):
        monkeypatch.setattr(watched_sets, "_MOST_CALLS", most)
        monkeypatch.setattr(watched_sets, "_MOST_CALLS_EACH", 100)
        work.update(compared=0, read=0)
        looks.append(Look(pids, 0, None, _MOST))
        while not looks[-1].piece():
            pass
    whole, part = looks
    if told_apart:
        assert (whole.total, whole.unsure) == (4 * 400 + 3, 0)
    assert not whole.unread
    bound = 4000 + 100 * len(pids)
    cost = work["compared"] + watched_sets._READ_CALLS * work["read"]
    assert bound - 50 < cost < bound + 50
    assert sum(part.of.values()) + sum(part.unread.values()) == sum(whole.of.values())
    assert set(part.unread) <= set(pids[1:])
    assert pids[4] in part.unread


def test_sets_are_told_apart_up_to_a_number_and_further_ones_are_several_at_most(
    forked: Callable[..., list[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    pids = forked(1, 3, 100)
    compared = []

    def compare(*of: Any) -> int | None:
        compared.append(of)
        return same_file.compare_files(*of)

    monkeypatch.setattr(watched_sets, "compare_files", compare)
    monkeypatch.setattr(watched_sets, "_TOLD_APART", 64)
    look = Look(pids, 0, None, _MOST)
    while not look.piece():
        pass
    assert len(compared) <= 64 * 7 + 3 * 7
    assert 64 <= look.total < 100
    # The first three are told apart of two processes, and read once more in the others.
    assert look.total + look.unsure == 3 * 100 + 3 + 2 * 3
    assert look.of == {pids[0]: 3, **dict.fromkeys(pids[1:], 103)}


def test_descriptors_are_not_looked_for_in_long_sets_once_one_is_known(
    forked: Callable[..., list[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    pids = forked(200, 6)
    asked: list[int] = []

    def among(thread: int, files: list[int], number: int) -> Iterator[tuple[int, bool | OSError]]:
        asked.extend(files)
        return sets_among(thread, files, number)

    monkeypatch.setattr(watched_sets, "sets_among", among)
    for long, tables in ((watched_sets._LONG, len(pids)), (10, 1)):
        asked.clear()
        monkeypatch.setattr(watched_sets, "_LONG", long)
        look = Look(pids, 0, None, _MOST)
        while not look.piece():
            pass
        assert 203 * tables <= len(asked) <= 220 * tables
        assert (look.total, look.unsure, look.of) == (30, 0, dict.fromkeys(pids, 30))


@pytest.mark.parametrize(("most", "seen", "total"), [(19, 1, 20), (29, 1, 30), (32, 1, 33), (33, 5, 42)])
def test_nothing_else_is_looked_at_once_one_has_too_much(
    most: int, seen: int, total: int, forked: Callable[..., list[int]]
) -> None:
    pids = forked(20, 4, 3)[::-1]
    look = Look(pids, 0, None, most)
    while not look.piece():
        pass
    assert list(look.of) == pids[:seen]
    assert look.total == total


def test_a_set_with_several_descriptors_in_one_process_counts_for_it_once() -> None:
    pid, found, opened = os.getpid(), [], [os.eventfd(0)]
    with select.epoll() as watching:
        watching.register(opened[0], select.EPOLLIN)
        try:
            for _ in range(2):
                look = Look([pid], 0, None, _MOST)
                while not look.piece():
                    pass
                found.append((look.total, look.of[pid]))
                opened += [os.dup(watching.fileno()) for _ in range(3)]
        finally:
            for descriptor in opened:
                os.close(descriptor)
    assert found[0] == found[1]
    assert found[0][0] > 0


class _Held:
    """A sandbox in which looks find what they are told to, on a machine whose own memory is what it is told to be."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, **found: Any) -> None:
        self.found: dict[str, Any] = found
        self.pieces, self.memory, self.clock = 1, 1 << 30, 1000.0
        self.killed: list[int] = []
        self.told: list[dict[str, Any]] = []
        self.looks = 0
        self.order: list[int] = []
        self.ran: dict[int, float] = {}
        processes: Any = _Processes([SimpleNamespace(pid=pid) for pid in (7, 8, 9)])
        current: Any = SimpleNamespace(
            worker_pid=7,
            sandbox=SimpleNamespace(pid=1),
            own_limits=set(),
            backend=SimpleNamespace(name="none"),
            preparation=SimpleNamespace(profile=SimpleNamespace(name="strict")),
        )
        monkeypatch.setattr(watched_sets, "Look", self._look)
        self.idle = False
        ran = lambda pid: self.ran.get(pid, 0.0) + (0 if self.idle else self.clock)  # noqa: E731
        monkeypatch.setattr(watched_files, "process_seconds", ran)
        monkeypatch.setattr(watched_files, "_kernel_bytes", lambda: self.memory)
        monkeypatch.setattr(
            watched_files,
            "time",
            SimpleNamespace(monotonic=lambda: self.clock, process_time=time.process_time),
        )
        self.watches = WatchedFiles(current, processes, None)
        self.watches._allowed = _MOST

    def _look(self, pids: list[int], *_: Any) -> Any:
        self.looks += 1
        self.order = pids
        left = iter(range(self.pieces - 1))
        look = SimpleNamespace(
            **{"total": 0, "unsure": 0, "of": {}, "closed": {}, "held": {}, "unread": {}, **self.found},
            asked_sockets=False,
            piece=lambda: next(left, None) is None,
        )
        look.ask_sockets = lambda: setattr(look, "asked_sockets", True)
        return look

    def _kill(self, worst: Any) -> bool:
        self.killed.append(worst.pid)
        return True

    def sample(self, times: int = 1) -> list[int]:
        """Take samples a second apart; return who was killed so far."""
        headroom: Any = SimpleNamespace(waits_for_death=False, kill=self._kill)
        for _ in range(times):
            self.clock += 1
            assert self.watches.hold(headroom, self.told.append, lambda *_: {}) is None
        return self.killed


class _Processes(list[Any]):
    """Processes of a sandbox."""

    first = 1


@pytest.mark.parametrize(
    ("found", "killed"),
    [
        ({"closed": {8: 40}}, [8]),
        ({"closed": {8: 5, 9: 8}}, []),
        ({"held": {9: 3}}, [9]),
        ({"unread": {8: 1}}, [8]),
        ({"unread": {8: 1, 9: 3000}}, [9]),
        ({"unsure": _MOST // 2}, []),
        ({"unsure": _MOST * 4, "of": {8: _MOST * 4}}, [8]),
        ({}, []),
    ],
    ids=[
        "closed",
        "closed, few descriptors",
        "in messages",
        "one set not read",
        "sets not read",
        "alike, few",
        "alike, many",
        "nothing hidden",
    ],
)
def test_memory_that_is_not_explained_is_of_those_alone_that_may_hide_so_much(
    found: dict[str, Any], killed: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    held = _Held(monkeypatch, **found)
    held.memory += _GROWN
    assert held.sample(3) == killed
    assert held.looks > 0
    assert [limit["name"] for limit in held.told] == ["watches"] * len(killed)


def test_memory_that_grows_while_nobody_inside_runs_is_not_even_a_reason_to_look(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    held = _Held(monkeypatch, closed={8: 400})
    held.idle = True
    held.sample()
    held.memory += _GROWN
    assert held.sample(3) == []
    assert held.looks == 0
    held.idle = False
    held.memory += _GROWN
    assert held.sample(3) == [8]


def test_nobody_is_killed_for_what_a_part_of_a_look_has_found(monkeypatch: pytest.MonkeyPatch) -> None:
    held = _Held(monkeypatch, total=2 * _MOST, of={8: 2 * _MOST})
    held.pieces = 4
    held.memory += _GROWN
    assert held.sample(3) == []
    assert held.watches.soon(2.0) < 0.1
    assert held.sample() == [8]
    assert held.looks == 1


def test_what_was_seen_of_a_process_before_it_closed_is_still_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    held = _Held(monkeypatch, total=_MOST - 1000, of={8: _MOST - 1000})
    held.memory += _MOST * 200
    assert held.sample(2) == []
    held.found = {"closed": {8: 1000}}
    held.memory += _MOST * 200
    assert held.sample(2) == [8]


def test_memory_that_a_killed_process_has_not_given_back_yet_is_no_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    held = _Held(monkeypatch, closed={8: 400, 9: 30})
    held.memory += _GROWN
    assert held.sample(2) == [8]
    held.found = {"closed": {9: 30}}
    assert held.sample(4) == [8]
    held.memory -= _GROWN
    assert held.sample(20) == [8]


def test_who_has_run_most_since_the_last_sample_is_looked_at_first(monkeypatch: pytest.MonkeyPatch) -> None:
    held = _Held(monkeypatch)
    held.ran = {7: 500.0, 9: 1.0}
    held.sample()
    held.memory += _GROWN
    held.ran = {7: 500.1, 8: 0.2, 9: 1.9}
    held.sample()
    assert held.order == [9, 8, 7]
    held.found = {"unread": {9: 1, 8: 1}}
    held.memory += _GROWN
    held.ran[7] += 0.001
    assert held.sample(4) == [9]
    held.sample()
    assert held.order == [8, 9, 7]


def test_a_look_begins_anew_where_as_much_as_a_share_has_come_meanwhile_and_comes_to_an_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    held = _Held(monkeypatch)
    held.pieces = 1000
    held.memory += _GROWN
    held.sample(2)
    looks = []
    for _ in range(7):
        held.memory += _MOST * 200 + 1
        held.sample()
        looks.append(held.looks)
    assert looks == [2, 2, 3, 3, 3, 3, 4]  # after one share, two more, four more
    held.memory += _GROWN
    held.sample(1000)
    assert held.looks == 4
    assert held.watches._look is None


def test_memory_that_others_take_while_nobody_inside_runs_does_not_begin_a_look_anew(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    held = _Held(monkeypatch)
    held.pieces = 1000
    held.memory += _GROWN
    held.sample(2)
    held.idle = True
    held.sample()
    held.memory += _GROWN
    held.sample(2)
    assert held.looks == 1


def test_after_a_long_look_the_next_waits_unless_as_much_as_a_share_has_come(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    held = _Held(monkeypatch)
    held.memory += _GROWN
    held.sample(2)
    assert held.looks == 1
    held.watches._not_before = held.clock + 1000
    held.memory += _MOST * 200
    held.sample()
    assert held.looks == 1
    held.memory += 1
    held.sample()
    assert held.looks == 2


def test_what_is_seen_needs_nothing_hidden_where_it_is_too_much_by_itself(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    held = _Held(monkeypatch, total=_MOST + 1, of={8: _MOST + 1}, closed={9: 40})
    held.memory += 3 * _GROWN
    assert held.sample() == [8]
    assert [limit["used"] for limit in held.told] == [_MOST + 1]
