"""Tells of a worker's death: as a violation in the cell that it ended, and in words for its error."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

from sentinel_kernel.kernel import words

if TYPE_CHECKING:
    from sentinel_kernel.kernel.host import Host
    from sentinel_kernel.kernel.wire import Json


_LOOKED_AT = 8
"""So many of the newest violations are looked through for a machine without memory."""


def machine_was_short(records: list[Json], last_count: int) -> bool:
    """Tell whether this cell, the ``last_count``-th, or the one before was told that the machine had no memory left."""
    return any(
        isinstance(values := record.get("values"), dict)
        and values.get("machine") == "short"
        and isinstance(limit := record.get("limit"), dict)
        and limit.get("name") == "memory"
        and isinstance(count := record.get("execution_count"), int)
        and count >= last_count - 1
        for record in records
    )


def death_words(host: Host, cause: Json) -> words.Words:
    """Return the words for the worker's death by ``cause``, which the newest cell that runs shows as a violation.

    A KILL rule's violation is shown already.
    """
    violation = host.displays.last_violations.get(str(cause.get("violation_id") or ""))
    if violation is None and cause.get("kind") != "rule_kill":
        from sentinel_kernel.policy.occurrence import death_violation  # noqa: PLC0415 - not on the start path

        identifier, now = os.urandom(8).hex(), int(time.time() * 1000)
        short = machine_was_short(host.outbox.told.newest(_LOOKED_AT), host.execution.last_count)
        told = {**cause, "machine_short": short}
        made = death_violation(told, id=identifier, profile=host.lifecycle.profile, time_ms=now)
        with host.faults.survived("A death was told without its violation"):
            host.displays.violation(
                made.to_json(), host.execution.newest() if host.execution.running else None
            )
        violation = host.displays.last_violations.get(identifier)
    return words.death(cause, violation)
