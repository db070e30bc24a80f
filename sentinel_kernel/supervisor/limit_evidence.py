"""Whether a limit is what a cell's error is about: what was told of it in this cell, and what is measured now."""

from __future__ import annotations

import contextlib
import resource

from sentinel_kernel.policy.failure_report import THREAD
from sentinel_kernel.policy.plan import LENT_FILES, is_within, process_limit
from sentinel_kernel.supervisor.limit_watch import count_files, file_systems, fullness, size_name
from sentinel_kernel.supervisor.processor_time import count_tasks
from sentinel_kernel.supervisor.reached import reached

TYPE_CHECKING = False
if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from sentinel_kernel.policy.failure_report import Entry
    from sentinel_kernel.supervisor.current import Current
    from sentinel_kernel.supervisor.limit_watch import LimitWatch
    from sentinel_kernel.supervisor.meter import Meter

_TASKS = _FULL = 0.97
_FILES = 0.9
_STATUS_BYTES = 4096
_STACK_BYTES = 2 << 20
"""A thread's stack where RLIMIT_STACK sets none (pthread_create(3))."""

_LEAST_STACK_BYTES = 16 << 10
_WAS_NEARLY_FULL = 0.5
"""What a program filled and has removed again since, as a temporary file: a sample saw at least so much of it."""


class LimitEvidence:
    """Asks those who watch the limits."""

    def __init__(self, watch: LimitWatch, meter: Meter) -> None:
        self._watch = watch
        self._meter = meter

    def told(self) -> Sequence[Mapping[str, Any]]:
        """Return the limits that were told of since the cell began."""
        return self._watch.events

    def owe(self, event: dict[str, Any]) -> dict[str, Any]:
        """Have the limit of tasks told at the cell's end, with how many processes were ended for it."""
        self._watch.owed = event
        return event

    def measured(self, current: Current, name: str, entry: Entry) -> dict[str, Any] | None:
        """Return the limit ``name`` as an event, where what is measured bears out that it was reached."""
        looks: dict[str, Callable[[], dict[str, Any] | None]] = {
            "memory": lambda: self._memory(current, entry),
            "pids": lambda: self._pids(current),
            "starts": lambda: self._starts(current, entry),
            "full": lambda: self._watch.filled(current),
            "crowded": lambda: _crowded(current, entry),
            "mapped": lambda: self._mapped(current, entry),
            "space": lambda: _space(current, entry),
            "room": lambda: _said(_space(current, entry)),
            "file_size": lambda: _file_size(current, entry),
            "open_files": lambda: _open_files(current),
        }
        look = looks.get(name)
        return None if look is None else look()

    def _memory(self, current: Current, entry: Entry) -> dict[str, Any] | None:
        if entry.returncode is not None:
            return _said(self._meter.refused(None))  # a program's, by its words
        if entry.site != THREAD:
            held = data_held(current.worker_pid, entry.held or 0)
            sure = _is_beyond(current, held, entry.size or 0)
            return self._meter.refused(None, held=held) or _said(
                self._meter.refused(entry.size, held=held, sure=sure)
            )
        room = stacks_left(current.worker_pid)
        told = self._meter.refused(None, sure=room is not None and room < 1)
        return _of_threads(told or _said(self._meter.refused(entry.size)))

    def _starts(self, current: Current, entry: Entry) -> dict[str, Any] | None:
        """Return the limit of tasks by elimination, or that of memory where it is the one that threads meet first."""
        allowed = process_limit(current.preparation.plan.sizes)
        if allowed is None or _limit_of(current, resource.RLIMIT_NPROC) != allowed:
            return None  # as below
        room = stacks_left(current.worker_pid) if entry.site == THREAD else None
        if room is not None and room < allowed - count_tasks(current):
            told = _of_threads(self._meter.refused(entry.size, sure=True))
            return None if told is None else {**told, "guessed": True}
        return _said(reached(current, "pids", "refused", 0, allowed, "count"))

    def _pids(self, current: Current) -> dict[str, Any] | None:
        sizes = current.preparation.plan.sizes
        if sizes.pids is None:
            return None
        used, allowed = count_tasks(current), process_limit(sizes) or sizes.pids
        seen = self._watch.pids_counted() or max(used, current.peak_tasks) >= allowed * _TASKS
        return reached(current, "pids", "refused", used, allowed, "count") if seen else None

    def _mapped(self, current: Current, entry: Entry) -> dict[str, Any] | None:
        """Return the limit of a file system that a child has met which SIGBUS has ended."""
        started = current.started
        noted = started is not None and started.overfull(self._watch.began_ns) is not None
        return _said(overfull(current)) if noted or entry.returncode is not None else None


def _crowded(current: Current, entry: Entry) -> dict[str, Any] | None:
    """Return the limit of tasks, where a thread found no room in what was started by the error's own line."""
    threads = current.handler.shares.threads if current.handler.shares is not None else None
    told = threads.limit() if threads is not None else None
    if told is None or all(told["place_of"]["line"] != one.number for one in entry.lines):
        return None
    return {**told, "guessed": True}


def _space(current: Current, entry: Entry) -> dict[str, Any] | None:
    systems = file_systems(current)
    if entry.path is not None:
        systems = [one for one in systems if is_within(entry.path, one[1])][:1]
    full = [found for one in systems if (found := fullness(current, *one)) is not None]
    if full:
        return full[0]
    for name, place, status in systems:
        size = status.f_blocks * status.f_frsize
        peak = _peak(current, name, place)
        seen = peak >= size * _WAS_NEARLY_FULL
        # What was asked for in one call was given back with its failure, as by fallocate(2).
        if size and (seen or (entry.size or 0) > status.f_bfree * status.f_frsize):
            told = {**reached(current, name, "refused", peak, size, "bytes"), "place": place}
            return told if seen else _said(told)
    return _gone(current, systems, entry) if entry.gone and systems else None


