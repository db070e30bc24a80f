"""Changes a cell so that it runs under the profile in force, keeping what it means; each change is checked."""

from __future__ import annotations

import ast

from sentinel_kernel.policy.cell_source import CellSource, parses
from sentinel_kernel.policy.compare import compiled
from sentinel_kernel.policy.repair_calls import changed_call
from sentinel_kernel.policy.repair_paths import moved_writes
from sentinel_kernel.policy.repair_pools import smaller_pools

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from sentinel_kernel.policy.change import Change
    from sentinel_kernel.policy.leeway import Leeway
    from sentinel_kernel.policy.violation import Violation


_WRITABLE = ("/tmp", "/var/tmp", "/dev/shm")


def code_changes(violation: Violation, code: str, leeway: Leeway, machine: str) -> list[Change]:
    """Return the changes of ``code`` that take away the cause of ``violation``; none where none keeps the meaning.

    What comes back parses, holds every statement of ``code``, and needs no right that the profile does not give.
    """
    cell = CellSource(code)
    if cell.tree is None and not cell.shell:
        return []
    return [
        change
        for change in _candidates(cell, violation, leeway, machine)
        if _keeps(cell, change) and _passes(code, change.code, violation, leeway, machine)
    ]


def _candidates(cell: CellSource, violation: Violation, leeway: Leeway, machine: str) -> Iterable[Change]:
    made: Change | None = None
    if violation.cause in ("path_read_only", "path_hidden"):
        made = moved_writes(cell, violation, leeway)
    elif violation.cause == "call":
        made = changed_call(cell, violation, leeway, machine)
    elif violation.cause == "pids" or (violation.limit is not None and violation.limit.name == "pids"):
        made = smaller_pools(cell, violation.limit.allowed if violation.limit is not None else None)
    return [] if made is None else [made]


def _keeps(cell: CellSource, change: Change) -> bool:
    """Tell whether a change is one, can be run, and has left out no statement."""
    if change.code == cell.text or not parses(change.code):
        return False
    after = CellSource(change.code)
    return _statements(after) >= _statements(cell)


def _statements(cell: CellSource) -> int:
    return sum(isinstance(node, ast.stmt) for node in cell.nodes())


def _passes(before: str, after: str, violation: Violation, leeway: Leeway, machine: str) -> bool:
    """Tell whether preflight finds less of this cause in the changed cell, and nothing that it did not find before."""
    profile = leeway.profile(violation.profile)
    if profile is None:
        return True
    from sentinel_kernel.policy.preflight import check  # noqa: PLC0415 - only where there is a change to be checked
    from sentinel_kernel.policy.preflight_finding import CERTAIN, Facts  # noqa: PLC0415 - as above

    facts = Facts(
        compiled(profile, machine),
        writable=tuple(place for place in (*_WRITABLE, leeway.workspace, leeway.home) if place),
        workspace_writable=profile.filesystem.allow_write_overlay,
    )
    old, new = ([one for one in check(code, facts) if one.confidence == CERTAIN] for code in (before, after))
    if {one.cause for one in new} - {one.cause for one in old}:
        return False
    mine = [sum(one.cause == violation.cause for one in found) for found in (old, new)]
    return mine[1] < mine[0] or not mine[1]
