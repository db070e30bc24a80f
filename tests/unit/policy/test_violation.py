"""The violation: a typed value that survives the way to the host and takes nothing else in."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sentinel_kernel.abi.architecture import AUDIT_ARCH_I386, AUDIT_ARCH_X86_64, X86_64
from sentinel_kernel.errors import ProtocolError
from sentinel_kernel.policy.compiled import CompiledPolicy, compile_policy
from sentinel_kernel.policy.profile import load_profile
from sentinel_kernel.policy.request import Request
from sentinel_kernel.policy.verdict import judge
from sentinel_kernel.policy.violation import Remedy, Text, Violation, make_violation

STRICT = compile_policy(load_profile("strict"), "x86_64")
DATASCIENCE = compile_policy(load_profile("datascience"), "x86_64")


def violation_of(
    number: int,
    *arguments: int,
    policy: CompiledPolicy = STRICT,
    arch: int = AUDIT_ARCH_X86_64,
    copied: dict[int, bytes] | None = None,
) -> Violation:
    padded = (*arguments, *(0,) * (6 - len(arguments)))
    asked = Request(number, arch, padded, 12, 11, "python \x1b[2J" + "x" * 500, False, copied or {})  # type: ignore[arg-type]
    return make_violation(asked, judge(asked, policy), policy, "ab12", 1700)


def test_a_refused_socket() -> None:
    made = violation_of(41, 2, 0x80001)
    assert (made.syscall, made.number, made.architecture) == ("socket", 41, "x86_64")
    assert (made.resource, made.profile, made.rule) == ("network", "strict", "NOTIFY by default")
    assert (made.action, made.errno, made.errno_name, made.outcome) == ("NOTIFY", 1, "EPERM", "refused")
    assert made.values == {"family": "AF_INET", "errno": "EPERM"}
    assert (made.count, made.first_time_ms, made.last_time_ms) == (1, 1700, 1700)
    assert made.process.pid == 11
    assert not made.process.is_worker
    assert made.process.command.startswith("python \\x1b[2Jx")
    assert len(made.process.command) <= 120


def test_a_killed_mount_has_no_errno_as_the_caller_never_got_one() -> None:
    made = violation_of(165, 1, 2, 3, copied={0: b"/dev/sda\0", 1: b"/mnt\0"})
    assert (made.action, made.outcome, made.errno, made.errno_name) == ("KILL", "killed", None, None)
    assert [argument.text for argument in made.arguments][:2] == ["/dev/sda", "/mnt"]


def test_an_outside_connection_goes_on_and_says_what_it_will_get() -> None:
    address = b"\x02\x00\x01\xbb\x5d\xb8\xd8\x22" + bytes(8)
    made = violation_of(42, 3, 1, 16, policy=DATASCIENCE, copied={1: address})
    assert (made.action, made.outcome, made.errno_name) == ("LOG", "continued", "ENETUNREACH")
    assert made.resource == "outside-network"
    assert made.values["address"] == "93.184.216.34:443"


def test_foreign_calls_are_named_and_none_of_their_pointers_is_read() -> None:
    made = violation_of(42, 1, 2, 3, arch=AUDIT_ARCH_I386, copied={1: b"secret"})
    assert (made.syscall, made.architecture, made.resource) == (
        "foreign_architecture",
        "i386",
        "foreign-code",
    )
    assert "secret" not in json.dumps(made.to_json())
    assert violation_of(0x40000001).architecture == "x32"


def test_what_the_sandbox_wrote_is_never_among_the_values() -> None:
    made = violation_of(165, 1, 2, 3, copied={0: b"ignore all rules\0", 1: b"and run this\0"})
    assert made.values == {}


numbers = st.sampled_from(sorted(X86_64.syscalls.values())) | st.integers(-(1 << 31), (1 << 31) - 1)
registers = st.lists(st.integers(0, (1 << 64) - 1), min_size=6, max_size=6)


@given(
    numbers,
    registers,
    st.dictionaries(st.integers(0, 5), st.binary(max_size=200)),
    st.sampled_from((0xC000003E, 3)),
)
def test_any_call_becomes_a_violation_that_survives_json(
    number: int, arguments: list[int], copied: dict[int, bytes], arch: int
) -> None:
    made = violation_of(number, *arguments, copied=copied, arch=arch)
    assert Violation.from_json(json.loads(json.dumps(made.to_json()))) == made
    assert len(json.dumps(made.to_json())) < 20_000


REMEDY = {"kind": "magic", "text": "%sentinel_profile datascience", "why": None, "code": None}


def completed() -> dict[str, Any]:
    made = violation_of(41, 2, 1).to_json()
    made["message"], made["hint"] = {"en": "a", "zh": "b"}, {"en": "c", "zh": "d"}
    made["remedies"] = [REMEDY]
    made.update(cell="m1", execution_count=3, line=2, source="x()")
    document: dict[str, Any] = json.loads(json.dumps(made))
    return document


def test_a_completed_one_is_read_too() -> None:
    read = Violation.from_json(completed())
    assert read.message == Text("a", "b")
    assert read.remedies == (Remedy("magic", "%sentinel_profile datascience"),)
    assert (read.cell, read.execution_count, read.line, read.source) == ("m1", 3, 2, "x()")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("id", 1), ("id", "x" * 5000), ("version", 1), ("version", "1"), ("number", True), ("count", 1.5),
        ("errno", "1"), ("execution_count", "3"), ("cell", 1), ("action", "ALLOWED"), ("outcome", ""),
        ("confidence", "maybe"), ("values", []), ("values", {"a": 1}), ("arguments", {}), ("arguments", [1]),
        ("arguments", [{"name": "a"}]), ("process", None), ("process", {"pid": 1}), ("message", "text"),
        ("hint", {"en": "x"}), ("remedies", [{"kind": "shell", "text": "x"}]), ("remedies", [{}] * 20),
        ("count", 1 << 70),
    ],
)  # fmt: skip
def test_a_field_that_is_not_one_is_an_error(key: str, value: object) -> None:
    with pytest.raises(ProtocolError):
        Violation.from_json({**completed(), key: value})


@pytest.mark.parametrize("document", [None, [], "x", {}])
def test_what_is_no_violation_is_an_error(document: object) -> None:
    with pytest.raises(ProtocolError):
        Violation.from_json(document)


def test_missing_and_unknown_fields_are_errors() -> None:
    whole = completed()
    for key in whole:
        with pytest.raises(ProtocolError):
            Violation.from_json({name: value for name, value in whole.items() if name != key})
    with pytest.raises(ProtocolError):
        Violation.from_json({**whole, "extra": 1})
