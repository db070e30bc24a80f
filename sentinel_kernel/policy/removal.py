"""Whether a cell's line removes or renames: then nothing that is said of writing or reading helps; pure."""

from __future__ import annotations

import re

from sentinel_kernel.record import replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from sentinel_kernel.policy.violation import Violation

_CAUSES = ("path_read_only", "path_hidden")
_REMOVES = re.compile(
    r"(?:\b(?:os|shutil)\.(?:rmtree|rmdir|removedirs|unlink|remove|rename|renames|replace|move)|\brmtree"
    r"|\.(?:unlink|rmdir))\s*\("
)


def as_removal(violation: Violation, code: str | None) -> Violation:
    """Return the violation as one whose words are about removing, where its line in the cell ``code`` does that."""
    if violation.cause not in _CAUSES or violation.line is None or not code:
        return violation
    lines = code.split("\n")
    line = lines[violation.line - 1] if 1 <= violation.line <= len(lines) else ""
    if _REMOVES.search(line) is None or "open(" in line:
        return violation
    return replace(violation, values={**violation.values, "does": "removed"})


def is_removal(violation: Violation) -> bool:
    """Tell whether :func:`as_removal` has found it to be one."""
    return violation.values.get("does") == "removed"
