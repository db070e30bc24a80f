"""Calls that are held: signals, deaths, odd pointers and many at once change no answer and no count."""

from __future__ import annotations

import contextlib
import os
import select
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import leaks
import pytest
from waiting import waits_in

if TYPE_CHECKING:
    from collections.abc import Callable

    from supervised import Supervised

pytestmark = [pytest.mark.sandbox, pytest.mark.requires("user_namespaces", "overlay")]

_ROUNDS = 60
_STOPPED_SECONDS = 0.015
_PREAMBLE = """
import ctypes, errno, json, os, select, signal, subprocess, sys, threading
LIBC = ctypes.CDLL(None, use_errno=True)

def refused(pointer=b"/tmp"):
    ctypes.set_errno(0)
    LIBC.chroot(ctypes.c_char_p(pointer) if isinstance(pointer, bytes) else ctypes.c_void_p(pointer))
    return errno.errorcode.get(ctypes.get_errno(), "ok")

def tell(value):
    with open(os.path.join(os.path.dirname(sys.argv[0]), "told.json"), "w") as file:
        json.dump(value, file)
"""
_TIMER = """
rung = 0
def ring(*_):
    global rung
    rung += 1
signal.signal(signal.SIGALRM, ring)
signal.siginterrupt(signal.SIGALRM, INTERRUPTS)
signal.setitimer(signal.ITIMER_REAL, 0.002, 0.002)
answers = [refused() for _ in range(ROUNDS)]
signal.setitimer(signal.ITIMER_REAL, 0)
tell([answers, rung])
"""


def _run(supervised: Supervised, workspace: Path, attack: str) -> Any:
    script = workspace / "held.py"
    script.write_text(_PREAMBLE + attack)
    script.chmod(0o644)
    cause = supervised.run(workspace, [supervised.python, str(script)])
    assert (cause["kind"], cause["status"]) == ("exit", 0), (cause, supervised.events)
    return supervised.saved_json("told.json")


def _stop_until_its_end(supervised: Supervised, look: Callable[[], None] | None = None) -> dict[str, Any]:
    """Stop the supervisor for 15 ms again and again, and ``look`` then; return the cause of the program's end.

    Whatever the supervisor is at, many signals come for who waits for it.
    """
    while True:
        try:
            message = supervised.receive(0.001)
        except TimeoutError:
            supervised.process.send_signal(signal.SIGSTOP)
            select.select([], [], [], _STOPPED_SECONDS)
            if look is not None:
                look()
            supervised.process.send_signal(signal.SIGCONT)
            continue
        assert message is not None, "the supervisor is gone"
        if message["event"] == "worker_died":
            cause: dict[str, Any] = message["cause"]
            return cause


def _counted(supervised: Supervised, call: str = "chroot") -> int:
    return sum(one["count"] for one in supervised.violations() if one["syscall"] == call)


def test_a_program_with_a_fast_timer_gets_its_answers_from_a_supervisor_that_is_slow(
    supervised: Supervised, workspace: Path
) -> None:
    script = workspace / "held.py"
    script.write_text(_PREAMBLE + _TIMER.replace("INTERRUPTS", "False").replace("ROUNDS", str(_ROUNDS)))
    script.chmod(0o644)
    supervised.start(workspace, payload=[supervised.python, str(script)])
    supervised.wait("ready")
    assert _stop_until_its_end(supervised)["status"] == 0
    answers, rung = supervised.saved_json("told.json")
    assert answers == ["EPERM"] * _ROUNDS
    assert rung > 0
    assert _counted(supervised) == _ROUNDS


def test_signals_that_interrupt_calls_make_no_second_record(supervised: Supervised, workspace: Path) -> None:
    attack = _TIMER.replace("INTERRUPTS", "True").replace("ROUNDS", str(_ROUNDS))
    answers, _ = _run(supervised, workspace, attack)
    # Before the supervisor has taken a call a signal may still end it (WAIT_KILLABLE_RECV).
    assert set(answers) <= {"EPERM", "EINTR"}
    assert _counted(supervised) == answers.count("EPERM") > 0


def test_pipelines_of_a_shell_never_wait_for_a_supervisor(supervised: Supervised, workspace: Path) -> None:
    attack = """
signal.signal(signal.SIGCHLD, lambda *_: None)
script = "i=0; while [ $i -lt 200 ]; do echo a | cat | cat >/dev/null || exit 1; i=$((i+1)); done; echo done"
done = subprocess.run(["/bin/sh", "-c", script], capture_output=True, text=True)
tell([done.returncode, done.stdout, done.stderr])
"""
    assert _run(supervised, workspace, attack) == [0, "done\n", ""]
    assert supervised.violations() == []


def test_callers_that_are_killed_meanwhile_cost_the_supervisor_nothing(
    supervised: Supervised, workspace: Path
) -> None:
    attack = """
for _ in range(150):
    child = os.fork()
    if child == 0:
        while True:
            refused()
    reader = os.pidfd_open(child)
    select.select([reader], [], [], 0.001)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    os.close(reader)
tell(refused())
"""
    descriptors = f"/proc/{supervised.process.pid}/fd"
    supervised.run(workspace, ["/bin/true"])
    before = len(os.listdir(descriptors))
    assert _run(supervised, workspace, attack) == "EPERM"
    supervised.run(workspace, ["/bin/true"])
    # The last sandboxes may still be being let go, a dozen descriptors each; of 150 callers none is left.
    assert len(os.listdir(descriptors)) < before + 30
    assert supervised.process.poll() is None


