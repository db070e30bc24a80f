"""One filter for several profiles: what it decides alone, all of them decide so; what it can't serve is named."""

from __future__ import annotations

import itertools
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sentinel_kernel.kernel import settings
from sentinel_kernel.policy import hints
from sentinel_kernel.policy.action import ActionKind
from sentinel_kernel.policy.bpf import arguments_to_try
from sentinel_kernel.policy.compiled import ORIGIN_SHARED, CompiledPolicy, compile_policy
from sentinel_kernel.policy.profile import load_profile
from sentinel_kernel.policy.reach import shared_policy, unserved
from sentinel_kernel.supervisor.filter import build_filter

NAMES = ("strict", "datascience", "web", "sentinelbox/strict", "sentinelbox/datascience", "sentinelbox/web")
MACHINES = ("x86_64", "aarch64")
POLICIES = {
    (name, machine): compile_policy(load_profile(name), machine) for name in NAMES for machine in MACHINES
}
PAIRS = [
    (POLICIES[first, machine], POLICIES[other, machine])
    for machine in MACHINES
    for first, other in itertools.permutations(NAMES, 2)
]
IDS = [f"{a.profile_name}+{b.profile_name} {a.architecture.machine}" for a, b in PAIRS]


def alone(policy: CompiledPolicy, number: int, arguments: tuple[int, ...]) -> object:
    """Return what the filter of ``policy`` does with a call without asking, None where it holds it."""
    action = policy.decide(policy.architecture.audit_arch, number, arguments).action
    return action if action.kind in (ActionKind.ALLOW, ActionKind.ERRNO) else None


def agrees(first: CompiledPolicy, other: CompiledPolicy, number: int, arguments: tuple[int, ...]) -> None:
    shared = SHARED[first.profile_name, other.profile_name, first.architecture.machine]
    decided = alone(shared, number, arguments)
    wanted = alone(first, number, arguments), alone(other, number, arguments)
    rule = shared.decide(shared.architecture.audit_arch, number, arguments).rule
    if rule.syscall in UNSERVED[first.profile_name, other.profile_name, first.architecture.machine]:
        return  # a change to the other takes a fresh sandbox
    if decided is not None:
        assert wanted == (decided, decided), rule
    else:
        assert rule.origin == ORIGIN_SHARED or wanted == (None, None), rule
        assert wanted[0] != wanted[1] or wanted == (None, None), rule


SHARED = {(a.profile_name, b.profile_name, a.architecture.machine): shared_policy(a, b) for a, b in PAIRS}
UNSERVED = {
    (a.profile_name, b.profile_name, a.architecture.machine): unserved(
        SHARED[a.profile_name, b.profile_name, a.architecture.machine], b
    )
    for a, b in PAIRS
}


@pytest.mark.parametrize(("first", "other"), PAIRS, ids=IDS)
def test_filter_decides_alone_exactly_what_both_decide_so(
    first: CompiledPolicy, other: CompiledPolicy
) -> None:
    for number, rules in first.rules.items():
        for arguments in arguments_to_try((*rules, *other.rules[number])):
            agrees(first, other, number, arguments)


@given(
    pair=st.sampled_from(PAIRS),
    number=st.sampled_from(sorted(POLICIES["strict", "x86_64"].rules)),
    arguments=st.tuples(*[st.integers(0, 2**64 - 1)] * 6),
)
def test_any_arguments(
    pair: tuple[CompiledPolicy, CompiledPolicy], number: int, arguments: tuple[int, ...]
) -> None:
    if number in pair[0].rules:
        agrees(*pair, number, arguments)


@pytest.mark.parametrize(("first", "other"), PAIRS, ids=IDS)
def test_the_first_is_always_served_and_what_is_not_is_named(
    first: CompiledPolicy, other: CompiledPolicy
) -> None:
    shared = SHARED[first.profile_name, other.profile_name, first.architecture.machine]
    assert unserved(shared, first) == []
    for name in unserved(shared, other):
        number = first.architecture.syscalls[name]
        tried = arguments_to_try((*first.rules[number], *other.rules[number], *shared.rules[number]))
        assert any(
            alone(shared, number, arguments) not in (None, alone(other, number, arguments))
            or alone(shared, number, arguments) != alone(other, number, arguments)
            for arguments in tried
        ), name


def test_shipped_profiles_can_be_changed_in_place() -> None:
    for first, other in itertools.permutations(NAMES[:3], 2):
        assert UNSERVED[first, other, "x86_64"] == []


def test_profile_that_lies_between_is_served_without_having_been_asked_for() -> None:
    assert unserved(SHARED["strict", "datascience", "x86_64"], POLICIES["web", "x86_64"]) == []


def test_program_is_built_and_proven_for_what_can_be_reached() -> None:
    policy = POLICIES["strict", os.uname().machine]
    assert build_filter(policy) != build_filter(policy, None, [load_profile("datascience")])


def test_ceiling_that_the_host_assumes_is_that_of_the_hints() -> None:
    assert settings.DEFAULT_CEILING == hints.DEFAULT_CEILING
