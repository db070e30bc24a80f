"""Running out of memory, way by way: an error in the cell, never a dead kernel, and the variables stay.

One kernel with little memory runs them all; the table of how each ended is printed.
"""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import live_kernel
import pytest
from live_kernel import notebook

if TYPE_CHECKING:
    from collections.abc import Iterator

    from live_kernel import Notebook, Result

pytestmark = [pytest.mark.sandbox, pytest.mark.requires("user_namespaces", "overlay")]

_MEMORY_MIB = 400
_PROFILE = {
    "extends": "datascience",
    "resources": {
        "memory_bytes": f"{_MEMORY_MIB}MiB",
        "disk_bytes": "96MiB",
        "tmp_bytes": "96MiB",
        "shm_bytes": "96MiB",
        "cpu_count": 1,
    },
}
_NOTICE = "application/vnd.sentinel.notice+json"

WAYS = {
    "list growth": "grown = []\nwhile True:\n    grown.append(bytes(100_000))",
    "list in a function": "def fill():\n    grown = []\n    while True:\n        grown.append([0] * 1000)\nfill()",
    "dict": "grown = {}\nwhile True:\n    grown[len(grown)] = str(len(grown)) * 100",
    "bytes": "grown = b'x'\nwhile True:\n    grown += grown",
    "bytearray": "grown = bytearray()\nwhile True:\n    grown += bytes(1 << 20)",
    "string join": "grown = ''.join('abcdefgh' * 1000 for _ in range(10**9))",
    "one huge allocation": "grown = bytearray(1 << 40)",
    "BytesIO": "import io\ngrown = io.BytesIO()\nwhile True:\n    grown.write(bytes(1 << 20))",
    "recursion": (
        "import sys\ndef deeper(n, *rest):\n    return deeper(n + 1, [0] * 500_000, n) + 1\n"
        "before = sys.getrecursionlimit()\nsys.setrecursionlimit(10**9)\n"
        "try:\n    deeper(0)\nfinally:\n    sys.setrecursionlimit(before)"
    ),
    "numpy": "import numpy\ngrown = []\nwhile True:\n    grown.append(numpy.ones(1 << 20))",
    "numpy, touched later": (
        "import numpy\ngrown = []\nwhile True:\n    grown.append(numpy.zeros(1 << 21))\n    grown[-1][:] = 1"
    ),
    "numpy, one huge array": "import numpy\ngrown = numpy.zeros(10**12)",
    "pandas": (
        "import pandas\ngrown = pandas.DataFrame({'a': range(100_000)})\n"
        "while True:\n    grown = pandas.concat([grown, grown])"
    ),
    "mmap, private": (
        "import mmap\ngrown = []\nwhile True:\n"
        "    grown.append(mmap.mmap(-1, 8 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS))\n"
        "    grown[-1][:] = bytes([1]) * (8 << 20)"
    ),
    "mmap, shared": (
        "import mmap\ngrown = []\nwhile True:\n"
        "    grown.append(mmap.mmap(-1, 8 << 20))\n    grown[-1][:] = bytes([1]) * (8 << 20)"
    ),
    "malloc by ctypes": (
        "import ctypes\nlibc = ctypes.CDLL(None)\nlibc.malloc.restype = ctypes.c_void_p\ngrown = []\n"
        "while True:\n    address = libc.malloc(8 << 20)\n    if not address:\n        raise MemoryError('malloc')\n"
        "    grown.append(address)\n    ctypes.memset(address, 1, 8 << 20)"
    ),
    "threads' stacks": (
        "import threading\nthreading.stack_size(64 << 20)\nwait = threading.Event()\n"
        "try:\n    while True:\n        threading.Thread(target=wait.wait).start()\n"
        "finally:\n    wait.set()\n    threading.stack_size(0)"
    ),
    "sqlite in memory": (
        "import sqlite3\ngrown = sqlite3.connect(':memory:')\ngrown.execute('create table t (x blob)')\n"
        "while True:\n    grown.execute('insert into t values (zeroblob(1000000))')"
    ),
    "child process": (
        "import subprocess, sys\ncode = 'grown = []\\nwhile True: grown.append(bytes(100_000))'\n"
        "subprocess.run([sys.executable, '-c', code], check=True)"
    ),
    "multiprocessing": (
        "import multiprocessing\ndef fill():\n    grown = []\n    while True:\n        grown.append(bytes(100_000))\n"
        "children = [multiprocessing.get_context('fork').Process(target=fill) for _ in range(2)]\n"
        "for child in children:\n    child.start()\nfor child in children:\n    child.join()\n"
        "raise ChildProcessError([child.exitcode for child in children])"
    ),
    "memory file": (
        "import os\ngrown = os.fdopen(os.memfd_create('grown'), 'wb')\nwhile True:\n    grown.write(bytes(1 << 20))"
    ),
    "file in memory": "grown = open('/tmp/grown', 'wb')\nwhile True:\n    grown.write(bytes(1 << 20))",
    "shared memory": (
        "from multiprocessing.shared_memory import SharedMemory\ngrown = []\nwhile True:\n"
        "    grown.append(SharedMemory(create=True, size=4 << 20))\n    grown[-1].buf[:] = bytes(4 << 20)"
    ),
    "fork and touch": (
        "import os, signal\nchildren = []\nfor _ in range(8):\n    child = os.fork()\n"
        "    if child == 0:\n        try:\n            grown = [bytes([1]) * (1 << 20) for _ in range(120)]\n"
        "            signal.pause()\n        finally:\n            os._exit(1)\n    children.append(child)\n"
        "try:\n    ended = os.wait()\n    raise ChildProcessError(ended)\nfinally:\n    for child in children:\n"
        "        try:\n            os.kill(child, signal.SIGKILL)\n"
        "        except ProcessLookupError:\n            pass\n"
        "    while children:\n        try:\n            os.wait()\n        except ChildProcessError:\n            break"
    ),
    "numpy, never touched": "import numpy\ngrown = []\nwhile True:\n    grown.append(numpy.empty(1 << 21))",
}
MAY_LOSE = {"fork and touch", "shared memory", "file in memory"}
"""Of these alone the variables need not survive; where they do, the table says so."""

