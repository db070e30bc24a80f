"""What of a disk stays free for others: bytes, and files that can be made at all."""

from __future__ import annotations

import os

import pytest

from sentinel_kernel.policy.disk_reserve import room

_GIB = 1 << 30


@pytest.mark.parametrize(
    ("blocks_left", "files", "files_left", "expected"),
    [
        (100, 0, 0, 95 * 4096),  # a file system that counts no files
        (5, 0, 0, 0),
        (3, 0, 0, -2 * 4096),
        (100, 2000, 101, 95 * 4096),
        (100, 2000, 100, -1),
        (100, 2000, 0, -1),
        (100, 1 << 40, 100_001, 95 * 4096),
        (100, 1 << 40, 100_000, -1),
    ],
)
def test_a_share_of_bytes_and_of_files_stays_free(
    blocks_left: int, files: int, files_left: int, expected: int
) -> None:
    space = os.statvfs_result(
        (4096, 4096, 100, blocks_left, blocks_left, files, files_left, files_left, 0, 255)
    )
    assert room(space) == expected


def test_of_a_large_disk_one_gib_stays_free() -> None:
    space = os.statvfs_result((4096, 4096, 1 << 40, 1 << 18, 1 << 18, 0, 0, 0, 0, 255))
    assert room(space) == 0
    assert room(os.statvfs_result((*space[:3], 1 << 19, 1 << 19, *space[5:]))) == _GIB
