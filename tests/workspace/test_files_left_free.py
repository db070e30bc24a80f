"""A disk can hold a number of files: cells whose data files are saved by themselves leave others some."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

import pytest
from live_kernel import notebook

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [
    pytest.mark.requires("root"),  # who alone can mount
    pytest.mark.requires("user_namespaces", "overlay", "fresh_proc", "notifications"),
]


def test_empty_files_of_cells_do_not_use_up_a_disk(tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    limits = "size=64m,nr_inodes=1000"
    subprocess.run(["mount", "-t", "tmpfs", "-o", limits, "few", str(work)], check=True, timeout=30)
    try:
        with notebook(tmp_path, SENTINEL_PROFILE="datascience", SENTINEL_SPARE="off") as book:
            first = book.run("for number in range(900): open(f'a{number}.csv', 'w').close()")
            second = book.run("for number in range(900): open(f'b{number}.csv', 'w').close()")
            left = os.statvfs(work)
            book.run("import os\nfor number in range(900): os.mkdir(f'c{number}')")
            assert os.statvfs(work).f_favail == left.f_favail
            assert len([name for name in os.listdir(work) if name.startswith("a")]) == 900
            assert 45 <= left.f_favail <= 50
            told = [content["data"]["text/plain"] for _, content in [*first.outputs, *second.outputs]]
            assert any("could not be saved" in text and "the disk is full" in text for text in told), told
    finally:
        subprocess.run(["umount", "--lazy", str(work)], check=True, timeout=30)
