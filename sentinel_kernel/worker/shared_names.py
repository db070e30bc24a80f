"""Locks and memory that processes share, on the landlock rung: there /dev/shm, where the C library keeps them, is shut.

multiprocessing gives a lock to forked processes alone without a name: it lies in memory that they inherit. Memory with
a name (multiprocessing.shared_memory) is a file in the sandbox's own TMPDIR. What is to find a lock by its name
(processes that are spawned, not forked) is refused as before.
"""

from __future__ import annotations

import errno
import importlib
import os
import threading
import time
from typing import Any

_RECURSIVE = 0
_SEM_BYTES = 32
"""Of sem_t, of glibc and musl, on every machine of 64 bits."""


def install() -> None:
    """Put these in the place of the interpreter's own, where it has any."""
    try:
        locks = importlib.import_module("_multiprocessing")
        memory = importlib.import_module("_posixshmem")
        heap: Any = importlib.import_module("multiprocessing.heap")
    except ImportError:
        return
    named = locks.SemLock
    SharedLock.SEM_VALUE_MAX = named.SEM_VALUE_MAX
    SharedLock.named = named
    vars(locks)["SemLock"] = SharedLock
    vars(memory).update(shm_open=_open_memory, shm_unlink=_unlink_memory)
    heap.Arena._dir_candidates = []  # noqa: SLF001 - it asks whether /dev/shm is there, not whether it is open


class SharedLock:
    """Does as _multiprocessing.SemLock, by the C library's semaphores without a name (sem_init(3))."""

    SEM_VALUE_MAX = 0
    named: Any = None

    def __new__(cls, kind: int, value: int, maxvalue: int, name: str, unlink: bool) -> Any:  # noqa: ANN401
        """Make one; with a name that is to stay it is the interpreter's own, which fails."""
        if unlink:
            return super().__new__(cls)
        try:
            return cls.named(kind, value, maxvalue, name, unlink)
        except PermissionError as error:
            error.filename = f"/dev/shm/sem.{name.lstrip('/')}"  # so that it can be explained
            raise

    def __init__(self, kind: int, value: int, maxvalue: int, name: str, unlink: bool) -> None:  # noqa: ARG002
        """Begin with ``value``; ``kind`` 0 is an RLock."""
        import ctypes  # noqa: PLC0415 - few cells make locks
        import mmap  # noqa: PLC0415 - as above

        self.kind, self.maxvalue, self.name = kind, maxvalue, None
        self._mine, self._owner = 0, 0
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._errno = ctypes.get_errno
        self._value = ctypes.c_int()
        self._value_at = ctypes.byref(self._value)
        self._time = (ctypes.c_long * 2)()
        self._memory = mmap.mmap(-1, _SEM_BYTES)
        self.handle = ctypes.addressof(ctypes.c_char.from_buffer(self._memory))
        self._sem = ctypes.c_void_p(self.handle)
        if self._libc.sem_init(self._sem, 1, value):
            raise self._failed()

    @classmethod
    def _rebuild(cls, *state: object) -> Any:  # noqa: ANN401 - the interpreter's own
        return cls.named._rebuild(*state)  # noqa: SLF001 - we stand for it

    def acquire(self, block: bool = True, timeout: float | None = None) -> bool:
        """Take it; False where that took too long, or it does not ``block`` and is taken."""
        if self.kind == _RECURSIVE and self._is_mine():
            self._mine += 1
            return True
        if not self._take(block=block, timeout=timeout):
            return False
        self._owner = threading.get_ident()  # before the count: who had it last does not have it again
        self._mine += 1
        return True

    __enter__ = acquire

    def _take(self, *, block: bool, timeout: float | None) -> bool:
        if block and timeout is None:
            until = None
        else:
            until = time.time() + (max(0.0, timeout) if block and timeout is not None else 0.0)
        if self._libc.sem_trywait(self._sem) == 0:
            return True
        while until is None or time.time() < until:
            if until is None:
                result = self._libc.sem_wait(self._sem)
            else:
                moment = (type(self._time))(int(until), int(until % 1 * 1_000_000_000))
                result = self._libc.sem_timedwait(self._sem, moment)
            if result == 0:
                return True
            number = self._errno()
            if number == errno.ETIMEDOUT:
                return False
            if number != errno.EINTR:
                raise self._failed()
        return False

    def release(self) -> None:
        """Give it back."""
        if self.kind == _RECURSIVE:
            if not self._is_mine():
                raise AssertionError("attempt to release recursive lock not owned by thread")
            if self._mine > 1:
                self._mine -= 1
                return
        elif self._get_value() >= self.maxvalue:
            raise ValueError("semaphore or lock released too many times")
        self._mine -= 1  # before another thread may take it, whose count it is then
        if self._libc.sem_post(self._sem):
            self._mine += 1
            raise self._failed()

    def __exit__(self, *_: object) -> None:
        self.release()

    def _count(self) -> int:
        return self._mine

    def _is_mine(self) -> bool:
        return self._mine > 0 and self._owner == threading.get_ident()

    def _get_value(self) -> int:
        if self._libc.sem_getvalue(self._sem, self._value_at):
            raise self._failed()
        return max(0, self._value.value)

    def _is_zero(self) -> bool:
        return self._get_value() == 0

    def _after_fork(self) -> None:
        self._mine = 0

    def _failed(self) -> OSError:
        number = self._errno()
        return OSError(number, os.strerror(number))


def _place(path: str) -> str:
    """Return the file that stands for shared memory of that name."""
    name = path.lstrip("/")
    if not name or "/" in name:
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL), path)
    return os.path.join(os.environ.get("TMPDIR", "/tmp"), f".shm-{name}")


def _open_memory(path: str, flags: int, mode: int = 0o777) -> int:
    return os.open(_place(path), flags | os.O_CLOEXEC | os.O_NOFOLLOW, mode)


def _unlink_memory(path: str) -> None:
    os.unlink(_place(path))
