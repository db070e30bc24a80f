"""A change of a cell's source that keeps its meaning and runs under the profile in force."""

from __future__ import annotations

from sentinel_kernel.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from sentinel_kernel.policy.violation import Text


class Change(Record):
    """The whole changed cell, what was changed in a few words, and why that runs."""

    code: str
    text: str
    why: Text


def changed_lines(before: str, after: str) -> tuple[int, ...]:
    """Return the lines of ``after`` (from 1) that ``before`` does not have in this order."""
    import difflib  # noqa: PLC0415 - for those who ask for the lines alone

    old, new = before.splitlines(), after.splitlines()
    matcher = difflib.SequenceMatcher(None, old, new, autojunk=False)
    return tuple(
        line + 1
        for kind, _, _, start, end in matcher.get_opcodes()
        if kind in ("replace", "insert")
        for line in range(start, end)
    )
