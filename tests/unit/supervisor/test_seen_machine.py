"""What programs inside see of memory and processors: the files' text, written in place."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from sentinel_kernel.supervisor.seen_machine import SeenMachine, memory_text, processors_text

if TYPE_CHECKING:
    from pathlib import Path


def test_memory_is_as_long_whatever_it_says() -> None:
    small, large = memory_text(1 << 20, 0), memory_text(1 << 44, 1 << 43, 1 << 40)
    assert len(small) == len(large)
    assert b"MemTotal:              1024 kB\n" in small
    assert all(line.endswith(b" kB") for line in large.splitlines())


def test_processors_are_numbers_and_ranges() -> None:
    assert processors_text([1]) == b"1\n"
    assert processors_text({0, 1, 2, 5, 7, 8}) == b"0-2,5,7-8\n"


def test_files_are_rewritten_in_place_and_shortened(tmp_path: Path) -> None:
    place = tmp_path / "online"
    descriptor = os.open(place, os.O_RDWR | os.O_CREAT)
    try:
        os.write(descriptor, b"0-127\n")
        seen = SeenMachine({"online": descriptor})
        seen.show_processors([0, 2])
        assert place.read_bytes() == b"0,2\n\x00\x00"[:4]
        seen.show_processors([3])
        assert place.read_bytes() == b"3\n"
        seen.show_memory(1, 1, 1)  # there is no such file here
    finally:
        os.close(descriptor)
