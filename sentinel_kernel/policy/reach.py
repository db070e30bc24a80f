"""One filter for several profiles: static where they agree, held where they differ, so that a sandbox can change over.

A filter can't be loosened once it is loaded (seccomp(2)). What the profiles decide differently is therefore left to the
supervisor, which answers by the profile in force; all rules look at registers alone, so that it may let a call go on.
"""

from __future__ import annotations

from sentinel_kernel.errors import ProfileError
from sentinel_kernel.policy.action import Action, ActionKind
from sentinel_kernel.policy.compiled import ORIGIN_SHARED, CompiledRule, decided_alone
from sentinel_kernel.policy.floor import is_never_held
from sentinel_kernel.policy.regions import (
    EVERYTHING,
    Region,
    TooManyRegionsError,
    differences,
    intersection,
)
from sentinel_kernel.record import replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from sentinel_kernel.policy.compiled import CompiledPolicy

_HELD = Action(ActionKind.NOTIFY)
_MAXIMUM_PIECES = 512
_REASON = "the profiles that this sandbox can change to differ here"


def shared_policy(first: CompiledPolicy, other: CompiledPolicy) -> CompiledPolicy:
    """Return the policy of a filter that can serve both; where they differ it holds the call.

    A call that can't be held (fork, read, ...) is decided as ``first`` does; ``other`` can't be served then, which
    :func:`unserved` tells.

    Raises:
        ProfileError: the argument tests of a call are too many to be told apart.

    """
    rules = dict(first.rules)
    for number, of_first in first.rules.items():
        of_other = other.rules.get(number, ())
        if _same(of_first, of_other) or is_never_held(of_first[-1].syscall):
            continue
        agreed = [
            replace(rule, tests=region)
            for rule in decided_alone(of_first)
            for another in decided_alone(of_other)
            if rule.action == another.action
            and (region := intersection(rule.tests, another.tests)) is not None
        ]
        last = of_first[-1]
        held = CompiledRule(last.syscall, number, EVERYTHING, _HELD, ORIGIN_SHARED, _REASON, "")
        rules[number] = (*agreed, held)
    return replace(first, rules=rules)


def unserved(filtered: CompiledPolicy, policy: CompiledPolicy) -> list[str]:
    """Return the calls that a filter of ``filtered`` decides alone and otherwise than ``policy`` would."""
    wrong = []
    for number, rules in filtered.rules.items():
        wanted = policy.rules.get(number, ())
        if not _same(rules, wanted) and not _agrees(rules, wanted):
            wrong.append(rules[-1].syscall)
    return wrong


def _agrees(rules: Sequence[CompiledRule], wanted: Sequence[CompiledRule]) -> bool:
    """Tell whether each region that ``rules`` decide in the filter is decided so by ``wanted`` too."""
    try:
        alone = decided_alone(wanted)
        decided = decided_alone(rules)
        if is_never_held(rules[-1].syscall) and not _covered(EVERYTHING, [rule.tests for rule in decided]):
            return False  # what remains would be held
        return all(
            _covered(rule.tests, [other.tests for other in alone if other.action == rule.action])
            for rule in decided
        )
    except (ProfileError, TooManyRegionsError):
        return False


def _covered(region: Region, by: Sequence[Region]) -> bool:
    return not differences(region, by, _MAXIMUM_PIECES)


def _same(first: Sequence[CompiledRule], other: Sequence[CompiledRule]) -> bool:
    return [(rule.tests, rule.action) for rule in first] == [(rule.tests, rule.action) for rule in other]
