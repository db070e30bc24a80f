"""Notes of what is started change nothing in how it starts, and say nothing that is no longer so."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

from sentinel_kernel.worker.started import OVERFULL, SLOT_BYTES

THREADS_OF_ALL_KINDS = """
class Raising(threading.Thread):
    name = property(lambda self: 1 / 0, lambda self, value: None)

class Exiting(threading.Thread):
    @property
    def name(self):
        raise SystemExit
    @name.setter
    def name(self, value):
        self._name = value

class Hiding(threading.Thread):
    __dict__ = property(lambda self: 1 / 0)
    def __getattribute__(self, name):
        if name in ("_name", "name", "__dict__"):
            raise LookupError(name)
        return super().__getattribute__(name)

class Text(str):
    def encode(self, *arguments):
        raise OSError

for kind in (Raising, Exiting, Hiding):
    done = threading.Event()
    thread = kind(target=done.set, daemon=True)
    thread.start()
    thread.join()
    told.append(done.is_set())
thread = threading.Thread(target=lambda: told.append("ran"), name=Text("odd"))
thread.start()
thread.join()
thread = threading.Thread(target=lambda: told.append(noted_thread(threading.get_native_id())), name="reader")
thread.start()
thread.join()
"""

START = """\
import json, os, subprocess, sys, threading
import _posixsubprocess
from sentinel_kernel.worker.started import OVERFULL, REFUSED, SLOT_BYTES, SLOTS, THREAD_BYTES, note_starts
descriptor = os.memfd_create("notes")
os.ftruncate(descriptor, int(sys.argv[1]))
kept = os.dup(descriptor)
note_starts(descriptor)
def noted(number):
    return os.pread(kept, SLOT_BYTES, number % SLOTS * SLOT_BYTES).rstrip(b"\\0").decode()
def noted_thread(number):
    at = SLOTS * SLOT_BYTES + number % 512 * THREAD_BYTES
    return os.pread(kept, THREAD_BYTES, at).rstrip(b"\\0").decode() == f"{number} reader"
def refused():
    return os.pread(kept, SLOT_BYTES, REFUSED).rstrip(b"\\0").decode()
def overfull():
    return os.pread(kept, SLOT_BYTES, OVERFULL).rstrip(b"\\0").decode().partition(" ")[2]
told = []
exec(compile(sys.stdin.read(), "/tmp/ipykernel_1/cell.py", "exec"))
print(json.dumps(told))
"""


def told_by(code: str) -> list[Any]:
    """Return what ``code`` told in a process that notes its starts."""
    size = OVERFULL + SLOT_BYTES
    ran = subprocess.run(
        [sys.executable, "-c", START, str(size)],
        input=code,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=60,
    )
    told: list[Any] = json.loads(ran.stdout)
    return told


def test_threads_start_whatever_their_name_does() -> None:
    told = told_by(THREADS_OF_ALL_KINDS)
    assert told == [True, True, True, "ran", True]


def test_a_start_that_fails_leaves_no_line_to_what_is_started_later() -> None:
    told = told_by(
        "import subprocess\n"
        "started = subprocess.Popen(['true'])\n"
        "told.append('line 2 in <module>' in noted(started.pid))\n"
        "started.wait()\n"
        "try:\n"
        "    subprocess.Popen(['true'], env={'a': object()})\n"
        "except TypeError:\n"
        "    told.append('env')\n"
        "try:\n"
        "    _posixsubprocess.fork_exec('too few')\n"
        "except TypeError:\n"
        "    told.append('raised')\n"
        "told.append(noted(os.getpid()).split())\n"
        "told.append(os.getpid())\n"
    )
    *rest, noted, number = told
    assert rest == [True, "env", "raised"]
    assert noted == [str(number)]


def test_starts_that_are_refused_are_noted_with_the_line_where_the_program_swallows_them() -> None:
    told = told_by(
        "import time\n"
        "before = time.monotonic_ns()\n"
        "def start():\n"
        "    try:\n"
        "        threading.Thread(target=print).start()\n"
        "    except RuntimeError as error:\n"
        "        told.append([str(error), any('started.py' in one.f_code.co_filename for one in frames(error))])\n"
        "def frames(error):\n"
        "    trace = error.__traceback__\n"
        "    while trace is not None:\n"
        "        yield trace.tb_frame\n"
        "        trace = trace.tb_next\n"
        "threading.stack_size(1 << 46)\n"
        "start()\n"
        "told.append([refused(), threading.stack_size()])\n"
        "threading.stack_size(0)\n"
        "name = next(name for name in ('_start_joinable_thread', '_start_new_thread') if hasattr(threading, name))\n"
        "starts = getattr(threading, name)\n"
        "def refuse(*arguments, **options):\n"
        '    raise RuntimeError("can\'t start new thread")\n'
        "setattr(threading, name, refuse)\n"
        "start()\n"
        "setattr(threading, name, starts)\n"
        "at, _, rest = refused().partition(' ')\n"
        "told.append([int(at) >= before, rest])\n"
        "done = threading.Thread(target=lambda: told.append('ran'))\n"
        "done.start()\n"
        "done.join()\n"
        "told.append([threading.active_count(), len(threading._limbo)])\n"
    )
    line = '  File "/tmp/ipykernel_1/cell.py", line {} in {}\n'
    stack = (
        "thread started (most recent call first):\n" + line.format(5, "start") + line.format(22, "<module>")
    )
    failed = ["can't start new thread", False]
    assert told == [failed, ["", 1 << 46], failed, [True, stack], "ran", [1, 0]]


BUS = """
import asyncio, multiprocessing, signal, time
before = time.monotonic_ns()
def ends(number):
    return ["/bin/sh", "-c", f"kill -{number} $$"]
