"""Random profiles, documents and calls: parsers raise what they promise, and filters do what policies say."""

from __future__ import annotations

import contextlib
import json
import os
import random
import string
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sentinel_kernel.abi.architecture import X86_64
from sentinel_kernel.errors import MappingError, ProfileError, ProtocolError
from sentinel_kernel.policy.asking import is_askable
from sentinel_kernel.policy.bpf import decode_program, expected, first_mismatch, run_program
from sentinel_kernel.policy.compiled import compile_policy
from sentinel_kernel.policy.mapping import parse_mapping
from sentinel_kernel.policy.measured import measured_policy
from sentinel_kernel.policy.profile_document import parse_profile
from sentinel_kernel.policy.violation import Violation
from sentinel_kernel.record import field_names
from sentinel_kernel.supervisor.filter import build_filter

QUICK, LONG = 60, 5000
CALLS = (
    "socket",
    "ioctl",
    "personality",
    "connect",
    "prctl",
    "mount",
    "clone",
    "process_vm_readv",
    "getppid",
)
MACHINE = os.uname().machine

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=True) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=12), inner, max_size=4),
    max_leaves=12,
)
PROFILE_KEYS = [
    "name",
    "description",
    "default_action",
    "syscall_rules",
    "resources",
    "network",
    "filesystem",
    "outputs",
    "preflight",
    "minimum_isolation",
    "preload",
    "extends",
]
RULE_KEYS = ["name", "names", "action", "errno", "arguments", "comment"]


def nearly(keys: list[str], inner: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.dictionaries(
        st.sampled_from(keys) | st.text(string.ascii_lowercase, max_size=6), inner, max_size=8
    )


nearly_rules = st.lists(
    nearly(RULE_KEYS, json_values | st.sampled_from((*CALLS, "ALLOW", "ERRNO(1)", "NOTIFY", "KILL"))),
    max_size=4,
)
nearly_profiles = nearly(
    PROFILE_KEYS, json_values | nearly_rules | st.sampled_from(("ALLOW", "strict", "mine"))
)

masks = st.sampled_from((0xFFFFFFFF, 0xFF, 0xF000, 0x80000000, (1 << 64) - 1)) | st.integers(1, 0xFFFFFFFF)


@st.composite
def argument_tests(draw: st.DrawFn) -> list[dict[str, int]]:
    indexes = draw(st.lists(st.integers(0, 5), unique=True, max_size=2))
    found = []
    for index in indexes:
        mask = draw(masks)
        value = draw(st.sampled_from((0, 1, 2, 16, 28, 0x5412)) | st.integers(0, mask)) & mask
        found.append({"index": index, "mask": mask, "value": value})
    return found


@st.composite
def profiles(draw: st.DrawFn) -> str:
    rules = []
    for _ in range(draw(st.integers(0, 5))):
        name = draw(st.sampled_from(CALLS))
        actions = ["ALLOW", "ERRNO(1)", "ERRNO(38)"] + (["NOTIFY", "KILL", "LOG"] if name != "clone" else [])
        if is_askable(name):
            actions.append("ASK")
        rules.append(
            {"name": name, "action": draw(st.sampled_from(actions)), "arguments": draw(argument_tests())}
        )
    default = draw(st.sampled_from(("ALLOW", "NOTIFY", "ERRNO(1)", "KILL")))
    return json.dumps({"default_action": default, "syscall_rules": rules})


def check_filter(text: str, seed: int) -> None:
    """Build the filter of a random profile; then more random calls than the proof itself tries."""
    try:
        policy = compile_policy(parse_profile("mine", text), MACHINE)
        program = build_filter(policy)
        policy = measured_policy(policy)
    except ProfileError as error:
        assert "too many" in error.message  # noqa: PT017
        return
    assert first_mismatch(program, policy) is None
    instructions = decode_program(program)
    chance = random.Random(seed)
    values = [0, 1, 2, 16, 28, 0x5412, 0xFFFFFFFF, 1 << 32] + [
        test.value ^ (chance.getrandbits(64) & ~test.mask)
        for rules in policy.rules.values()
        for rule in rules
        for test in rule.tests
    ]
    numbers = [policy.architecture.syscalls[name] for name in CALLS]
    for _ in range(200):
        arguments = [
            chance.choice(values) if chance.random() < 0.8 else chance.getrandbits(64) for _ in range(6)
        ]
        call = (policy.architecture.audit_arch, chance.choice(numbers), arguments)
        assert run_program(instructions, *call) == expected(policy, *call), call


@given(profiles(), st.integers(0, 1 << 32))
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_a_filter_of_any_profile_does_what_its_policy_says(text: str, seed: int) -> None:
    check_filter(text, seed)


@pytest.mark.fuzz
@given(profiles(), st.integers(0, 1 << 32))
@settings(max_examples=2000, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_a_filter_of_any_profile_does_what_its_policy_says_for_long(text: str, seed: int) -> None:
    check_filter(text, seed)


def check_profile(text: bytes | str) -> None:
    with contextlib.suppress(ProfileError):
        parse_profile("mine", text)


@given(
    st.binary(max_size=200)
    | st.text(max_size=200)
    | nearly_profiles.map(json.dumps)
    | json_values.map(json.dumps)
)
@settings(max_examples=QUICK * 4, deadline=None)
def test_a_profile_is_read_or_is_a_profile_error(text: bytes | str) -> None:
    check_profile(text)


@pytest.mark.fuzz
@given(st.binary() | st.text() | nearly_profiles.map(json.dumps))
@settings(max_examples=LONG * 4, deadline=None)
def test_a_profile_is_read_or_is_a_profile_error_for_long(text: bytes | str) -> None:
    check_profile(text)


nearly_mappings = nearly(
    ["$schema_version", "default", "groups"],
    json_values
    | st.lists(
        nearly(["syscalls", "en", "zh", "hint", "hint_en"], json_values | st.just(["mount"])), max_size=3
    )
    | st.just({"en": "{name}", "zh": "{path}", "hint": "x"}),
)


@given(st.binary(max_size=200) | nearly_mappings.map(json.dumps))
@settings(max_examples=QUICK * 4, deadline=None)
def test_a_mapping_is_read_or_is_a_mapping_error(text: bytes) -> None:
    with contextlib.suppress(MappingError):
        parse_mapping(text)


@given(json_values | nearly(list(field_names(Violation)), json_values))
@settings(max_examples=QUICK * 4, deadline=None)
def test_a_violation_is_read_or_is_a_protocol_error(document: object) -> None:
    with contextlib.suppress(ProtocolError):
        Violation.from_json(document)


@given(
    st.sampled_from(("strict", "datascience", "sentinelbox/strict")),
    st.integers(0, 0xFFFFFFFF),
    st.integers(-(1 << 31), (1 << 31) - 1) | st.sampled_from(sorted(X86_64.syscalls.values())),
    st.lists(st.integers(0, (1 << 64) - 1), min_size=6, max_size=6),
)
@settings(max_examples=QUICK * 4, deadline=None)
def test_deciding_is_total(name: str, arch: int, number: int, arguments: list[int]) -> None:
    policy = POLICIES[name]
    for tried in (arch, policy.architecture.audit_arch):
        assert policy.decide(tried, number, arguments).rule.reason is not None


def _policies() -> dict[str, Any]:
    from sentinel_kernel.policy.profile import load_profile

    names = ("strict", "datascience", "sentinelbox/strict")
    return {name: compile_policy(load_profile(name), "x86_64") for name in names}


POLICIES = _policies()
