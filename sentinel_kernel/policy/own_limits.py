"""Limits that a person sets beside the profile: their names, what they come to, and how far they may go."""

from __future__ import annotations

import math

from sentinel_kernel.errors import ProtocolError
from sentinel_kernel.record import field_names, replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from sentinel_kernel.policy.plan import Sizes

OWN_LIMITS = (
    "memory_bytes",
    "cpu_count",
    "pids",
    "disk_bytes",
    "tmp_bytes",
    "shm_bytes",
    "open_files",
    "file_size_bytes",
    "output_bytes",
    "wall_seconds",
    "cpu_seconds",
    "io_read_bytes",
    "io_write_bytes",
)
"""The sizes that can be set; ``cpu_count`` takes fractions, which become a share of processor time,
and ``io_*`` are bytes a second of each disk."""

LEAST = {
    "memory_bytes": 128 << 20,
    "cpu_count": 0.05,
    "pids": 1,
    "disk_bytes": 1 << 20,
    "tmp_bytes": 1 << 20,
    "shm_bytes": 1 << 16,
    "open_files": 256,
    "file_size_bytes": 1 << 16,
    "output_bytes": 1 << 12,
    "wall_seconds": 1,
    "cpu_seconds": 1,
    "io_read_bytes": 1 << 16,
    "io_write_bytes": 1 << 16,
}

HELD_BY_GROUP_ALONE = ("io_read_bytes", "io_write_bytes")
"""Below these an idle kernel would not work any more, and the limit could not be taken back in it."""

Own = tuple[tuple[str, float | None], ...]
"""(name, value) pairs; None asks for no limit of one's own, as far as the ceiling goes."""


def parse_limits(limits: object) -> Own:
    """Return the limits of a message's object.

    Raises:
        ProtocolError: a name is unknown, or a value is no number.

    """
    if not isinstance(limits, dict):
        raise ProtocolError("Limits are an object of names and numbers.")
    for name, value in limits.items():
        number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
        if name not in OWN_LIMITS or not (value is None or (number and value >= LEAST[name])):
            raise ProtocolError(f"{name!r}: {value!r} is no limit.")
    return tuple(limits.items())


def with_own(sizes: Sizes, own: Iterable[tuple[str, float | None]], ceiling: Sizes) -> Sizes:
    """Return ``sizes`` with the person's own in place of theirs, none beyond ``ceiling``."""
    changes: dict[str, float | None] = {}
    for name, value in own:
        bound = _bound(ceiling, name)
        reached = bound if value is None or (bound is not None and value > bound) else value
        if name == "cpu_count":
            changes["cpu_count"] = None if reached is None else max(1, math.ceil(reached))
            changes["cpu_quota"] = None if reached is None or reached == math.ceil(reached) else reached
        else:
            changes[name] = None if reached is None else int(reached)
    return replace(sizes, **changes)


def beyond(own: Iterable[tuple[str, float | None]], ceiling: Sizes) -> dict[str, float]:
    """Return those that ask for more than ``ceiling`` gives, with what it gives."""
    found = {}
    for name, value in own:
        bound = _bound(ceiling, name)
        if value is not None and bound is not None and value > bound:
            found[name] = bound
    return found


def raise_ceiling(ceiling: Sizes, own: Iterable[tuple[str, float | None]], granted: Iterable[str]) -> Sizes:
    """Return ``ceiling`` as far up as those of the person's limits go that were ``granted`` beyond it."""
    changes: dict[str, float | None] = {}
    for name, value in beyond_values(own, ceiling):
        if name in granted:
            changes[name] = math.ceil(value)
            if name == "cpu_count":
                changes["cpu_quota"] = None
    return replace(ceiling, **changes)


def beyond_values(own: Iterable[tuple[str, float | None]], ceiling: Sizes) -> list[tuple[str, float]]:
    """Return those that ask for more than ``ceiling`` gives, as they ask for it."""
    return [
        (name, value)
        for name, value in own
        if value is not None and (bound := _bound(ceiling, name)) is not None and value > bound
    ]


def values(sizes: Sizes) -> Mapping[str, float | None]:
    """Return the value of each limit that can be set, a fraction of processors included."""
    return {name: _bound(sizes, name) for name in OWN_LIMITS}


def _bound(sizes: Sizes, name: str) -> float | None:
    if name not in field_names(type(sizes)):
        return None
    if name == "cpu_count" and sizes.cpu_quota is not None:
        return sizes.cpu_quota
    value: float | None = getattr(sizes, name)
    return value
