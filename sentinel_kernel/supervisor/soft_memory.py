"""The soft mark: a signal whose handler in the worker raises MemoryError in the running cell, with the figures."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import time

from sentinel_kernel.policy.sizes_in_words import size_text
from sentinel_kernel.supervisor.approach import Approach
from sentinel_kernel.supervisor.last_words import note_place
from sentinel_kernel.supervisor.thread_signals import catches
from sentinel_kernel.supervisor.worker_link import MEMORY_SIGNAL

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from sentinel_kernel.supervisor.current import Current
    from sentinel_kernel.supervisor.memory_use import MemoryUse
    from sentinel_kernel.supervisor.processes import Processes

_AGAIN_SECONDS = 0.3
"""An exception may be swallowed (in a finalizer, by a bare except): after this long it is raised again."""

_TRIM_LOOKS, _TRIM_MILLISECONDS = 5, 3
"""So often, so long, is waited for what is free to be given back, where memory is short."""

_GROWTH = 64
"""A cell that begins above the mark may run: only one that has grown by a 64th of it is stopped."""

_LIMIT_NAMES = {"disk_bytes": "disk", "tmp_bytes": "tmp", "home": "tmp", "shm_bytes": "shm"}
_SHOWN_FILES = {"disk_bytes": "held files", "tmp_bytes": "/tmp", "home": "HOME", "shm_bytes": "/dev/shm"}


class SoftMemory:
    """Decides when the running cell gets MemoryError, and sends it."""

    def __init__(self, current: Current) -> None:
        """Speak to the worker of ``current``."""
        self._current = current
        self._approach = Approach(current)
        self._next = 0.0
        self.begun_at = 0
        """What was used when the cell began."""

        self.told = False
        """Whether this cell was told."""

    def begin_cell(self, used: int) -> None:
        """Take note that a cell begins with ``used`` bytes taken."""
        self.begun_at = used
        self.told = False
        self._next = 0.0
        self._approach.begin_cell(used)

    def due(self, used: int, mark: int) -> bool:
        """Tell whether the running cell is to be stopped at ``used`` bytes."""
        self._approach.look(used, mark)
        return used >= mark and used >= self.begun_at + mark // _GROWTH and time.monotonic() >= self._next

    def raise_it(self, limit: dict[str, Any]) -> bool:
        """Raise MemoryError in the cell; True where it is the first time, so that the host is told once.

        Only a worker that catches the signal gets it: at its default it would end the worker (signal(7)).
        """
        self._next = time.monotonic() + _AGAIN_SECONDS
        worker, pipe = self._current.worker_pid, self._current.word_pipe
        if pipe < 0 or not catches(worker, MEMORY_SIGNAL):
            return False
        with contextlib.suppress(
            OSError
        ):  # full where the cell never reads it: the exception has no text then
            os.write(pipe, f"error {_words(limit)}\n".encode())
        if not self.told:
            note_place(self._current, limit)
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._current.worker_pidfd, MEMORY_SIGNAL)
        first, self.told = not self.told, True
        return first

    def tell_processors(self, count: int | None) -> None:
        """Have the worker set its thread-pool variables, for libraries and processes that are not started yet."""
        wanted = count or len(os.sched_getaffinity(0))
        if self._current.word_pipe < 0 or not catches(self._current.worker_pid, MEMORY_SIGNAL):
            return
        with contextlib.suppress(OSError):
            os.write(self._current.word_pipe, f"processors {wanted}\n".encode())
            signal.pidfd_send_signal(self._current.worker_pidfd, MEMORY_SIGNAL)

    def trim(self) -> None:
        """Ask the worker for the free pages of its heap; no cell runs."""
        if catches(self._current.worker_pid, MEMORY_SIGNAL):
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._current.worker_pidfd, MEMORY_SIGNAL)

    def wait_trimmed(self, measure: Callable[[], None], use: MemoryUse, enough: int) -> None:
        """Have the worker give its free memory back, until ``use`` is down to ``enough``: milliseconds, as it idles."""
        current = self._current
        if current.worker_pid <= 0:
            return
        self.trim()
        death = select.poll()
        death.register(current.worker_pidfd, select.POLLIN)
        for _ in range(_TRIM_LOOKS):
            if death.poll(_TRIM_MILLISECONDS):
                return
            measure()
            if use.total_bytes <= enough:
                break
        self.begun_at = use.total_bytes


def memory_limit(
    current: Current, stage: str, used: int, allowed: int, use: MemoryUse, processes: Processes
) -> dict[str, Any]:
    """Return a limit's event for memory; ``detail`` says what holds most of it.

    ``machine``: what is ``allowed`` is less than the profile says, for lack of memory in the machine.
    """
    limit = current.preparation.plan.sizes.memory_bytes
    return {
        "name": "memory",
        "stage": stage,
        "used": used,
        "allowed": allowed,
        "machine": limit is None or allowed < limit,
        "unit": "bytes",
        "profile": current.preparation.profile.name,
        "backend": getattr(getattr(current, "backend", None), "name", "fallback"),
        "own": _is_own(current, "memory"),
        "detail": _holders(current, use, processes),
    }


def file_limit(current: Current, name: str, used: int, allowed: int) -> dict[str, Any]:
    """Return the event of a file system in memory that was full when a mapped file of it was written (SIGBUS)."""
    return {
        "name": _LIMIT_NAMES[name],
        "stage": "kill",
        "used": used,
        "allowed": allowed,
        "unit": "bytes",
        "profile": current.preparation.profile.name,
        "backend": getattr(getattr(current, "backend", None), "name", "fallback"),
        "own": _is_own(current, _LIMIT_NAMES[name]),
        "detail": f"a mapped file in {_SHOWN_FILES[name]}",
    }


def _is_own(current: Current, name: str) -> bool:
    """Tell whether the person has set this limit, and not the profile."""
    return not {name, f"{name}_bytes"}.isdisjoint(getattr(current, "own_limits", ()))


def _holders(current: Current, use: MemoryUse, processes: Processes) -> str:
    """Return the largest holders of memory, in words."""
    held = [
        (size, "the notebook's process" if process.pid == current.worker_pid else process.name())
        for process, size in use.largest(3)
        if process.pid != processes.first
    ]
    held += [(size, _SHOWN_FILES[name]) for name, size in use.held_bytes.items()]
    held.append((use.shared_bytes, "shared memory"))
    held.sort(key=lambda entry: entry[0], reverse=True)
    return ", ".join(f"{name} {size_text(size)}" for size, name in held[:3] if size >= 1 << 20)


def _words(limit: dict[str, Any]) -> str:
    """Return the text of the exception.

    How far the limit would have to go is not said: the host's hint, behind these words, has worked it out for the cell.
    """
    allowed = size_text(limit["allowed"])
    used = f"{size_text(limit['used'])} of memory are in use ({limit['detail']})"
    kept = (
        "The cell was stopped before it would have been killed; all variables are kept. Free some (del NAME)"
    )
    if limit["machine"]:
        return (
            f"{used}; the machine has too little memory left to allow more than {allowed}. {kept}, work in smaller "
            "parts, or end other programs"
        )
    whose = "the limit set with %sentinel_limit" if limit["own"] else f"profile '{limit['profile']}'"
    return f"{used}; {whose} allows {allowed}. {kept}, work in smaller parts, or raise the limit (%sentinel_limit)"