_CLEAR = """
import gc, os
for name in ("grown", "children", "pool", "libc", "address"):
    globals().pop(name, None)
for place in ("/tmp/grown", *(f"/dev/shm/{name}" for name in os.listdir("/dev/shm"))):
    try:
        os.unlink(place)
    except OSError:
        pass
_ = gc.collect()
"""
_LOADED = """
import concurrent.futures.process, ctypes, io, mmap, multiprocessing.shared_memory, sqlite3, subprocess
import numpy, pandas
"""
_FREE = """
import ctypes
for address in grown:
    libc.free(ctypes.c_void_p(address))
"""


class _Machine:
    """The least memory that was available to the machine while something ran."""

    def __init__(self) -> None:
        self.total, self.least = self._read()
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()

    def _read(self) -> tuple[int, int]:
        fields = dict(line.split(":") for line in Path("/proc/meminfo").read_text().splitlines())
        return int(fields["MemTotal"].split()[0]), int(fields["MemAvailable"].split()[0])

    def _watch(self) -> None:
        while not self._done.wait(0.02):
            self.least = min(self.least, self._read()[1])

    def end(self) -> float:
        """Return the share of the memory that was available at least."""
        self._done.set()
        self._thread.join()
        return self.least / self.total


def _told(result: Result) -> str:
    """Return what the cell's cards and its error say, in English."""
    cards = result.bundles(_NOTICE)
    return json.dumps(cards) + str(result.reply.get("evalue", ""))


@pytest.fixture
def book(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Notebook]:
    monkeypatch.setattr(
        live_kernel, "SECONDS", 240.0
    )  # a way touches all of it, on a machine that may be busy
    folder = tmp_path
    profiles = folder / "config" / "sentinel-kernel" / "profiles"
    profiles.mkdir(parents=True)
    (profiles / "small.json").write_text(json.dumps(_PROFILE))
    with notebook(
        folder,
        SENTINEL_PROFILE="small",
        SENTINEL_CEILING="small",
        SENTINEL_SPARE="off",
        XDG_CONFIG_HOME=str(folder / "config"),
    ) as kept:
        yield kept


SOME = [way for number, way in enumerate(WAYS) if number % 2 == 0 or way in MAY_LOSE]


@pytest.mark.parametrize(
    "ways", [SOME, pytest.param(list(WAYS), marks=pytest.mark.soak)], ids=["some", "every"]
)
def test_every_way_ends_in_an_error_and_the_variables_survive(book: Notebook, ways: list[str]) -> None:
    machine = _Machine()
    rows = []
    faults = []
    try:
        for way in ways:
            code = WAYS[way]
            book.run(_LOADED)
            book.run(f"marker = {way!r}")
            result = book.run(code)
            if way == "malloc by ctypes":
                book.run(_FREE)
            after = book.run("print(globals().get('marker', 'lost'))")
            # What the way has left is held still: small cells go on all the same, and a larger one is told why not.
            larger = book.run("larger = b'1' * (20 << 20)\ndel larger")
            said = str(larger.reply.get("evalue", ""))
            if larger.reply["status"] != "ok" and "MiB" not in said:
                faults.append(
                    f"{way}: a larger cell behind it is not told why: {larger.reply.get('ename')} {said}"
                )
            lost = after.text.strip() != way
            told = _told(result)
            ended = result.reply.get("ename") or result.reply["status"]
            print(way, ended, flush=True)
            rows.append(
                f"{way:24} {ended:22} {'lost' if lost else 'kept':5} {result.reply.get('evalue', '')[:60]}"
            )
            if result.reply["status"] == "ok":
                faults.append(f"{way}: nothing stopped it")
            if after.reply["status"] != "ok":
                said = f"{after.reply.get('ename')}: {after.reply.get('evalue')}"
                faults.append(f"{way}: the kernel is not usable after it: {said}")
            if lost and way not in MAY_LOSE:
                faults.append(f"{way}: the variables are lost")
            if not any(word in told.lower() for word in ("memory", "/tmp", "/dev/shm")):
                faults.append(f"{way}: nothing names memory: {told[:300]}")
            cleared = book.run(_CLEAR)
            if cleared.reply["status"] != "ok":
                faults.append(f"{way}: nothing can be deleted behind it: {cleared.reply.get('ename')}")
    finally:
        share = machine.end()
    print(f"\n{'way':24} {'ended with':22} {'vars':5} text")
    print("\n".join(rows))
    print(f"least available memory of the machine: {share:.0%}")
    assert not faults, "\n".join([*faults, *rows])
    assert share >= 0.2
