"""What was taken out of a sequence and put into it, with work and memory that its content can't drive up.

The standard library's SequenceMatcher takes cubic time on texts made for it. This is E. W. Myers' greedy algorithm
("An O(ND) Difference Algorithm and Its Variations", 1986), given up once the sequences differ too much.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

MOST_EDITS = 600
"""So many changes are told apart: below a second and 3 MB for texts of any length."""

_CONTEXT = 3

Edit = tuple[str, int, int]
"""One step: " " (kept), "-" (taken out) or "+" (put in), with the places in the old and in the new sequence."""


def line_changes(
    old: Sequence[Hashable], new: Sequence[Hashable], most_edits: int = MOST_EDITS
) -> list[Edit]:
    """Return the steps from ``old`` to ``new``, in order; what both begin and end with is left out of the search.

    Where more than ``most_edits`` would be needed, all between the equal ends is taken out and put in.
    """
    head = 0
    while head < len(old) and head < len(new) and old[head] == new[head]:
        head += 1
    tail = 0
    while tail < min(len(old), len(new)) - head and old[-1 - tail] == new[-1 - tail]:
        tail += 1
    inner_old, inner_new = old[head : len(old) - tail], new[head : len(new) - tail]
    steps = [(" ", place, place) for place in range(head)]
    inner = _search(inner_old, inner_new, most_edits)
    steps.extend((kind, left + head, right + head) for kind, left, right in inner)
    steps.extend((" ", len(old) - back, len(new) - back) for back in range(tail, 0, -1))
    return steps


def hunks(steps: Sequence[Edit], context: int = _CONTEXT) -> list[list[Edit]]:
    """Return the changed steps with ``context`` kept ones around them; those that touch are one hunk."""
    found: list[list[Edit]] = []
    end = -1
    for place, step in enumerate(steps):
        if step[0] == " ":
            continue
        start = max(place - context, end)
        if found and start <= end:
            found[-1].extend(steps[end : place + 1])
        else:
            found.append(list(steps[max(0, start) : place + 1]))
        end = place + 1
        # What follows belongs to this hunk up to the next change, or up to its context.
        following = end
        while following < len(steps) and following < end + context and steps[following][0] == " ":
            following += 1
        if following < len(steps) and steps[following][0] != " ":
            continue
        found[-1].extend(steps[end:following])
        end = following
    return found


def _search(old: Sequence[Hashable], new: Sequence[Hashable], most_edits: int) -> list[Edit]:
    if old and new:
        trace = _trace(old, new, most_edits)
        if trace is not None:
            return _walk_back(trace, len(old), len(new))
    removed: list[Edit] = [("-", place, 0) for place in range(len(old))]
    return removed + [("+", len(old), place) for place in range(len(new))]


def _trace(old: Sequence[Hashable], new: Sequence[Hashable], most_edits: int) -> list[list[int]] | None:
    """Return for each number of edits how far each diagonal got (only those that it can have reached)."""
    reach = [0, 0]
    trace: list[list[int]] = []
    for edits in range(min(most_edits, len(old) + len(new)) + 1):
        # Diagonals -edits, -edits+2 ... edits, each from its better neighbour of the round before.
        furthest: list[int] = []
        for index in range(edits + 1):
            diagonal = 2 * index - edits
            if edits == 0:
                left = 0
            elif index == 0 or (index < edits and reach[index - 1] < reach[index]):
                left = reach[index]
            else:
                left = reach[index - 1] + 1
            right = left - diagonal
            while left < len(old) and right < len(new) and old[left] == new[right]:
                left += 1
                right += 1
            furthest.append(left)
            if left >= len(old) and right >= len(new):
                trace.append(furthest)
                return trace
        trace.append(furthest)
        reach = furthest
    return None


def _walk_back(trace: list[list[int]], left: int, right: int) -> list[Edit]:
    steps: list[Edit] = []
    for edits in range(len(trace) - 1, 0, -1):
        reach = trace[edits - 1]
        index = (left - right + edits) // 2
        down = index == 0 or (index < edits and reach[index - 1] < reach[index])
        before = reach[index] if down else reach[index - 1]
        before_right = before - (left - right + 1 if down else left - right - 1)
        while left > (before if down else before + 1):
            left, right = left - 1, right - 1
            steps.append((" ", left, right))
        if down:
            right -= 1
            steps.append(("+", left, right))
        else:
            left -= 1
            steps.append(("-", left, right))
        left, right = before, before_right
    while left > 0:
        left, right = left - 1, right - 1
        steps.append((" ", left, right))
    return steps[::-1]
