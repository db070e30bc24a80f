"""One stack at a time is asked for; what waits for its turn is answered in time, whatever the other end does."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from waiting import wait_until

from sentinel_kernel.policy.cell_lines import file_name
from sentinel_kernel.supervisor import held_line
from sentinel_kernel.supervisor.held_line import HeldLine
from sentinel_kernel.supervisor.thread_signals import catches
from sentinel_kernel.supervisor.thread_time import ThreadTime
from sentinel_kernel.supervisor.worker_link import STACK_SIGNAL

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sentinel_kernel.policy.stack_dump import Place

CELL = "def f():\n    wait()\n\ndef g():\n    wait()\n"
NAME = f"/tmp/ipykernel_1/{file_name(CELL)}.py"
WORKER = f"""\
import ctypes, faulthandler, os, sys, threading
pipe = int(sys.argv[1])
faulthandler.register({STACK_SIGNAL}, file=pipe, all_threads=False)
faulthandler.register({STACK_SIGNAL - 1}, file=pipe, all_threads=True)
threads = []
def wait():
    threads.append(threading.get_native_id())
    here.wait()
    threading.Event().wait()
here = threading.Barrier(3)
exec(compile({CELL!r}, {NAME!r}, "exec"))
for function in (f, g):
    threading.Thread(target=function, daemon=True).start()
    while len(threads) < 1 + (function is g): pass
