"""Finds the limit to raise, and how far: enough for the cell, no further than the ceiling and the machine."""

from __future__ import annotations

import math

from sentinel_kernel.policy.needs import Need, bytes_needed, count_needed, seconds_needed
from sentinel_kernel.policy.plan import inodes_for
from sentinel_kernel.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from sentinel_kernel.policy.leeway import Leeway
    from sentinel_kernel.policy.violation import Violation

TYPED = {
    "memory": ("memory", "memory_bytes", "bytes"),
    "pids": ("pids", "pids", "count"),
    "disk": ("disk", "disk_bytes", "bytes"),
    "tmp": ("tmp", "tmp_bytes", "bytes"),
    "shm": ("shm", "shm_bytes", "bytes"),
    "file_size": ("file_size", "file_size_bytes", "bytes"),
    "open_files": ("open_files", "open_files", "count"),
    "output": ("output", "output_bytes", "bytes"),
    "wall_seconds": ("wall", "wall_seconds", "seconds"),
    "cpu_seconds": ("cpu_seconds", "cpu_seconds", "seconds"),
}
"""Limit -> what `%sentinel_limit` calls it, the size that it sets, and its unit."""

_GROWTH = {"bytes": 16, "count": 8, "seconds": 10}
_GROWTH_OF_MEMORY = 4
_GROWTH_BEYOND_NEED = 4
_MOST_SIZE = 1 << 45
_MEBIBYTE, _GIBIBYTE = 1 << 20, 1 << 30
_IDLE_BYTES = 300 * _MEBIBYTE
"""What an idle worker and its libraries take of the memory, at most as a rule."""


_STACK_BYTES = 9 * _MEBIBYTE
"""What a thread takes: the usual stack (8 MiB, of which the limit counts all), and a little beside it."""

_STEADY = 15 / 16
"""How much of the memory's ceiling is proposed, where that is enough."""

_IN_MEMORY = frozenset(("disk", "tmp", "shm"))
"""File systems in memory: what is written to them is part of the sandbox's memory, too."""


class Raise(Record):
    """The limits to raise: size (``memory_bytes``) -> value; ``line`` is the magic that sets them."""

    values: Mapping[str, float]
    line: str


def limit_of(violation: Violation) -> str | None:
    """Return the name of the limit that the violation is about, None where it is about none that can be set."""
    name = violation.limit.name if violation.limit is not None else violation.cause
    if violation.values.get("machine") == "short":
        return None  # the machine is what is short: the limit, raised or not, changes nothing
    return name if name in TYPED else None


def raised_limit(violation: Violation, code: str | None, leeway: Leeway) -> Raise | None:
    """Return the limit to raise for ``violation``, None where it can't be raised so far that it helps."""
    name = limit_of(violation)
    if name is None:
        return None
    if violation.values.get("full_of") == "names":
        return _more_names(name, code, leeway)
    return _raised(name, violation, code, leeway)


def _raised(name: str, violation: Violation, code: str | None, leeway: Leeway) -> Raise | None:
    typed, field, unit = TYPED[name]
    allowed = violation.limit.allowed if violation.limit is not None else None
    if allowed is None:
        allowed = leeway.sizes.get(field)
    known, most = leeway.most_of(field)
    if allowed is None or not known or (most is not None and most <= allowed):
        return None
    need = _need(unit, code)
    least = need.single
    if name == "memory":
        stacks = count_needed(code).single * _STACK_BYTES if code and "Thread" in code else 0
        need = Need(need.total + stacks, need.single)
        least += stacks + _IDLE_BYTES  # all threads are there at once
    if most is not None and least > most:
        return None  # even the ceiling is less than the cell's largest piece
    used = violation.limit.used if violation.limit is not None and violation.limit.used else 0
    growth = _GROWTH_OF_MEMORY if name == "memory" else _GROWTH_BEYOND_NEED if need.total else _GROWTH[unit]
    wished = max(growth * allowed, *(_wishes(name, need, used)))
    if name == "memory":
        most = _steady(most, max(least, allowed + _MEBIBYTE))
    value = wished if most is None else min(wished, most)
    text, value = _typed(value, unit, most)
    if value <= allowed:
        return None
    raised = Raise({field: value}, f"%sentinel_limit {typed}={text}")
    if name in _IN_MEMORY:
        return _with_memory(raised, min(value, need.total or value / 2), leeway)
    return _with_threads(name, raised, code, leeway)


