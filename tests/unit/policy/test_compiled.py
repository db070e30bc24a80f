"""A profile compiled for one machine: the floor, the worker's needs, and deciding by registers."""

from __future__ import annotations

import errno
import json
import random
from typing import Any

import pytest

from sentinel_kernel.abi.architecture import (
    AUDIT_ARCH_AARCH64,
    AUDIT_ARCH_I386,
    AUDIT_ARCH_X86_64,
    X32_SYSCALL_BIT,
    X86_64,
)
from sentinel_kernel.errors import ProfileError, UnsupportedHost
from sentinel_kernel.policy.action import Action, ActionKind
from sentinel_kernel.policy.compiled import CompiledPolicy, compile_policy
from sentinel_kernel.policy.floor import FLOOR, WORKER_NEEDS
from sentinel_kernel.policy.profile import list_profiles, load_profile
from sentinel_kernel.policy.profile_document import parse_profile

NUMBERS = X86_64.syscalls
PERMISSIVE = '{"default_action": "ALLOW"}'


def policy_of(text: str = PERMISSIVE, machine: str = "x86_64", **keys: Any) -> CompiledPolicy:
    if keys:
        text = json.dumps({"default_action": "ALLOW", **keys})
    return compile_policy(parse_profile("mine", text), machine)


def decide(policy: CompiledPolicy, name: str, *arguments: int) -> Action:
    padded = (*arguments, *(0,) * (6 - len(arguments)))
    architecture = policy.architecture
    return policy.decide(architecture.audit_arch, architecture.syscalls[name], padded).action


NEW_NAMESPACES = (0x20000, 0x2000000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000)


@pytest.mark.parametrize("name", ["strict", "datascience", "web", "sentinelbox/strict", "sentinelbox/web"])
@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_no_profile_lets_through_what_the_floor_holds(name: str, machine: str) -> None:
    check_the_floor(compile_policy(load_profile(name), machine))


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_a_profile_that_allows_everything_by_name_does_not_get_past_the_floor(machine: str) -> None:
    rules = [{"names": sorted(NUMBERS), "action": "ALLOW"}]
    check_the_floor(policy_of(syscall_rules=rules, machine=machine))


def check_the_floor(policy: CompiledPolicy) -> None:
    for fixed in FLOOR:
        for name in fixed.syscalls:
            if name in policy.architecture.syscalls and not fixed.only_in and not fixed.except_in:
                assert decide(policy, name).refuses, name
                assert decide(policy, name, *[(1 << 64) - 1] * 6).refuses, name
            for region in fixed.only_in if name in policy.architecture.syscalls else ():
                arguments = [4096] * 6  # an address, where one is taken: without it prlimit(2) reads
                for test in region:
                    arguments[test.index] = test.value
                assert decide(policy, name, *arguments).refuses, (name, arguments)
    for flag in NEW_NAMESPACES:
        assert decide(policy, "clone", flag | 17).refuses
    for request in (0x5412, 0x541C, 0x541D, 0x1_0000_5412, 0xFFFFFFFF_0000541D):
        assert decide(policy, "ioctl", 0, request).refuses
    for family in range(64):
        if family not in (1, 2, 10, 16):
            assert decide(policy, "socket", family, 1, 0).refuses, family
            assert decide(policy, "socket", family | 1 << 32, 1, 0).refuses, family
    assert decide(policy, "socket", 16, 3, 9).refuses  # NETLINK_AUDIT
    assert decide(policy, "clone3").errno == errno.ENOSYS
    assert decide(policy, "io_uring_setup").errno == errno.ENOSYS


@pytest.mark.parametrize("default", ["NOTIFY", "KILL", "ERRNO(1)", "LOG", "ASK"])
def test_whatever_the_default_the_worker_can_run(default: str) -> None:
    rules = [{"names": ["accept", "listen", "bind", "connect", "socket", "ioctl"], "action": "KILL"}]
    policy = policy_of(json.dumps({"default_action": default, "syscall_rules": rules}))
    for fixed in WORKER_NEEDS:
        for name in fixed.syscalls:
            if name in policy.architecture.syscalls and not fixed.only_in and not fixed.except_in:
                assert decide(policy, name).kind is ActionKind.ALLOW, name
    assert decide(policy, "clone", 0x01200011).kind is ActionKind.ALLOW
    assert decide(policy, "socket", 1, 0x80001).kind is ActionKind.ALLOW
    assert decide(policy, "ioctl", 1, 0x5421).kind is ActionKind.ALLOW
    assert decide(policy, "bind", 3, 0, 110).kind is ActionKind.ALLOW
    assert decide(policy, "bind", 3, 0, 16).kind is ActionKind.KILL


def test_nothing_that_must_not_be_held_is_held() -> None:
    policy = policy_of('{"default_action": "NOTIFY"}')
    for name in ("fork", "vfork", "execveat", "clone3", "recvfrom"):
        assert decide(policy, name).kind in (ActionKind.ERRNO, ActionKind.ALLOW)


def test_calls_of_other_machines_end_the_sandbox() -> None:
    policy = policy_of()
    for arch in (AUDIT_ARCH_I386, AUDIT_ARCH_AARCH64, 0, 0xFFFFFFFF):
        decision = policy.decide(arch, 0, (0,) * 6)
        assert (decision.action.kind, decision.rule.syscall) == (ActionKind.KILL, "foreign_architecture")
    decision = policy.decide(AUDIT_ARCH_X86_64, X32_SYSCALL_BIT | 39, (0,) * 6)
    assert (decision.action.kind, decision.rule.syscall) == (ActionKind.KILL, "x32_call")


