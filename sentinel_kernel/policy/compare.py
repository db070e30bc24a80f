"""Comparing policies: what else would allow a call, and whether one policy stays within another."""

from __future__ import annotations

from functools import lru_cache

from sentinel_kernel.policy.action import ActionKind
from sentinel_kernel.policy.bpf import arguments_to_try
from sentinel_kernel.policy.compiled import compile_policy
from sentinel_kernel.policy.resources import limit_names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from sentinel_kernel.policy.compiled import CompiledPolicy, CompiledRule
    from sentinel_kernel.policy.profile import Profile

_LETS_THROUGH = (ActionKind.ALLOW, ActionKind.LOG)
_MAY_LET_THROUGH = (*_LETS_THROUGH, ActionKind.ASK)


@lru_cache(maxsize=64)
def compiled(profile: Profile, machine: str) -> CompiledPolicy:
    """Return :func:`compile_policy`'s result, made once for each profile and machine."""
    return compile_policy(profile, machine)


def lets_through(policy: CompiledPolicy, number: int, arguments: Sequence[int]) -> bool:
    """Tell whether ``policy`` lets the native call ``number`` with these registers take effect."""
    return policy.decide(policy.architecture.audit_arch, number, arguments).action.kind in _LETS_THROUGH


def may_let_through(policy: CompiledPolicy, number: int, arguments: Sequence[int]) -> bool:
    """Tell whether the call takes effect, or would if the person were asked and agreed."""
    return policy.decide(policy.architecture.audit_arch, number, arguments).action.kind in _MAY_LET_THROUGH


def _exceeds(inner: CompiledPolicy, outer: CompiledPolicy, number: int, arguments: Sequence[int]) -> bool:
    """Tell whether ``inner`` gives a call that ``outer`` does not: an answer of the person counts as given."""
    if lets_through(inner, number, arguments):
        return not lets_through(outer, number, arguments)
    return may_let_through(inner, number, arguments) and not may_let_through(outer, number, arguments)


@lru_cache(maxsize=64)
def is_within(profile: Profile, ceiling: Profile, machine: str) -> bool:
    """Tell whether ``profile`` gives nothing that ``ceiling`` does not give.

    Compared are the calls (at the edges of every argument test of both), the network, and the folders.
    """
    if profile.name == ceiling.name:
        return True
    gives = [profile.network.allow, profile.network.allow_dns]
    if any(wanted and not given for wanted, given in zip(gives, _network(ceiling), strict=True)):
        return False
    if not set(profile.filesystem.mounts) <= set(ceiling.filesystem.mounts):
        return False
    if not set(ceiling.filesystem.hidden) <= set(profile.filesystem.hidden):
        return False
    inner, outer = compiled(profile, machine), compiled(ceiling, machine)
    return not any(
        _exceeds(inner, outer, number, arguments)
        for number, rules in inner.rules.items()
        if not _decide_alike(rules, outer.rules.get(number, ()))
        for arguments in arguments_to_try((*rules, *outer.rules.get(number, ())))
    )


def _decide_alike(rules: Sequence[CompiledRule], others: Sequence[CompiledRule]) -> bool:
    """Tell whether two profiles' rules of one call are the same but for where they are written: most are."""
    return len(rules) == len(others) and all(
        rule.action == other.action and rule.tests == other.tests
        for rule, other in zip(rules, others, strict=True)
    )


def no_larger(profile: Profile, ceiling: Profile) -> bool:
    """Tell whether no limit of ``profile`` is above the one that ``ceiling`` sets, on any machine."""
    return all(
        _at_most(getattr(profile.resources, name), getattr(ceiling.resources, name)) for name in limit_names()
    )


def _at_most(size: object, most: object) -> bool:
    """Compare two limits; a share of the memory and a number of bytes can't be told, and are not the same."""
    if most is None or size == most:
        return True
    if isinstance(size, str) and isinstance(most, str):
        return int(size[:-1]) <= int(most[:-1])
    return isinstance(size, int | float) and isinstance(most, int | float) and size <= most


def gives_more(policy: CompiledPolicy, than: CompiledPolicy) -> list[str]:
    """Return the names of the calls that ``policy`` lets take effect where the other does not, at least in part."""
    return [
        rules[-1].syscall
        for number, rules in policy.rules.items()
        if not _decide_alike(rules, than.rules.get(number, ()))
        and any(
            lets_through(policy, number, arguments) and not lets_through(than, number, arguments)
            for arguments in arguments_to_try((*rules, *than.rules.get(number, ())))
        )
    ]


def _network(profile: Profile) -> tuple[bool, bool]:
    return profile.network.allow, profile.network.allow_dns


def least_first(profiles: Iterable[Profile], machine: str) -> list[Profile]:
    """Return ``profiles`` with those that give least in front."""
    return sorted(
        profiles, key=lambda profile: (_privileges(profile, machine), *_network(profile), profile.name)
    )


@lru_cache(maxsize=64)
def _privileges(profile: Profile, machine: str) -> int:
    rules = compiled(profile, machine).rules.values()
    return sum(any(rule.action.kind in _LETS_THROUGH for rule in of_call) for of_call in rules)