def _steady(most: float | None, least: float) -> float | None:
    """Return how much memory is proposed at most: a ceiling that is a share of what is free moves a little.

    What is named has to be had as well when it is typed, in a sandbox that is made later.
    """
    return None if most is None else min(most, max(least, most * _STEADY))


def _more_names(name: str, code: str | None, leeway: Leeway) -> Raise | None:
    """Return the size with which a folder takes as many names as the cell makes: they go with the size."""
    typed, field, _ = TYPED[name]
    size, (known, most) = leeway.sizes.get(field), leeway.most_of(field)
    if size is None or not known:
        return None
    wished = max(4 * inodes_for(int(size)), 2 * count_needed(code or "").single)
    value = size
    while inodes_for(int(value)) < wished and value < _MOST_SIZE:
        value *= 2
    text, value = _typed(value if most is None else min(value, most), "bytes", most)
    return Raise({field: value}, f"%sentinel_limit {typed}={text}") if value > size else None


def _with_threads(name: str, raised: Raise, code: str | None, leeway: Leeway) -> Raise | None:
    """Return ``raised`` with what the cell's threads take beside it: each has a stack, which counts as memory."""
    threads = count_needed(code).single if code and "Thread" in code else 0
    if name == "pids":
        return _with_memory(raised, threads * _STACK_BYTES, leeway)
    allowed, (known, most) = leeway.sizes.get("pids"), leeway.most_of("pids")
    if name != "memory" or allowed is None or threads < allowed or not known:
        return raised
    if most is not None and most < threads:
        return None
    text, value = _typed(2 * threads if most is None else min(2 * threads, most), "count", most)
    return Raise({**raised.values, "pids": value}, f"{raised.line} pids={text}")


def _with_memory(raised: Raise, taken: float, leeway: Leeway) -> Raise | None:
    """Return ``raised`` with the memory that it takes to use it; None where there is not so much."""
    memory, (known, most) = leeway.sizes.get("memory_bytes"), leeway.most_of("memory_bytes")
    if memory is None or taken + _IDLE_BYTES <= memory:
        return raised
    if not known or (most is not None and most < taken + _IDLE_BYTES):
        return None
    most = _steady(most, taken + _IDLE_BYTES)
    wished = 1.5 * taken + _IDLE_BYTES
    text, value = _typed(wished if most is None else min(wished, most), "bytes", most)
    return Raise({**raised.values, "memory_bytes": value}, f"{raised.line} memory={text}")


def _need(unit: str, code: str | None) -> Need:
    if not code:
        return Need()
    if unit == "bytes":
        return bytes_needed(code)
    return seconds_needed(code) if unit == "seconds" else count_needed(code)


def _wishes(name: str, need: Need, used: float) -> tuple[float, ...]:
    """Return what would surely be enough: all that the cell makes, with room for what libraries copy."""
    if name == "memory":
        return 2 * need.total + _IDLE_BYTES, 2 * used
    if name in ("wall_seconds", "cpu_seconds"):
        return 3 * need.total + 30, 2 * used
    if name in ("pids", "open_files"):
        return 2 * need.single + 64, 2 * used
    return 1.5 * need.total + _MEBIBYTE, 2 * used


def _typed(value: float, unit: str, most: float | None) -> tuple[str, float]:
    """Return ``value`` as it is typed, rounded up to what people write where the ceiling leaves room for that."""
    if unit == "bytes":
        for size, letter in ((_GIBIBYTE, "G"), (_MEBIBYTE, "M"), (1 << 10, "K")):
            if value >= size:
                rounded = math.ceil(value / size)
                if rounded > 64 and (most is None or 16 * math.ceil(rounded / 16) * size <= most):
                    rounded = 16 * math.ceil(rounded / 16)
                if most is not None and rounded * size > most and value >= 1000 * size:
                    rounded = math.floor(value / size)  # which leaves out less than a thousandth
                if most is None or rounded * size <= most:
                    return f"{rounded}{letter}", rounded * size
        return str(math.floor(value)), math.floor(value)
    rounded = math.ceil(value)
    if unit == "count":
        rounded = 1 << max(0, rounded - 1).bit_length()
    elif rounded > 60:
        rounded = 60 * math.ceil(rounded / 60)
    if most is not None and rounded > most:
        rounded = math.floor(most)
    return str(rounded), rounded