def end():
    os.kill(os.getpid(), signal.SIGBUS)
told.append([subprocess.run(ends(9)).returncode, subprocess.run(["/bin/sh", "-c", "exit 7"]).returncode, overfull()])
one = subprocess.Popen(ends(7))
told.append([one.wait(), one.poll(), vars(one)["returncode"], overfull()])
told.append([subprocess.run(["/bin/sh", "-c", "exit 135"]).returncode, overfull()])
process = multiprocessing.get_context("fork").Process(target=end)
process.start()
process.join()
told.append([process.exitcode, overfull()])
async def start():
    process = await asyncio.create_subprocess_exec(*ends(7))
    return await process.wait()
told.append([asyncio.run(start()), overfull()])
at = int(os.pread(kept, SLOT_BYTES, OVERFULL).split()[0])
told.append(before <= at <= time.monotonic_ns())
waiting = subprocess.Popen(["sleep", "60"])
signal.signal(signal.SIGALRM, lambda *_: 1 / 0)
for wait in (waiting.wait, lambda: waiting.communicate()):
    signal.setitimer(signal.ITIMER_REAL, 0.05)
    try:
        wait()
    except ZeroDivisionError as error:
        trace = error.__traceback__
        while trace is not None:
            told.append("started.py" in trace.tb_frame.f_code.co_filename)
            trace = trace.tb_next
waiting.kill()
told.append(waiting.wait())
"""


def test_who_was_ended_by_sigbus_is_noted_with_the_line_that_started_it_where_python_learns_of_it() -> None:
    lines = BUS.split("\n")

    def stack(code: str, function: str = "<module>") -> str:
        line = next(number for number, text in enumerate(lines, 1) if code in text)
        return f'  File "/tmp/ipykernel_1/cell.py", line {line} in {function}\n'

    killed, first, shell, forked, awaited, at, *frames, ended = told_by(BUS)
    assert killed == [-9, 7, ""]
    assert first[:3] == [-7, -7, -7]
    assert first[3].endswith(stack("Popen(ends(7))"))
    assert shell[0] == 135
    assert shell[1].endswith(stack("exit 135"))
    assert forked[0] == -7
    assert forked[1].endswith(stack("process.start()"))
    assert awaited[0] == -7
    assert stack("await asyncio", "start") in awaited[1]
    assert at is True
    assert frames
    assert not any(frames)
    assert ended == -9
