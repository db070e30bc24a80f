"""Explaining: what a policy does with a call and why, and which rules of a profile do not hold."""

from __future__ import annotations

import pytest

from sentinel_kernel.errors import SentinelError
from sentinel_kernel.policy.compiled import CompiledPolicy, compile_policy
from sentinel_kernel.policy.explain import explain
from sentinel_kernel.policy.in_words import network
from sentinel_kernel.policy.profile import list_profiles, load_profile


def policy_of(name: str, machine: str = "x86_64") -> CompiledPolicy:
    return compile_policy(load_profile(name), machine)


def test_a_call_is_explained_by_its_rules_in_order() -> None:
    text = explain(policy_of("strict"), "socket")
    assert "socket (number 41 on x86_64) under strict:" in text
    assert "arg0 == 0x1: ALLOW" in text
    assert "strict: $.syscall_rules[" in text
    assert text.index("arg0 == 0x1") < text.index("otherwise: NOTIFY")
    assert "Local sockets" in text


@pytest.mark.parametrize(
    ("profile", "call", "winner"),
    [
        ("sentinelbox/strict", "accept", "ALLOW wins"),
        ("sentinelbox/strict", "connect", "ALLOW wins"),
        ("sentinelbox/web", "io_uring_setup", "ERRNO(ENOSYS) wins"),
        ("strict", "ioctl", "NOTIFY wins where arg1 == 0x5412"),
    ],
)
def test_what_gives_way_is_named(profile: str, call: str, winner: str) -> None:
    assert winner in explain(policy_of(profile), call)


@pytest.mark.parametrize("name", list_profiles())
def test_a_summary_lists_every_call_once_and_each_rule_that_does_not_hold(name: str) -> None:
    policy = policy_of(name)
    text = explain(policy)
    words = text.split()
    for rules in policy.rules.values():
        assert rules[0].syscall in words
    for item in policy.overrides:
        if item.overridden.origin == "profile":
            assert f"{item.overridden.syscall}: {item.overridden.action} gives way" in text
    assert f"Network: {network(policy)}." in text
    assert max(map(len, text.splitlines())) < 200


def test_a_call_that_the_machine_lacks_is_said_to_be_missing() -> None:
    assert "no such call on aarch64" in explain(policy_of("strict", "aarch64"), "fork")


def test_foreign_calls_have_an_answer_too() -> None:
    assert "KILL" in explain(policy_of("strict"), "x32_call")


def test_an_unknown_call_is_an_error_with_a_remedy() -> None:
    with pytest.raises(SentinelError, match="printf") as caught:
        explain(policy_of("strict"), "printf")
    assert caught.value.remedy