def overfull(current: Current) -> dict[str, Any] | None:
    """Return the limit that who was ended by SIGBUS has met: of a file system in memory that is full, or has been.

    Or that was promised more than it has room for: then what was written may have been gone before a sample.
    """
    found = None
    for name, place, status in file_systems(current):
        size = status.f_blocks * status.f_frsize
        used = max((status.f_blocks - status.f_bfree) * status.f_frsize, _peak(current, name, place))
        told = {**reached(current, name, "kill", used, size, "bytes"), "place": place}
        if name == "shm" and current.promised_bytes:
            return told
        if found is None and size and used >= size * _FULL:
            found = told
    return found


def _gone(
    current: Current, systems: list[tuple[str, str, os.statvfs_result]], entry: Entry
) -> dict[str, Any]:
    """Return the limit that a file met which is gone again: no other file of the sandbox's meets such an end."""
    if entry.path is not None:
        name, place, status = systems[0]
        size = status.f_blocks * status.f_frsize
        return {**reached(current, name, "refused", 0, size, "bytes"), "place": place, "guessed": True}
    rooms = [f"{place} {status.f_blocks * status.f_frsize >> 20} MiB" for _, place, status in systems]
    told = reached(current, "disk", "refused", 0, None, "bytes", detail=", ".join(rooms))
    return {**told, "guessed": True}


def _peak(current: Current, name: str, place: str) -> int:
    key = size_name(current, name, place)
    kept = current.sandbox.kept[0] if name == "disk" else 0
    return max(0, current.held_peaks.get(key, 0) - kept)


def stacks_left(pid: int) -> int | None:
    """Return for how many more stacks of threads a process's RLIMIT_DATA has room, None where it has no such limit.

    A thread's stack is private memory that may be written: all of it counts from its start on, touched or not.
    """
    with contextlib.suppress(OSError, ValueError, IndexError):
        allowed, stack = (
            resource.prlimit(pid, what)[0] for what in (resource.RLIMIT_DATA, resource.RLIMIT_STACK)
        )
        if allowed != resource.RLIM_INFINITY:
            held = _status_number(pid, b"VmData") << 10
            size = _STACK_BYTES if stack == resource.RLIM_INFINITY else max(stack, _LEAST_STACK_BYTES)
            return max(0, allowed - held) // size
    return None


def data_held(pid: int, said: int) -> int:
    """Return how many bytes of data a process had when it ``said`` so: no more than its highest size bears out.

    By now what its frames held is given back; the peak of its address space is kept by Linux.
    """
    with contextlib.suppress(OSError, ValueError, IndexError):
        peak, size, data = (_status_number(pid, name) << 10 for name in (b"VmPeak", b"VmSize", b"VmData"))
        return max(0, min(said, peak - (size - data)))
    return 0


def _is_beyond(current: Current, held: int, size: int) -> bool:
    """Tell whether the limit of the worker's data, which the meter has set, has no room for ``size`` beside ``held``.

    What is more than the whole limit of memory is the program's own mistake.
    """
    allowed, most = _limit_of(current, resource.RLIMIT_DATA), current.preparation.plan.sizes.memory_bytes
    ours = resource.RLIMIT_DATA not in current.limits_set and most is not None and size < most
    return ours and 0 < allowed < held + size


def _said(told: dict[str, Any] | None) -> dict[str, Any] | None:
    """Return a limit that only the worker's word speaks for: what it asked for, or that a start failed at all."""
    return None if told is None else {**told, "guessed": True}


def _of_threads(told: dict[str, Any] | None) -> dict[str, Any] | None:
    return None if told is None else {**told, "wanted": "thread"}


def _file_size(current: Current, entry: Entry) -> dict[str, Any] | None:
    allowed = current.preparation.plan.sizes.file_size_bytes
    if allowed is None or _limit_of(current, resource.RLIMIT_FSIZE) != allowed:
        return None  # the program has set a lower one itself
    held = [
        max((status.f_blocks - status.f_bfree) * status.f_frsize, _peak(current, name, place))
        for name, place, status in file_systems(current)
    ]
    # Nothing smaller holds a file of that size, unless it has holes.
    seen = max(held, default=0) >= allowed * _FILES
    if not seen and (entry.size or 0) < allowed:
        return None  # it had a lower one meanwhile
    told = reached(current, "file_size", "refused", 0, allowed, "bytes")
    return told if seen else _said(told)


def _open_files(current: Current) -> dict[str, Any] | None:
    allowed = current.preparation.plan.sizes.open_files
    if allowed is None:
        return None
    limit = _limit_of(current, resource.RLIMIT_NOFILE)
    if limit not in (allowed, allowed + LENT_FILES):
        return None  # as above
    used = count_files(current.worker_pid)
    seen = used >= allowed * _FILES
    if not seen and _table_size(current.worker_pid) <= allowed // 2:
        return None  # it had a limit of its own meanwhile: the table of its files never was so large
    return {**reached(current, "open_files", "refused", used, allowed, "count"), "guessed": not seen}


def _table_size(pid: int) -> int:
    """Return how many files a process's table has room for: twice as many as it ever had, at most (proc(5), FDSize)."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        return _status_number(pid, b"FDSize")
    return 0


def _status_number(pid: int, name: bytes) -> int:
    with open(f"/proc/{pid}/status", "rb") as file:
        return int(file.read(_STATUS_BYTES).partition(b"\n" + name + b":")[2].split(None, 1)[0])


def _limit_of(current: Current, what: int) -> int:
    """Return a soft limit of the worker; -1 where it is gone."""
    with contextlib.suppress(OSError):
        return resource.prlimit(current.worker_pid, what)[0]
    return -1
