"""Limits that a cell's code has met and made nothing of: the worker has noted where, what is measured bears it out.

A note is the worker's word: it tells where to look, and the line. It counts only where the rlimit is the profile's and
nothing inside has ever asked to set one, so that who met a limit met ours.
"""

from __future__ import annotations

import contextlib
import os
import resource

from sentinel_kernel.policy.plan import process_limit
from sentinel_kernel.policy.stack_dump import MAXIMUM_BYTES, parse_stack, place_of
from sentinel_kernel.record import replace
from sentinel_kernel.supervisor.last_words import place_fields
from sentinel_kernel.supervisor.limit_evidence import overfull, stacks_left
from sentinel_kernel.supervisor.processor_time import count_tasks
from sentinel_kernel.supervisor.reached import reached

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from sentinel_kernel.supervisor.current import Current
    from sentinel_kernel.supervisor.held_line import HeldLine

_SEEN = 0.97


def take_size_stack(current: Current) -> bytes:
    """Return what the worker wrote where a file would have grown beyond the largest size; empty: nothing."""
    with contextlib.suppress(OSError):  # BlockingIOError: as most cells
        return os.read(current.size_pipe, MAXIMUM_BYTES)
    return b""


def refused_start(current: Current, note: tuple[bool, bytes], cell: str) -> dict[str, Any] | None:
    """Return the limit of tasks that a start has met by ``note`` (Started.refused), where nothing speaks against it."""
    sizes, line = current.preparation.plan.sizes, current.held_line
    allowed = process_limit(sizes)
    if allowed is None or line is None or not _is_ours(current, resource.RLIMIT_NPROC, allowed):
        return None
    is_thread, stack = note
    used = max(count_tasks(current), current.peak_tasks)
    seen = used >= allowed * _SEEN
    room = stacks_left(current.worker_pid) if is_thread else None
    if not seen and room is not None and room < allowed - count_tasks(current):
        return None  # memory is what threads meet first
    told = reached(current, "pids", "refused", used if seen else 0, allowed, "count")
    return _placed(told, stack, line, cell, sure=seen)


def ended_by_bus(current: Current, stack: bytes, cell: str) -> dict[str, Any] | None:
    """Return the limit that who was ended by SIGBUS has met, with the line of its start by its ``stack``."""
    line, told = current.held_line, overfull(current)
    return None if line is None or told is None else _placed(told, stack, line, cell, sure=False)


def refused_size(current: Current, stack: bytes, cell: str) -> dict[str, Any] | None:
    """Return the limit of a file's size that a call has met by its ``stack``, where nothing speaks against it."""
    allowed, line = current.preparation.plan.sizes.file_size_bytes, current.held_line
    if allowed is None or line is None or not _is_ours(current, resource.RLIMIT_FSIZE, allowed):
        return None
    return _placed(
        reached(current, "file_size", "refused", 0, allowed, "bytes"), stack, line, cell, sure=False
    )


def _is_ours(current: Current, what: int, allowed: int) -> bool:
    with contextlib.suppress(OSError):
        soft = resource.prlimit(current.worker_pid, what)[0]
        return what not in current.limits_set and soft == allowed
    return False


def _placed(
    told: dict[str, Any], stack: bytes, line: HeldLine, cell: str, *, sure: bool
) -> dict[str, Any] | None:
    """Return the limit with the line of the ``cell`` that has just ended; None where ``stack`` tells none."""
    place = place_of(parse_stack(stack), line.names)
    if place is None or place.line is None or place.cell not in ("", cell):
        return None  # an earlier cell's, or a library's own thread: nobody asks about those
    fields = place_fields(replace(place, cell=""))
    return {**told, "place_of": {**(fields or {}), "confidence": "certain" if sure else "likely"}}
