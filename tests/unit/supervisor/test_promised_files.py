"""A file in shared memory that there is no room for is seen while it is there, whatever becomes of it."""

from __future__ import annotations

import contextlib
import os
import select
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest

from sentinel_kernel.supervisor.promised_files import PromisedFiles

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sentinel_kernel.supervisor.current import Current

SECONDS = 60
NAME = f"/dev/shm/promised-{os.getpid()}"


def room_bytes() -> int:
    status = os.statvfs("/dev/shm")
    return status.f_bfree * status.f_frsize


@pytest.fixture
def current() -> Current:
    plan = SimpleNamespace(lists=None)
    return cast(
        "Current",
        SimpleNamespace(
            sandbox=SimpleNamespace(pid=os.getpid()),
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
    with contextlib.suppress(FileNotFoundError):
        os.unlink(NAME)


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


def test_a_file_that_is_larger_than_the_room_is_seen(files: PromisedFiles, current: Current) -> None:
    with open(NAME, "xb") as file:
        size = room_bytes() + (1 << 30)
        file.truncate(size)
        serve(files)
    assert current.promised_bytes == size


def test_a_file_that_gets_its_size_behind_its_name_is_seen(files: PromisedFiles, current: Current) -> None:
    with open(NAME, "xb") as file:
        serve(files)
        assert current.promised_bytes == 0
        file.truncate(room_bytes() + (1 << 30))
        look_again(files)
    assert current.promised_bytes > room_bytes()


def test_files_that_fit_and_what_is_no_file_or_gone_are_nothing(
    files: PromisedFiles, current: Current
) -> None:
    with open(NAME, "xb") as file:
        file.write(bytes(4096))
        file.truncate(8192)
        serve(files)
    os.unlink(NAME)
    for make in (os.mkdir, lambda path: os.symlink("/", path), lambda path: open(path, "xb").close()):
        make(NAME)
        (os.rmdir if os.path.isdir(NAME) and not os.path.islink(NAME) else os.unlink)(NAME)
        serve(files)
    open(NAME, "xb").close()
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
