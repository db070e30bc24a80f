"""Memory that no simple sum shows: copied after a fork, of mappings that shrank, of semaphores, queues, page tables."""

from __future__ import annotations

import platform
import re
from typing import TYPE_CHECKING

import pytest
from live_kernel import notebook

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from conftest import Attacker
    from live_kernel import Notebook

pytestmark = [
    pytest.mark.sandbox,
    pytest.mark.requires("user_namespaces", "overlay"),
    pytest.mark.skipif(platform.machine() != "x86_64", reason="the calls are written by x86_64's numbers"),
]


@pytest.fixture
def book(tmp_path: Path) -> Iterator[Notebook]:
    with notebook(
        tmp_path, HOME=str(tmp_path / "work"), SENTINEL_PROFILE="strict", SENTINEL_SPARE="off"
    ) as kept:
        kept.run("%sentinel_limit memory=400M")
        yield kept


_COPIED = """
import mmap, os, time
def available():
    return int(open('/proc/meminfo').read().split('MemAvailable:')[1].split()[0])
def measured(below):
    deadline = time.monotonic() + 60
    while available() > below and time.monotonic() < deadline:
        time.sleep(0.02)
before = available()
block = mmap.mmap(-1, 150 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
block[:] = bytes(len(block))
measured(before - (145 << 10))
before = available()
children = []
begin_reader, begin_writer = os.pipe()
for _ in range(4):
    child = os.fork()
    if child == 0:
        os.read(begin_reader, 1)
        for offset in range(0, len(block), 4096):
            block[offset] = 1
        time.sleep(600)
    children.append(child)
mark = bytearray(b'1') * (12 << 20)
measured(before - (8 << 10))  # what has the mark has the children too; most of theirs is shared
print(available())
os.write(begin_writer, b'xxxx')
ended = os.wait()
print(ended[1])
for child in children:
    if child != ended[0]:
        os.kill(child, 9)
        os.wait()
"""


def test_pages_that_are_copied_after_a_fork_count(book: Notebook) -> None:
    result = book.run(_COPIED)
    told = result.text.split()
    assert int(told[0]) > 150 << 10  # the positive control: what is shared counts once
    assert told[1:] == ["9"] or result.reply["ename"] == "MemoryError"


_SHRUNK = """
import ctypes, errno
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
size, told = 100 << 20, []
def take(keep):
    address = libc.mmap(None, size, 3, 0x21, -1, 0)
    if address == ctypes.c_void_p(-1).value:
        return errno.errorcode[ctypes.get_errno()]
    ctypes.memset(address, 1, size)
    libc.munmap(address + keep, size - keep)
    return 'ok'
print(*[take(0) for _ in range(6)], *[take(4096) for _ in range(6)])
"""


def test_shared_mappings_count_until_their_last_page_is_gone(book: Notebook) -> None:
    told = book.run(_SHRUNK).text.split()
    assert told[:6] == ["ok"] * 6  # what is unmapped whole is given back
    assert told[-1] == "ENOMEM"
    assert told.count("ok") <= 6 + 3


def test_device_of_zeros_is_shared_by_nobody(book: Notebook) -> None:
    """What was written to a shared mapping of it stays, and is seen by nothing, once all but a page is unmapped."""
    opened = "import mmap, os\nprint(len(mmap.mmap(os.open('/dev/zero', os.O_{0}), 4096, flags={1})))"
    assert (
        book.run(opened.format("RDONLY", "2, prot=3")).text == "4096\n"
    )  # the positive control: pages of one's own
    assert book.run(opened.format("RDWR", "1")).reply["ename"] == "PermissionError"


def test_page_tables_count(book: Notebook) -> None:
    code = """
import ctypes
libc = ctypes.CDLL(None)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
size = 300 << 30
address = libc.mmap(None, size, 1, 0x4022, -1, 0)
libc.madvise(address, size, 15)
for offset in range(0, size, 2 << 20):
    ctypes.string_at(address + offset, 1)
print('all')
"""
    result = book.run(code)
    assert "all" not in result.text
    assert result.reply["ename"] in {"MemoryError", "SandboxDied"}


def test_semaphores_and_queues_count(attacker: Attacker) -> None:
    attack = """
def many(*arguments):
    for number in range(200):
        told = called(*arguments)
        if told != "ok":
            break
    return number, told
tell([many(64, 0, 32000, 0o1600), many(68, 0, 0o1600)])
"""
    for number, told in attacker.inside(attack):
        assert told == "ENOSPC"
        assert number < 130


def test_memory_is_not_left_in_pipes(attacker: Attacker) -> None:
    attack = """
class Piece(ctypes.Structure):
    _fields_ = [("base", ctypes.c_void_p), ("length", ctypes.c_size_t)]
block = ctypes.create_string_buffer(4096)
reader, writer = os.pipe()
tell(called(278, writer, ctypes.byref(Piece(ctypes.addressof(block), 4096)), 1, 0))
"""
    assert attacker.outside(attack) == "ok"
    assert attacker.inside(attack) == "ENOSYS"


_NOTICE = "application/vnd.sentinel.notice+json"


@pytest.mark.parametrize(
    ("code", "name"),
    [
        ("raise MemoryError('x')", "memory"),
        ("print('Too many open files')", "open_files"),
        ("raise OSError(11, 'Resource temporarily unavailable: fork')", "pids"),
    ],
)
def test_words_alone_are_told_as_the_cells_own(book: Notebook, code: str, name: str) -> None:
    result = book.run(code)
    cards = [card for card in result.bundles(_NOTICE) if card.get("limit")]
    assert all(card["limit"]["said"] is True for card in cards), cards
    assert all("The cell says so" in card["message"]["en"] for card in cards), cards
    audit = "\n".join(book.run("%sentinel_audit").bundles("text/plain"))
    assert not re.search(rf"{name} refused", audit), audit
