"""Memory of processes that /proc closes to the supervisor, or tells nothing of under their number, counts all the same.

As of prctl(PR_SET_DUMPABLE), of programs that may be run and not read, and of those whose first thread has ended.
"""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from lesser_machine import prefix
from readable_place import readable_place
from supervised import own_folder

pytestmark = pytest.mark.sandbox

_DRIVER = Path(__file__).parent / "drivers" / "run_cells.py"
_LIMIT_MB = 400
_SLACK_MB = 60

_GROW = """
import contextlib, ctypes, mmap, os, select, signal, threading, time
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
held, ten, children = [], 10 << 20, []

def private():
    held.append(b"1" * ten)

def shared():
    "What is unmapped but for a page is held whole, and shows in no size."
    address = libc.mmap(None, ten, 3, 0x21, -1, 0)
    if address == ctypes.c_void_p(-1).value:
        raise MemoryError
    ctypes.memset(address, 1, ten)
    libc.munmap(address + 4096, ten - 4096)

def grow(one, times, writer):
    try:
        for _ in range(times):
            one()
            os.write(writer, b"x")
            time.sleep(0.03)  # as a program that works on what it has
    except MemoryError:
        pass
    os.write(writer, b"e")
    select.select([], [], [])

def closed(*of):
    libc.prctl(4, 0, 0, 0, 0)
    grow(*of)

def without_first_thread(*of):
    threading.Thread(target=grow, args=of).start()
    libc.syscall(60 if os.uname().machine == "x86_64" else 93, 0)  # exit(2), of this thread

def end_children():
    while children:
        with contextlib.suppress(ProcessLookupError, ChildProcessError):
            os.kill(children[-1], signal.SIGKILL)
            os.waitpid(children[-1], 0)
        children.pop()

def most_held(how, one, number, times):
    "Print how many MB they took in all, and held at the same time at most: who is ended may not have been read yet."
    counts, most, taken = {}, 0, 0
    end_children()  # the limit's error may have met the last cell where it ended its own
    try:
        for _ in range(number):
            reader, writer = os.pipe()
            child = os.fork()
            if not child:
                how(one, times, writer)
            os.close(writer)
            counts[reader] = 0
            children.append(child)
        waiting = set(counts)
        while waiting:
            for reader in select.select(waiting, [], [])[0]:
                said = os.read(reader, 1000)
                taken += said.count(b"x")
                counts[reader] = counts[reader] + said.count(b"x") if said else 0
                if not said or b"e" in said:
                    waiting.discard(reader)
            most = max(most, sum(counts.values()))
    finally:
        end_children()
        for reader in counts:
            while said := os.read(reader, 1000):
                taken += said.count(b"x")
            os.close(reader)
        print("held", taken * 10, most * 10)
"""
_PROGRAM = """
import time
held = []
try:
    for _ in range(10):
        held.append(b"1" * (10 << 20))
        print("x", end="", flush=True)
        time.sleep(0.03)
except MemoryError:
    pass
print("e", flush=True)
time.sleep(600)
"""
_UNREADABLE = f"""
import errno, sys
try:
    open("unreadable", "rb")
except OSError as error:
    print(errno.errorcode[error.errno], flush=True)
def run(one, times, writer):
    os.dup2(writer, 1)
    os.environ["PYTHONHOME"] = sys.base_prefix
    os.execv("unreadable", ["python", "-S", "-c", {_PROGRAM!r}])
most_held(run, None, 6, 10)
"""
_FEW = "most_held(closed, private, 2, 6)"
_CELLS = {
    "not to be read": _UNREADABLE,
    "closed": "most_held(closed, private, 6, 10)",
    "without its first thread": "most_held(without_first_thread, private, 6, 10)",
    "closed, shared": "most_held(closed, shared, 6, 10)",
}
_NOT_TRIED = {
    # Its folders are overlays, which run nothing that their user may not read; and there a user's are never closed.
    "user": ("not to be read", "closed, shared"),
    "root, landlock": ("not to be read", "without its first thread"),
}


def _ran(who: str, cells: list[str]) -> list[dict[str, Any]]:
    with readable_place(root=who == "root, landlock") as (owner, home):
        someone = replace(owner, home=home)
        machine: tuple[str, ...] = ()
        if who != "user":
            machine = prefix(someone.python, "docker" if someone.uid == 0 else "no_namespaces")
        for name in ("tmp", "work"):
            own_folder(someone, home / name).chmod(0o755)
        (home / "run_cells.py").write_bytes(_DRIVER.read_bytes())
        unreadable = home / "work" / "unreadable"
        shutil.copyfile(Path(someone.python).resolve(), unreadable)
        unreadable.chmod(0o111)
        done = someone.run(*machine, someone.python, str(home / "run_cells.py"), *cells, cwd=home / "work")
    found: list[dict[str, Any]] = json.loads(done.stdout.splitlines()[-1])
    return found


_WHO = [
    pytest.param("user", marks=pytest.mark.requires("user_namespaces", "overlay")),
    *(
        pytest.param(one, marks=pytest.mark.requires("landlock"))
        for one in ("user, landlock", "root, landlock")[: 2 if os.geteuid() == 0 else 1]
    ),
]


@pytest.mark.parametrize("who", _WHO)
def test_what_they_hold_counts(who: str) -> None:
    tried = {name: cell for name, cell in _CELLS.items() if name not in _NOT_TRIED.get(who, ())}
    cells = [f"%sentinel_limit memory={_LIMIT_MB}M", _GROW, _FEW, *tried.values()]
    _, made, few, *many = _ran(who, cells)
    assert made["error"] is None, made
    assert few["text"].split() == ["held", "120", "120"], few  # the positive control
    assert few["error"] is None, few
    for name, said in zip(tried, many, strict=True):
        held = said["text"].split()
        if name == "not to be read":
            assert held.pop(0) == "EACCES", said
        if not held:  # the limit's error has met the last line, or the notebook's process was chosen
            assert said["error"]["ename"] in {"MemoryError", "SandboxDied"}, (name, said)
        else:
            assert held[0] == "held", (name, said)
            assert int(held[1]) >= 120, (name, said)
            assert int(held[2]) <= _LIMIT_MB + _SLACK_MB, (name, said)
        told = {one["limit"]["name"] for one in said["violations"] if one.get("limit")}
        # Who gets MemoryError in a process of its own tells nobody. Where the Linux kernel's memory grows meanwhile,
        # through any program of the machine, closed processes are ended for what they may have it watch.
        assert told <= {"memory", "watches"}, (name, said)
