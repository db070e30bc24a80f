"""A limit that was reached, as the fields of the event that tells of it."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from sentinel_kernel.supervisor.current import Current


def reached(
    current: Current,
    name: str,
    stage: str,
    used: float,
    allowed: float | None,
    unit: str,
    *,
    detail: str = "",
) -> dict[str, Any]:
    """Return the event's ``limit``.

    ``stage`` is soft (told the program), refused (the call failed), interrupt or kill; ``unit`` is bytes, seconds or
    count.
    """
    return {
        "name": name,
        "stage": stage,
        "used": used,
        "allowed": allowed,
        "unit": unit,
        "profile": current.preparation.profile.name,
        "backend": current.backend.name,
        "own": bool(current.own_limits.intersection((name, f"{name}_bytes"))),
        "detail": detail,
    }
