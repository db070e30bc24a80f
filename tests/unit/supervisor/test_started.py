"""What a worker has noted of its starts is read for what it is: bounded, of the right process, or nothing."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from sentinel_kernel.policy.cell_lines import CellNames, file_name
from sentinel_kernel.supervisor.started import SLOT_BYTES, SLOTS, THREAD_BYTES, THREADS, Started

if TYPE_CHECKING:
    from collections.abc import Iterator

CODE = "\n".join(f"line_{number} = {number}" for number in range(1, 10))
CELL = f"/tmp/ipykernel_1/{file_name(CODE)}.py"


def note(line: int, number: int) -> bytes:
    return (
        b"%d started (most recent call first):\n" % number + f'  File "{CELL}", line {line} in f\n'.encode()
    )


@pytest.fixture
def names() -> CellNames:
    names = CellNames()
    names.begin("running", CODE)
    return names


@pytest.fixture
def table() -> Iterator[Started]:
    started = Started()
    yield started
    started.close()


@pytest.fixture
def child() -> Iterator[tuple[int, int]]:
    """Start a process and one of its own; return their numbers."""
    code = (
        "import subprocess, sys; p = subprocess.Popen(['cat'], stdin=0); print(p.pid, flush=True); p.wait()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        yield process.pid, int(process.stdout.readline())
        process.stdin.close()


def put(table: Started, number: int, text: bytes) -> None:
    os.pwrite(table.descriptor, text[:SLOT_BYTES].ljust(SLOT_BYTES, b"\0"), number % SLOTS * SLOT_BYTES)


def test_the_nearest_noted_ancestor_tells(table: Started, names: CellNames, child: tuple[int, int]) -> None:
    outer, inner = child
    assert table.started_at(inner, os.getpid(), names) is None
    put(table, outer, note(3, outer))
    place = table.started_at(inner, os.getpid(), names)
    assert place is not None
    assert (place.line, place.sure) == (3, True)
    put(table, inner, note(5, inner))
    place = table.started_at(inner, os.getpid(), names)
    assert place is not None
    assert (place.line, place.sure) == (5, True)


def test_a_note_that_is_not_yet_of_a_process_is_a_guess(
    table: Started, names: CellNames, child: tuple[int, int]
) -> None:
    put(table, os.getpid(), note(4, os.getpid()))
    place = table.started_at(child[0], os.getpid(), names)
    assert place is not None
    assert (place.line, place.sure) == (4, False)


def test_the_name_of_a_thread(table: Started) -> None:
    thread = os.getpid()

    def named(text: bytes) -> None:
        at = SLOTS * SLOT_BYTES + thread % THREADS * THREAD_BYTES
        os.pwrite(table.descriptor, text[:THREAD_BYTES].ljust(THREAD_BYTES, b"\0"), at)

    assert table.thread_name(thread) is None
    named(b"%d downloader" % thread)
    assert table.thread_name(thread) == "downloader"
    named(b"%d downloader" % (thread + THREADS))
    assert table.thread_name(thread) is None
    named(b"%d \x1b[31m\xff" % thread + b"x" * 200)
    name = table.thread_name(thread)
    assert name is not None
    assert name.isprintable()
    assert len(name) <= 110


@pytest.mark.parametrize(
    "text",
    [b"", b"\xff" * SLOT_BYTES, b"%d", b"%d \n", b"%d (most recent call first):\n" + b"A" * SLOT_BYTES],
)
def test_what_is_no_note_is_none(
    table: Started, names: CellNames, child: tuple[int, int], text: bytes
) -> None:
    put(table, child[0], text.replace(b"%d", b"%d" % child[0]))
    assert table.started_at(child[0], os.getpid(), names) is None


def test_the_file_keeps_its_size(table: Started) -> None:
    for size in (0, 1 << 30):
        with pytest.raises(PermissionError):
            os.ftruncate(table.descriptor, size)
    with pytest.raises(PermissionError):
        os.pwrite(table.descriptor, b"x", 1 << 30)


def test_a_process_that_is_gone_was_started_nowhere(table: Started, names: CellNames) -> None:
    with subprocess.Popen(["true"]) as process:
        process.wait()
    assert table.started_at(process.pid, os.getpid(), names) is None
    assert table.thread_name(process.pid) is None
