"""Whether a worker's message bears a report on an error; what reads it is imported when there is one."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sentinel_kernel.kernel.wire import Part

METADATA_KEY = "sentinel_failure"
"""As policy/failure_report.py has it; also the type of a message that is nothing but a report."""

_SIGN = METADATA_KEY.encode("ascii")


def bears_report(metadata: Part) -> bool:
    """Tell whether a message's metadata may hold a report."""
    return _SIGN in bytes(metadata)