here.wait()
# A thread that has no Python: the C library's own.
libc = ctypes.CDLL(None)
number = ctypes.c_ulong()
libc.pthread_create(ctypes.byref(number), None, libc.pause, None)
while len(os.listdir("/proc/self/task")) < 4: pass
known = {{os.getpid(), *threads}}
print(*threads, *(set(map(int, os.listdir("/proc/self/task"))) - known), flush=True)
sys.stdin.read()
"""


class Worker:
    """A process with two threads that wait in a cell's functions, and one without Python."""

    def __init__(self) -> None:
        reader, self.writer = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self.process = subprocess.Popen(
            [sys.executable, "-c", WORKER, str(self.writer)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            pass_fds=[self.writer],
        )
        assert self.process.stdout is not None
        self.first, self.second, self.bare = map(int, self.process.stdout.readline().split())
        # A thread is born with its signals blocked: on a busy machine it is a while until it unblocks them.
        wait_until(lambda: catches(self.bare, STACK_SIGNAL), "the thread without Python runs")
        self.line = HeldLine(reader, STACK_SIGNAL)
        self.line.begin_cell({"msg_id": "cell", "code": CELL})
        self.events: list[Any] = []

    def ask(self, name: str, thread: int) -> None:
        """Ask as for a held call, and note what comes of it."""

        def found(place: Place | None) -> None:
            self.events.append((name, place and place.line))

        self.line.ask_held(self.process.pid, thread, found, lambda: self.events.append((name, "answered")))

    def turn(self) -> None:
        """Serve the pipe as the supervisor's loop does."""
        due = self.line.due_seconds()
        if select.select([self.line.descriptor], [], [], 0.01 if due is None else min(due, 0.01))[0]:
            self.line.readable()
        self.line.settle()

    def settles(self) -> bool:
        """Return whether nothing is under way any more."""
        self.turn()
        return not self.line.expected

    def stop(self) -> None:
        """Stop it, so that it gets no signal."""
        self.process.send_signal(signal.SIGSTOP)
        threads = [
            Path(f"/proc/{self.process.pid}/task/{thread}/stat") for thread in (self.first, self.second)
        ]
        wait_until(lambda: all(") T " in thread.read_text() for thread in threads), "it has stopped")

    def close(self) -> None:
        """End it."""
        self.process.kill()
        self.process.communicate()
        self.line.close()
        os.close(self.writer)


@pytest.fixture
def worker() -> Iterator[Worker]:
    worker = Worker()
    yield worker
    worker.close()


def test_two_threads_get_their_lines_one_after_the_other(worker: Worker) -> None:
    worker.ask("first", worker.first)
    worker.ask("second", worker.second)
    assert worker.events == [("first", "answered")]  # the second stays held meanwhile
    wait_until(worker.settles, "both stacks have come")
    assert worker.events == [
        ("first", "answered"),
        ("first", 2),
        ("second", "answered"),
        ("second", 5),
    ]


def test_a_thread_without_python_holds_nobody_up_for_good(worker: Worker) -> None:
    worker.ask("bare", worker.bare)
    worker.ask("second", worker.second)
    wait_until(worker.settles, "the other one's stack has come")
    assert worker.events[:2] == [("bare", "answered"), ("bare", None)]
    assert sorted(map(str, worker.events[2:])) == ["('second', 'answered')", "('second', 5)"]


def test_a_thread_that_has_no_processor_is_not_given_up(
    worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    class NoTime(ThreadTime):
        """That of one which waits for a processor until there is one."""

        has_one = False

        def seconds(self) -> float:
            return super().seconds() if self.has_one else 0.0

    monkeypatch.setattr(held_line, "ThreadTime", NoTime)
    worker.ask("bare", worker.bare)  # it takes the signal at once, and writes nothing
    until = time.monotonic() + 0.5
    while time.monotonic() < until:
        assert not worker.settles()
    NoTime.has_one = True
    wait_until(worker.settles, "it was given up")
    assert worker.events == [("bare", "answered"), ("bare", None)]


def test_what_waits_for_a_stopped_process_is_answered_in_time(worker: Worker) -> None:
    worker.stop()
    worker.ask("first", worker.first)
    worker.ask("second", worker.second)
    wait_until(worker.settles, "all was given up")
    assert worker.events == [
        ("first", "answered"),
        ("second", None),
        ("second", "answered"),
        ("first", None),
    ]


def test_a_process_that_gave_up_the_pipe_is_not_signalled(worker: Worker) -> None:
    assert worker.line.ask(worker.process.pid, worker.first, lambda _: None)
    wait_until(worker.settles, "the pipe is known")
    code = f"import signal, sys\nsignal.signal({STACK_SIGNAL}, print)\nprint(flush=True)\nsys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        assert other.stdout is not None
        other.stdout.readline()
        assert not worker.line.ask(other.pid, other.pid, lambda _: None)
        other.communicate()
    assert not worker.line.ask(1, 1, lambda _: None)


def test_of_all_stacks_the_one_that_is_looked_for(worker: Worker) -> None:
    found: list[Place | None] = []
    pid = worker.process.pid
    assert worker.line.ask_beside(pid, {pid, worker.bare}, found.append)
    wait_until(worker.settles, "all stacks have come")
    assert found == [None]  # two threads are in the cell


def test_what_a_child_asks_for_is_answered_behind_the_stacks_of_who_waits_for_it(worker: Worker) -> None:
    """Else it would end, and the cell be at its next line: on a busy machine before the stacks are written."""
    worker.stop()
    pid, line = worker.process.pid, worker.line
    worker.ask("first", worker.first)
    line.ask_who_waits(
        pid, lambda place: worker.events.append(("child", place)), lambda: worker.events.append("end")
    )
    line.ask_who_waits(
        pid, lambda place: worker.events.append(("other", place)), lambda: worker.events.append("end")
    )
    assert worker.events == [("first", "answered")]
    worker.process.send_signal(signal.SIGCONT)
    wait_until(worker.settles, "all stacks have come")
    two_threads_wait = [("child", None), "end", ("other", None), "end"]
    assert worker.events == [("first", "answered"), ("first", 2), *two_threads_wait]


def test_what_was_not_asked_for_is_no_part_of_a_stack(worker: Worker) -> None:
    line = worker.line
    os.write(worker.writer, b"x" * 60000)
    assert line.ask(worker.process.pid, worker.first, lambda place: worker.events.append(("first", place)))
    wait_until(worker.settles, "the stack has come")
    ((_, place),) = worker.events
    assert place is not None
    assert place.line == 2


def test_what_is_still_awaited_at_the_end_is_told(worker: Worker) -> None:
    worker.stop()
    worker.ask("first", worker.first)
    worker.ask("second", worker.second)
    told: list[str] = []
    worker.line.afterwards(lambda: told.append("event"))
    reader = os.dup(worker.line.descriptor)
    worker.line.close()
    assert worker.events == [
        ("first", "answered"),
        ("first", None),
        ("second", None),
        ("second", "answered"),
    ]
    assert told == ["event"]
    worker.line = HeldLine(reader, STACK_SIGNAL)


def test_a_crash_is_told_by_its_last_words(worker: Worker) -> None:
    crash = f'Fatal Python error: Aborted\n\nStack (most recent call first):\n  File "{NAME}", line 5 in g\n'
    os.write(worker.writer, b"noise\n" + crash.encode())
    place = worker.line.crash()
    assert place is not None
    assert (place.line, place.function) == (5, "g")
    assert worker.line.crash() is None


def test_bytes_that_go_on_coming_put_no_stack_off_for_good(worker: Worker) -> None:
    worker.stop()
    worker.ask("first", worker.first)

    def settles_under_noise() -> bool:
        os.write(worker.writer, b"x")
        return worker.settles()

    wait_until(settles_under_noise, "the dump was given up")
    assert worker.events == [("first", "answered"), ("first", None)]


def test_a_childs_crash_in_an_earlier_cell_is_not_told_as_the_workers(worker: Worker) -> None:
    crash = f'Fatal Python error: Aborted\n\nStack (most recent call first):\n  File "{NAME}", line 5 in g\n'
    os.write(worker.writer, crash.encode())
    worker.line.names.end("cell")
    worker.line.begin_cell({"msg_id": "next", "code": "pass"})
    assert worker.line.crash() is None
    # It may come later as well: a child of the earlier cell goes on in this one.
    os.write(worker.writer, crash.encode())
    place = worker.line.crash()
    assert place is not None
    assert (place.cell, place.line) == ("", None)
