"""The limits of a profile: as written, and resolved against one machine."""

from __future__ import annotations

import pytest

from sentinel_kernel.errors import ProfileError
from sentinel_kernel.policy.json_document import Reader
from sentinel_kernel.policy.resources import Resources, limit_names, read_resources


def read(document: dict[str, object], base: Resources | None = None) -> Resources:
    return read_resources(Reader(document, "$.resources"), base or Resources())


def test_sizes_are_bytes_units_or_shares() -> None:
    resources = read({"memory_bytes": "50%", "disk_bytes": "2GiB", "tmp_bytes": 4096, "shm_bytes": None})
    resolved = resources.resolve(1000, 8)
    assert (resolved.memory_bytes, resolved.disk_bytes, resolved.tmp_bytes) == (500, 2 << 30, 4096)
    assert resolved.shm_bytes is None


def test_processors_are_those_of_the_machine_at_most() -> None:
    assert read({"cpu_count": 16}).resolve(1, 4).cpu_count == 4
    assert read({"cpu_count": None}).resolve(1, 4).cpu_count is None


@pytest.mark.parametrize(("quota", "count"), [(50_000, 1), (100_000, 1), (150_000, 2), (200_000, 2)])
def test_sentinelboxs_names_mean_the_same(quota: int, count: int) -> None:
    resources = read(
        {"mem_limit_bytes": 134217728, "cpu_max_quota": quota, "cpu_max_period": 100_000, "pids_max": 32}
    )
    resolved = resources.resolve(1 << 40, 64)
    assert (resolved.memory_bytes, resolved.cpu_count, resolved.pids) == (134217728, count, 32)


def test_an_absent_limit_is_inherited_and_null_takes_it_away() -> None:
    base = Resources(pids=10, open_files=20)
    assert read({"pids": 5}, base).open_files == 20
    assert read({"pids": None}, base).pids is None


@pytest.mark.parametrize(
    "document",
    [
        {"memory_bytes": "0%"}, {"memory_bytes": "101%"}, {"memory_bytes": "half"}, {"memory_bytes": "1GB"},
        {"memory_bytes": 0}, {"memory_bytes": -1}, {"memory_bytes": True}, {"memory_bytes": 1.5},
        {"memory_bytes": "９%"}, {"memory_bytes": "99999999999TiB"}, {"pids": "10"}, {"pids": 0},
        {"cpu_count": 0.5}, {"pid": 3}, {"memory_bytes": 1, "mem_limit_bytes": 2}, {"pids_max": 0},
    ],
)  # fmt: skip
def test_what_is_no_limit_is_an_error(document: dict[str, object]) -> None:
    with pytest.raises(ProfileError) as caught:
        read(document)
    assert caught.value.json_path.startswith("$.resources")


def test_every_limit_has_a_unit_or_is_a_count() -> None:
    for name in limit_names():
        assert name.endswith(("_bytes", "_seconds", "_count", "_quota")) or name in ("pids", "open_files")


def test_an_unknown_limit_is_answered_with_all_that_there_are() -> None:
    with pytest.raises(ProfileError) as caught:
        read({"cpu_cout": 2})
    assert "Did you mean 'cpu_count'?" in caught.value.remedy
    names = caught.value.remedy.partition("Known here: ")[2].rstrip(".").split(", ")
    assert {*names} >= {"memory_bytes", "cpu_count", "pids", "mem_limit_bytes", "wall_seconds"}
    assert {*names} >= {*limit_names()} - {"cpu_quota", "io_read_bytes", "io_write_bytes"}
