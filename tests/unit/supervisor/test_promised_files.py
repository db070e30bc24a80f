"""A file in shared memory that there is no room for is seen while it is there, whatever becomes of it."""

from __future__ import annotations

import os
import select
import subprocess
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest

from sentinel_kernel.supervisor.promised_files import PromisedFiles

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sentinel_kernel.supervisor.current import Current

pytestmark = pytest.mark.requires("user_namespaces")

SECONDS = 60
# As in a sandbox, nobody else writes there: another one's file could be taken for the one that is waited for.
INIT = "mount -t tmpfs -o size=16m tmpfs /dev/shm && echo ready && read line"


@pytest.fixture(scope="module")
def init() -> Iterator[int]:
    """Return a process that has a /dev/shm of its own."""
    way = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", INIT]
    with subprocess.Popen(way, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        yield process.pid
        process.stdin.close()


@pytest.fixture
def name(init: int) -> str:
    """Return where a file is made."""
    return f"/proc/{init}/root/dev/shm/promised"


def room_bytes(name: str) -> int:
    status = os.statvfs(os.path.dirname(name))
    return status.f_bfree * status.f_frsize


@pytest.fixture
def current(init: int) -> Current:
    plan = SimpleNamespace(lists=None)
    return cast(
        "Current",
        SimpleNamespace(
            sandbox=SimpleNamespace(pid=init),
            preparation=SimpleNamespace(plan=plan),
            promised_bytes=0,
        ),
    )


@pytest.fixture
def files(current: Current) -> Iterator[PromisedFiles]:
    keeper = PromisedFiles()
    keeper.sandbox_ready(current, 1)
    keeper.begin_cell({})
    yield keeper
    keeper.close()
    for left in os.listdir(f"/proc/{current.sandbox.pid}/root/dev/shm"):
        os.unlink(f"/proc/{current.sandbox.pid}/root/dev/shm/{left}")


def serve(files: PromisedFiles) -> None:
    ready = select.select(list(files.descriptors()), [], [], SECONDS)[0]
    assert ready
    files.serve(dict.fromkeys(ready, select.POLLIN))


def look_again(files: PromisedFiles) -> bool:
    """Do what is due; return whether more will be."""
    due = files.due_seconds()
    if due is None:
        return False
    select.select([], [], [], due)
    files.catch_up()
    return files.due_seconds() is not None


def test_a_file_that_is_larger_than_the_room_is_seen(
    files: PromisedFiles, current: Current, name: str
) -> None:
    with open(name, "xb") as file:
        size = room_bytes(name) + (1 << 30)
        file.truncate(size)
        serve(files)
    assert current.promised_bytes == size


def test_a_file_that_gets_its_size_behind_its_name_is_seen(
    files: PromisedFiles, current: Current, name: str
) -> None:
    with open(name, "xb") as file:
        serve(files)
        assert current.promised_bytes == 0
        file.truncate(room_bytes(name) + (1 << 30))
        look_again(files)
    assert current.promised_bytes > room_bytes(name)


def test_files_that_fit_and_what_is_no_file_or_gone_are_nothing(
    files: PromisedFiles, current: Current, name: str
) -> None:
    with open(name, "xb") as file:
        file.write(bytes(4096))
        file.truncate(8192)
        serve(files)
    os.unlink(name)
    for make in (os.mkdir, lambda path: os.symlink("/", path), lambda path: open(path, "xb").close()):
        make(name)
        (os.rmdir if os.path.isdir(name) and not os.path.islink(name) else os.unlink)(name)
        serve(files)
    open(name, "xb").close()
    serve(files)
    looks = 1
    while look_again(files):
        looks += 1
    assert looks < 10
    assert current.promised_bytes == 0


def test_another_sandbox_is_watched_from_its_first_cell_on(files: PromisedFiles, current: Current) -> None:
    other = cast("Current", SimpleNamespace(**vars(current)))
    files.sandbox_ready(other, 2)
    assert not list(files.descriptors())
    files.begin_cell({})
    watch = list(files.descriptors())
    files.begin_cell({})
    assert list(files.descriptors()) == watch
    files.sandbox_gone({})
    assert not list(files.descriptors())
