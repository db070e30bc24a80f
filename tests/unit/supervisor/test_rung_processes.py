"""What is answered on the landlock rung about limits of other processes is what Linux itself answers."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import resource
import subprocess
import sys
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from sentinel_kernel.abi.architecture import architecture_of
from sentinel_kernel.linux.seccomp import Notification
from sentinel_kernel.supervisor.rung_processes import RungProcesses

if TYPE_CHECKING:
    from collections.abc import Iterator

ARCHITECTURE = architecture_of(os.uname().machine)
PRLIMIT = ARCHITECTURE.syscalls["prlimit64"]
NOBODY = 0x7FFFFFFF

# Two threads, whose numbers it tells; it ends when nobody is left to tell them to.
THREADS = """
import os, sys, threading
event = threading.Event()
threading.Thread(target=lambda: (print(threading.get_native_id(), flush=True), event.wait()), daemon=True).start()
sys.stdin.read()
"""


@contextlib.contextmanager
def process_with_a_thread() -> Iterator[tuple[int, int]]:
    """Give the numbers of a process and of a thread beside its first one; its core files may take 4711 bytes."""
    own = resource.getrlimit(resource.RLIMIT_CORE)
    with subprocess.Popen(
        [sys.executable, "-c", THREADS], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        resource.prlimit(process.pid, resource.RLIMIT_CORE, (4711, own[1]))
        yield process.pid, int(process.stdout.readline())
        process.stdin.close()


def answered(wanted: int, what: int) -> tuple[int, int]:
    """Return the errno of the answer, and the soft limit that was told."""
    answers: list[int] = []
    listener: Any = SimpleNamespace(is_valid=lambda _: True, answer=lambda _, number: answers.append(number))
    limits = (ctypes.c_uint64 * 2)()
    arguments = (wanted & 0xFFFFFFFFFFFFFFFF, what, 0, ctypes.addressof(limits), 0, 0)
    notification = Notification(1, os.getpid(), PRLIMIT, ARCHITECTURE.audit_arch, arguments)
    limit = RungProcesses(listener, os.getpid(), 4).calls()["prlimit64"]
    request: Any = SimpleNamespace(pid=os.getpid())
    try:
        assert limit(notification, request)
    except OSError as error:
        return error.errno or -1, limits[0]
    assert answers == [0]
    return 0, limits[0]


def by_linux(wanted: int, what: int) -> tuple[int, int]:
    """Return the same of the Linux kernel's own answer."""
    libc = ctypes.CDLL(None, use_errno=True)
    limits = (ctypes.c_uint64 * 2)()
    failed = libc.syscall(PRLIMIT, wanted, ctypes.c_uint32(what), None, limits)
    return ctypes.get_errno() if failed else 0, limits[0]


def test_limits_of_another_process_are_told_by_the_number_of_each_of_its_threads() -> None:
    with process_with_a_thread() as numbers:
        for number in numbers:
            assert (
                answered(number, resource.RLIMIT_CORE) == (0, 4711) == by_linux(number, resource.RLIMIT_CORE)
            )


@pytest.mark.parametrize("what", [16, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF])
def test_a_limit_that_there_is_not_is_no_valid_argument(what: int) -> None:
    with process_with_a_thread() as (process, _):
        assert answered(process, what) == (errno.EINVAL, 0) == by_linux(process, what)


@pytest.mark.parametrize("wanted", [-1, -(1 << 31), NOBODY])
def test_a_number_that_nobody_has_is_no_process(wanted: int) -> None:
    assert (
        answered(wanted, resource.RLIMIT_CORE) == (errno.ESRCH, 0) == by_linux(wanted, resource.RLIMIT_CORE)
    )


def test_limits_of_a_process_outside_are_not_told() -> None:
    assert answered(os.getppid(), resource.RLIMIT_CORE) == (errno.EPERM, 0)
