"""Sets limits of the person's own in a running sandbox, and tells which are in force and what is used of them."""

from __future__ import annotations

import os

from sentinel_kernel.errors import ProtocolError
from sentinel_kernel.policy.own_limits import (
    HELD_BY_GROUP_ALONE,
    OWN_LIMITS,
    beyond,
    beyond_values,
    parse_limits,
    raise_ceiling,
    values,
    with_own,
)
from sentinel_kernel.policy.plan import process_limit
from sentinel_kernel.record import as_dict, replace
from sentinel_kernel.supervisor.limit_watch import file_systems
from sentinel_kernel.supervisor.preparation import resolve_sizes
from sentinel_kernel.supervisor.processor_time import count_tasks
from sentinel_kernel.supervisor.switching import apply_sizes, too_full

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from sentinel_kernel.policy.own_limits import Own
    from sentinel_kernel.supervisor.current import Current
    from sentinel_kernel.supervisor.meter import Meter
    from sentinel_kernel.supervisor.preparation import StartRequest

_HARD = ("memory_bytes", "pids", "open_files", "file_size_bytes")
"""Kept by rlimits, whose hard values nobody but root can raise."""


def change_limits(
    current: Current, request: StartRequest, message: dict[str, Any], used_bytes: Callable[[int], int]
) -> tuple[StartRequest, dict[str, Any]]:
    """Set the ``limits`` of ``message`` and take back those that it says to ``drop``.

    Returns the request that a replacement of the sandbox is made by, and what the host is told: whether it is done
    (``live``), the sizes ``before`` and ``after``, those that are ``full`` and keep theirs, those that only the next
    sandbox can have (``later``), and how many ``processors`` there are; where nothing is done those that this back
    end can't hold (``unheld``), or that go ``beyond`` the ceiling without being ``granted``, with what it gives, or the
    memory that is ``in_use`` and would not fit (``used_bytes``: as of switching.too_full).
    """
    try:
        asked = parse_limits(message.get("limits") or {})
    except ProtocolError as error:
        return request, {"live": False, "message": str(error)}
    speeds = [name for name, value in asked if name in HELD_BY_GROUP_ALONE and value is not None]
    if speeds and not current.backend.holds_io:
        return request, {"live": False, "unheld": speeds, "io_obstacle": current.backend.io_obstacle}
    granted = [name for name in message.get("granted") or () if name in OWN_LIMITS]
    ceiling = raise_ceiling(current.preparation.ceiling, asked, granted)
    if too_much := beyond(asked, ceiling):
        return request, {"live": False, "beyond": too_much}
    dropped = [name for name in message.get("drop") or () if name in OWN_LIMITS]
    own = dict(request.limits) | dict(asked)
    # What the sandbox was made for is the hard limit of each process: more takes another one.
    later = [name for name, _ in beyond_values(asked, current.preparation.plan.most) if name in _HARD]
    asked = tuple((name, value) for name, value in asked if name not in later)
    before = current.preparation.plan.sizes
    if dropped:
        own = {name: value for name, value in own.items() if name not in dropped}
        # The profile's own share of the machine, as it is now, for these alone.
        profiles = resolve_sizes(current.preparation.profile, len(os.sched_getaffinity(0)))
        taken = {name: getattr(profiles, name) for name in dropped}
        if "cpu_count" in dropped:
            taken["cpu_quota"] = profiles.cpu_quota
        after = with_own(replace(before, **taken), asked, ceiling)
    else:
        after = with_own(before, asked, ceiling)
    if (in_use := too_full(before, after, used_bytes)) is not None:
        return request, {"live": False, "in_use": in_use}
    current.preparation = replace(current.preparation, ceiling=ceiling)
    full = apply_sizes(current, after)
    limits: Own = tuple(own.items())
    current.own_limits = frozenset(own)
    told = {
        "live": True,
        "before": as_dict(before),
        "after": as_dict(current.preparation.plan.sizes),
        "full": full,
        "later": later,
        "own": own,
        "processors": len(os.sched_getaffinity(0)),
    }
    kept = tuple(dict.fromkeys((*request.granted_limits, *granted)))
    return replace(request, limits=limits, granted_limits=kept), told


def limits_in_force(current: Current, request: StartRequest, meter: Meter) -> dict[str, Any]:
    """Return each limit with its value, what is used of it where that can be told, and how far it may be set.

    ``machine_bytes`` is what the machine can give now, where that is less memory than the limit.
    """
    sizes = current.preparation.plan.sizes
    in_force, ceiling = values(sizes), values(current.preparation.ceiling)
    used = _used(current)
    if (in_use := meter.sample.get("memory_bytes")) is not None:
        used["memory_bytes"] = in_use
    allowed = meter.allowed_bytes()
    own = dict(request.limits)
    events = current.backend.events()
    rows = [
        {
            "name": name,
            "value": in_force[name],
            "used": used.get(name),
            "ceiling": ceiling[name],
            "own": name in own,
        }
        for name in OWN_LIMITS
    ]
    return {
        "rows": rows,
        "backend": current.backend.name,
        "io_obstacle": current.backend.io_obstacle,
        "processors": len(os.sched_getaffinity(0)),
        "machine_bytes": allowed if allowed < (sizes.memory_bytes or 0) else None,
        "detail": current.backend.detail,
        "processor": _kept_by(current),
        "throttled_seconds": events.throttled_seconds if events is not None else 0.0,
        "tasks_on_top": (process_limit(sizes) or 0) - (sizes.pids or 0) if sizes.pids is not None else 0,
    }


def _kept_by(current: Current) -> str:
    """Return what keeps the sandbox to its processors."""
    plan = current.preparation.plan
    if current.backend.throttles and plan.sizes.cpu_count is not None:
        return "backend"
    if plan.sizes.cpu_quota is not None:
        return "duty"
    return "affinity" if plan.cpus else "none"


def _used(current: Current) -> dict[str, int]:
    used = {"pids": count_tasks(current)}
    for name, _, status in file_systems(current):
        # /tmp and HOME have the same limit: the fuller of the two is told.
        held = (status.f_blocks - status.f_bfree) * status.f_frsize
        used[f"{name}_bytes"] = max(held, used.get(f"{name}_bytes", 0))
    return used
