"""Whether an error came about because a host was refused: by the host, the call's errno, and the line; pure.

As in policy/attribution.py: the report only says where to look, and an error that a program made by hand is
not explained.
"""

from __future__ import annotations

from sentinel_kernel.policy.attribution import FRESH_MS, LOOKUP_MS
from sentinel_kernel.policy.failure_report import CALL, LIBRARY, RAISE, REMOTE, STANDARD

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from sentinel_kernel.policy.failure_report import Entry, Failure
    from sentinel_kernel.policy.violation import Violation

CAUSE = "host_refused"


def refused_host(
    entry: Entry, failure: Failure, violations: Iterable[Violation], now_ms: int
) -> tuple[Violation, bool] | None:
    """Return the refusal that an error came from, and whether that is certain; None where there is none."""
    found = [
        (one, sure)
        for one in violations
        if one.cause == CAUSE and (sure := _is_of(one, entry, failure, now_ms - one.last_time_ms)) is not None
    ]
    return max(found, key=lambda pair: (pair[1], pair[0].last_time_ms), default=None)


def _is_of(violation: Violation, entry: Entry, failure: Failure, age_ms: int) -> bool | None:
    """Return whether the error certainly came from the refusal; None where nothing says that it did."""
    if entry.by == RAISE or age_ms > LOOKUP_MS:
        return None
    named = _is_host(entry.host, violation.values.get("host", ""))
    if entry.base == "gaierror":
        return _of_lookup(named, age_ms)
    here = violation.line in failure.lines if violation.line is not None else None
    if here is False or (here is None and not named and age_ms > FRESH_MS):
        return None
    sure = False
    if entry.errno is not None:
        sure = bool(here)
        meets = entry.errno == violation.errno and entry.base == "OSError"
    elif entry.base == "CalledProcessError":
        # A child's own error is only printed; that one of this cell's was refused a host is known.
        meets = violation.process is None or not violation.process.is_worker
    else:  # what a library made of an answer, or of a connection of its own
        meets = entry.base in ("OSError", "OperationalError") and entry.by in (
            LIBRARY,
            STANDARD,
            CALL,
            REMOTE,
        )
    return sure if meets else None


def _of_lookup(named: bool | None, age_ms: int) -> bool | None:
    if named is None:
        return False if age_ms <= FRESH_MS else None
    return named or None


def _is_host(asked: str | None, host: str) -> bool | None:
    """Tell whether the host that an error was about is ``host``; None where it names none."""
    return None if asked is None else asked.rstrip(".").lower() == host