def test_a_refusal_in_a_thread_is_its_processs(supervised: Supervised, workspace: Path) -> None:
    attack = """
said = []
thread = threading.Thread(target=lambda: said.extend([refused(), threading.get_native_id()]))
thread.start()
thread.join()
tell([said[0], said[1] != os.getpid()])
"""
    assert _run(supervised, workspace, attack) == ["EPERM", True]
    (violation,) = supervised.violations()
    assert (violation["syscall"], violation["count"], violation["errno_name"]) == ("chroot", 1, "EPERM")


@pytest.mark.parametrize("dumpable", [True, False])
def test_odd_pointers_are_refused_as_any_other(
    supervised: Supervised, workspace: Path, dumpable: bool
) -> None:
    attack = f"""
LIBC.prctl(4, {int(dumpable)}, 0, 0, 0)
import mmap
closed = mmap.mmap(-1, 4096)
LIBC.mprotect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
place = ctypes.addressof(ctypes.c_char.from_buffer(closed))
edge = mmap.mmap(-1, 8192)
edge_place = ctypes.addressof(ctypes.c_char.from_buffer(edge))
edge[4000:4096] = b"x" * 96
LIBC.mprotect(edge_place + 4096, 4096, 0)
LIBC.mprotect(place, 4096, 0)
tell([refused(one) for one in (0, 1, (1 << 64) - 1, place, edge_place + 4000,
                               bytes(range(1, 256)), b"/\\x1b[31mred\\n", b"/" * 100_000)])
"""
    assert _run(supervised, workspace, attack) == ["EPERM"] * 8
    assert _counted(supervised) == 8
    assert supervised.process.poll() is None


def test_all_threads_that_there_are_have_the_filter(supervised: Supervised, workspace: Path) -> None:
    attack = """
wait = threading.Event()
threads = [threading.Thread(target=wait.wait) for _ in range(8)]
for thread in threads:
    thread.start()
modes = set()
for entry in os.listdir("/proc"):
    if entry.isdigit():
        for task in os.listdir(f"/proc/{entry}/task"):
            with open(f"/proc/{entry}/task/{task}/status") as file:
                modes |= {line.split()[1] for line in file if line.startswith("Seccomp:")}
wait.set()
tell(sorted(modes))
"""
    assert _run(supervised, workspace, attack) == ["2"]


_MAPPING = """
import mmap
signal.signal(signal.SIGALRM, lambda *_: None)
signal.siginterrupt(signal.SIGALRM, True)
failed = []
done = 0
with open(os.path.join(os.path.dirname(sys.argv[0]), "large"), "w+b") as file:
    file.truncate(2 << 20)
    signal.setitimer(signal.ITIMER_REAL, 0.002, 0.002)
    for _ in range(ROUNDS):
        try:
            mmap.mmap(file.fileno(), 2 << 20).close()
            done += 1
        except OSError as error:
            failed.append(error.errno)
    signal.setitimer(signal.ITIMER_REAL, 0)
tell([done, failed])
"""


def test_signals_end_no_mapping_of_a_file(supervised: Supervised, workspace: Path) -> None:
    """mmap(2) knows no EINTR, and programs don't expect it."""
    script = workspace / "held.py"
    script.write_text(_PREAMBLE + _MAPPING.replace("ROUNDS", str(_ROUNDS)))
    script.chmod(0o644)
    supervised.start(workspace, payload=[supervised.python, str(script)])
    supervised.wait("ready")
    assert _stop_until_its_end(supervised)["status"] == 0
    assert supervised.saved_json("told.json") == [_ROUNDS, []]


_THREADS = """
signal.signal(signal.SIGALRM, lambda *_: None)
signal.siginterrupt(signal.SIGALRM, True)
failed, ended = [], set()
signal.setitimer(signal.ITIMER_REAL, 0.002, 0.002)
for _ in range(ROUNDS):
    try:
        thread = threading.Thread(target=int)
        thread.start()
        thread.join()
    except RuntimeError as error:
        failed.append(str(error))
    ended.add(refused())
signal.setitimer(signal.ITIMER_REAL, 0)
tell([failed, sorted(ended)])
"""


def test_signals_end_no_start_of_a_thread(supervised: Supervised, workspace: Path) -> None:
    """C libraries block all signals around it: clone(2) knows EINTR no more than mmap(2) does."""
    script = workspace / "held.py"
    script.write_text(_PREAMBLE + _THREADS.replace("ROUNDS", "150"))
    script.chmod(0o644)
    supervised.start(workspace, payload=[supervised.python, str(script)], limits_backend="fallback")
    supervised.wait("ready")
    program, held = -1, 0

    def look() -> None:
        nonlocal program, held
        program = program if program > 0 else _running(script, supervised.process.pid)
        held += waits_in("clone", program)

    assert _stop_until_its_end(supervised, look)["status"] == 0
    failed, ended = supervised.saved_json("told.json")
    assert failed == []
    assert "EINTR" in ended, "calls beside them met signals"
    assert held > 0, "starts waited for the supervisor"


def _running(script: Path, supervisor: int) -> int:
    """Return the process that runs ``script``; -1: none does yet."""
    for pid in leaks.descendants(supervisor):
        with contextlib.suppress(OSError):
            if os.fsencode(script) in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[1:2]:
                return pid
    return -1
