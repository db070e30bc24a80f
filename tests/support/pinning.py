"""Threads kept on some processors for a while, and then put back."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping


@contextlib.contextmanager
def kept_on(processors: set[int], threads: Callable[[], Mapping[int, int]]) -> Iterator[None]:
    """Keep ``threads`` (each with its process) on ``processors``; then each may run where it could before.

    Those that end are left. Those that are made meanwhile have their maker's processors: they get what the first thread
    of their process had.
    """
    before: dict[int, set[int]] = {}
    try:
        for thread, _ in _each(threads):
            with contextlib.suppress(ProcessLookupError):
                before[thread] = os.sched_getaffinity(thread)
                os.sched_setaffinity(thread, processors)
        yield
    finally:
        for thread, process in _each(threads):
            with contextlib.suppress(ProcessLookupError):
                if had := before.get(thread, before.get(process)):
                    os.sched_setaffinity(thread, had)


def threads_of(*processes: int) -> dict[int, int]:
    """Return the threads that processes have now, each with its process."""
    found = {}
    for process in processes:
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it is no more
            found.update(dict.fromkeys(map(int, os.listdir(f"/proc/{process}/task")), process))
    return found


def _each(threads: Callable[[], Mapping[int, int]]) -> Iterator[tuple[int, int]]:
    """Yield each thread once, also those that others make while this goes on."""
    seen: set[int] = set()
    while new := [item for item in threads().items() if item[0] not in seen]:
        yield from new
        seen.update(thread for thread, _ in new)