def test_aarch64_has_no_x32_bit() -> None:
    policy = policy_of(machine="aarch64")
    decision = policy.decide(AUDIT_ARCH_AARCH64, X32_SYSCALL_BIT, (0,) * 6)
    assert decision.action == Action(ActionKind.ERRNO, errno.ENOSYS)


@pytest.mark.parametrize("number", [-1, -(1 << 31), 337, 423, 470, 999, X32_SYSCALL_BIT - 1])
def test_unknown_numbers_do_not_exist(number: int) -> None:
    decision = policy_of().decide(AUDIT_ARCH_X86_64, number, (0,) * 6)
    assert decision.action == Action(ActionKind.ERRNO, errno.ENOSYS)
    assert decision.rule.origin == "unknown"


def test_the_first_rule_that_matches_wins() -> None:
    rules = [
        {
            "name": "socket",
            "action": "ERRNO(13)",
            "arguments": [{"index": 0, "value": 2}, {"index": 1, "value": 1}],
        },
        {"name": "socket", "action": "NOTIFY", "arguments": [{"index": 0, "value": 2}]},
        {"name": "socket", "action": "ALLOW"},
    ]
    policy = policy_of(syscall_rules=rules)
    assert decide(policy, "socket", 2, 1) == Action(ActionKind.ERRNO, errno.EACCES)
    assert decide(policy, "socket", 2, 2) == Action(ActionKind.NOTIFY)
    assert decide(policy, "socket", 10, 1) == Action(ActionKind.ALLOW)


def test_a_refusal_of_the_profile_stays_its_own_on_the_floor() -> None:
    rules = [{"name": "mount", "action": "KILL"}, {"name": "bpf", "action": "ERRNO(13)"}]
    policy = policy_of(syscall_rules=rules)
    assert decide(policy, "mount") == Action(ActionKind.KILL)
    assert decide(policy, "bpf") == Action(ActionKind.ERRNO, errno.EACCES)
    assert decide(policy, "umount2") == Action(ActionKind.NOTIFY)


def test_clone3_never_fails_with_anything_but_enosys() -> None:
    """glibc falls back to clone on ENOSYS alone; with EPERM no thread would start."""
    rules = [{"name": "clone3", "action": "ERRNO(1)"}]
    assert decide(policy_of(syscall_rules=rules), "clone3") == Action(ActionKind.ERRNO, errno.ENOSYS)


def test_rules_for_calls_that_a_machine_lacks_are_dropped() -> None:
    policy = policy_of(syscall_rules=[{"names": ["open", "bind"], "action": "ERRNO(13)"}], machine="aarch64")
    assert "open" not in policy.architecture.syscalls
    assert decide(policy, "bind", 0, 0, 16) == Action(ActionKind.ERRNO, errno.EACCES)


def test_overrides_name_the_rule_and_what_wins() -> None:
    policy = policy_of(
        syscall_rules=[{"name": "accept", "action": "NOTIFY"}, {"name": "mount", "action": "ALLOW"}]
    )
    told = {item.overridden.syscall: item for item in policy.overrides if item.overridden.origin == "profile"}
    assert told["accept"].by.origin == "worker"
    assert told["mount"].by.origin == "floor"
    assert told["mount"].overridden.place == "mine: $.syscall_rules[1]"


def test_an_unknown_machine_is_an_error() -> None:
    with pytest.raises(UnsupportedHost):
        compile_policy(parse_profile("mine", PERMISSIVE), "sparc64")


def test_too_many_argument_tests_are_an_error_that_names_the_rule() -> None:
    rules: list[dict[str, Any]] = [
        {
            "name": "process_vm_readv", "action": "NOTIFY",
            "arguments": [{"index": index, "value": number} for index in range(5)],
        }
        for number in range(20)
    ]  # fmt: skip
    with pytest.raises(ProfileError, match="too many") as caught:
        policy_of(syscall_rules=rules).filter_rules()
    assert "process_vm_readv" in caught.value.message


@pytest.mark.parametrize("name", list_profiles())
def test_the_filters_rules_do_not_overlap_and_say_what_decide_says(name: str) -> None:
    policy = compile_policy(load_profile(name), "x86_64")
    chance = random.Random(7)
    by_number: dict[int, list[Any]] = {}
    for rule in policy.filter_rules():
        by_number.setdefault(rule.number, []).append(rule)
    for number in policy.rules:
        for _ in range(4):
            arguments = tuple(
                chance.choice((0, 1, 2, 10, 16, 0x5412, chance.getrandbits(64))) for _ in range(6)
            )
            hits = [r for r in by_number.get(number, ()) if all(t.holds(arguments) for t in r.tests)]
            action = policy.decide(AUDIT_ARCH_X86_64, number, arguments).action
            carried_out = action if action.kind in (ActionKind.ALLOW, ActionKind.ERRNO) else None
            assert {hit.action for hit in hits} == ({carried_out} if carried_out else set())


def test_the_digest_changes_with_the_filter_and_only_with_it() -> None:
    same = policy_of(description="other words")
    assert policy_of().digest == same.digest
    assert policy_of(syscall_rules=[{"name": "bind", "action": "NOTIFY"}]).digest != same.digest
    assert policy_of(machine="aarch64").digest != same.digest
    rule = {"name": "personality", "action": "NOTIFY", "arguments": [{"index": 0, "value": 1}]}
    other = {**rule, "arguments": [{"index": 0, "value": 2}]}
    assert policy_of(syscall_rules=[rule]).digest != policy_of(syscall_rules=[other]).digest
