"""Which processes are strays: those with a sandbox's mark that no warden of it is above."""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import signal
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from waiting import wait_until

from sentinel_kernel.abi.architecture import architecture_of
from sentinel_kernel.abi.resource import RLIMIT_LOCKS
from sentinel_kernel.policy.stray_marks import MARK_BYTES, mark_of, warden_mark
from sentinel_kernel.supervisor import strays, warden

if TYPE_CHECKING:
    from collections.abc import Iterator

MARK = mark_of(b"abcde"[:MARK_BYTES])


@contextlib.contextmanager
def chain(*marks: int) -> Iterator[list[int]]:
    """Give processes of which each is the parent of the next one, each with a limit of these (0: as it is)."""
    reading, writing = os.pipe()
    top = os.fork()
    if top == 0:
        os.setpgid(0, 0)
        for position, mark in enumerate(marks):
            if mark:
                resource.setrlimit(RLIMIT_LOCKS, (mark, mark))
            os.write(writing, b"%d\n" % os.getpid())
            if position + 1 < len(marks) and os.fork():
                break
        signal.pause()
        os._exit(0)
    os.close(writing)
    try:
        with os.fdopen(reading) as lines:
            yield [int(next(lines)) for _ in marks]
    finally:
        os.killpg(top, signal.SIGKILL)
        os.waitpid(top, 0)


@pytest.mark.parametrize(
    ("marks", "stray"),
    [
        ((MARK,), True),
        ((0, MARK, MARK), True),
        ((warden_mark(MARK), MARK, MARK), False),
        ((warden_mark(mark_of(b"abcdz")), MARK), True),
        ((0, 0), False),
        ((warden_mark(MARK),), False),
    ],
)
def test_a_stray_is_one_without_its_warden(marks: tuple[int, ...], stray: bool) -> None:
    with chain(*marks) as pids:
        assert strays._is_stray(pids[-1]) is stray
        assert strays._end(pids[-1]) is stray


def test_one_that_has_ended_is_none() -> None:
    gone = os.fork()
    if gone == 0:
        resource.setrlimit(RLIMIT_LOCKS, (MARK, MARK))
        os._exit(0)
    os.waitid(os.P_PID, gone, os.WEXITED | os.WNOWAIT)
    assert not strays._is_stray(gone)
    os.waitpid(gone, 0)
    assert not strays._is_stray(gone)


def test_one_whose_first_thread_has_ended_goes_on() -> None:
    going = os.fork()
    if going == 0:
        try:
            resource.setrlimit(RLIMIT_LOCKS, (MARK, MARK))
            threading.Thread(target=signal.pause).start()
            ctypes.CDLL(None).syscall(architecture_of(os.uname().machine).syscalls["exit"], 0)
        finally:
            os._exit(1)
    wait_until(
        lambda: b"State:\tZ" in Path(f"/proc/{going}/status").read_bytes(), "its first thread has ended"
    )
    assert strays._is_stray(going)
    assert strays._end(going)
    os.waitpid(going, 0)


class _Waits:
    """Notes for how long it is waited for."""

    def __init__(self) -> None:
        self.pauses: list[int] = []

    def poll(self, pause: int) -> list[tuple[int, int]]:
        self.pauses.append(pause)
        return []


def test_a_warden_looks_ever_less_often_for_what_does_not_die(monkeypatch: pytest.MonkeyPatch) -> None:
    waits, rounds = _Waits(), 14
    stuck = os.getppid()  # not below us: nothing is sent to it
    monkeypatch.setattr(warden, "processes_below", lambda _own: [stuck] if len(waits.pauses) < rounds else [])
    reading, writing = os.pipe2(os.O_NONBLOCK)
    try:
        watching = warden._Warden(None, os.getppid(), -1)  # type: ignore[arg-type] # it says nothing here
        monkeypatch.setattr(watching, "_reap", lambda: False)
        watching._end_all(waits, reading)  # type: ignore[arg-type] # as much of one as is used
    finally:
        os.close(reading)
        os.close(writing)
    assert waits.pauses[:3] == [2, 4, 8]
    assert waits.pauses[-1] == 1000
    assert waits.pauses == sorted(waits.pauses)
