"""Looking a path up on both sides: what can't be had is answered, and the supervisor goes on."""

from __future__ import annotations

import errno
import os
import resource
from typing import TYPE_CHECKING, Any

import pytest

from sentinel_kernel.linux.local_files import look_up_local
from sentinel_kernel.supervisor.lookups import Lookups

if TYPE_CHECKING:
    from pathlib import Path


def test_without_a_free_descriptor_nothing_is_told() -> None:
    lookups = Lookups()
    answers: list[Any] = []
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    first = os.dup(0)
    os.close(first)
    # The first number is taken up, so that a pipe has room for one end, then for none.
    for free in (1, 0):
        resource.setrlimit(resource.RLIMIT_NOFILE, (first + free, hard))
        try:
            lookups.ask(os.getpid(), [{"path": "/"}], answers.append)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert answers == [[], []]
    assert not lookups.descriptors()
    assert os.dup(0) == first
    os.close(first)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Return a folder of links: to a file, around, to nothing, in a circle, to another file system."""
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "file").write_text("")
    links = {
        "near": "folder/../folder",
        "far": f"{tmp_path}/near/file",
        "gone": "folder/nothing",
        "circle": "circle",
        "elsewhere": "/proc/self",
    }
    for name, target in links.items():
        (tmp_path / name).symlink_to(target)
    return tmp_path


@pytest.mark.parametrize("path", ["folder", "folder/file", "near/file", "far", "folder/.././far", "near//"])
def test_the_host_is_looked_up_as_paths_lead_on_local_file_systems(tree: Path, path: str) -> None:
    descriptor = look_up_local(f"{tree}/{path}")
    try:
        assert os.path.samestat(os.fstat(descriptor), os.stat(f"{tree}/{path}"))
    finally:
        os.close(descriptor)


@pytest.mark.parametrize(
    ("path", "number"),
    [
        ("nothing", errno.ENOENT),
        ("gone", errno.ENOENT),
        ("far/file", errno.ENOTDIR),
        ("circle", errno.ELOOP),
        ("elsewhere", errno.EXDEV),
        ("elsewhere/status", errno.EXDEV),
        ("/proc", errno.EXDEV),
        # Else ENOENT: a file system that is not known to be local is never asked for a name.
        ("/proc/no-such-name", errno.EXDEV),
        ("elsewhere/no-such-name", errno.EXDEV),
    ],
)
def test_no_name_is_looked_up_in_a_file_system_of_elsewhere(tree: Path, path: str, number: int) -> None:
    before = os.listdir("/proc/self/fd")
    with pytest.raises(OSError, match=r"\w") as raised:
        look_up_local(os.path.join(tree, path))
    assert raised.value.errno == number
    assert os.listdir("/proc/self/fd") == before
