"""Judging a held call: pure, total, and never by what lies behind a pointer."""

from __future__ import annotations

import errno
import json
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sentinel_kernel.abi.architecture import AUDIT_ARCH_I386, AUDIT_ARCH_X86_64, X86_64
from sentinel_kernel.policy.compiled import CompiledPolicy, compile_policy
from sentinel_kernel.policy.profile import load_profile
from sentinel_kernel.policy.profile_document import parse_profile
from sentinel_kernel.policy.request import Request
from sentinel_kernel.policy.verdict import ASK, CONTINUE, KILL, REFUSE, judge
from sentinel_kernel.record import replace

STRICT = compile_policy(load_profile("strict"), "x86_64")
DATASCIENCE = compile_policy(load_profile("datascience"), "x86_64")
OUTSIDE = struct.pack("=H", 2) + b"\x01\xbb" + bytes((93, 184, 216, 34)) + bytes(8)
LOOPBACK = struct.pack("=H", 2) + b"\x01\xbb" + bytes((127, 0, 0, 1)) + bytes(8)
NAME_SERVER = struct.pack("=H", 2) + b"\x00\x35" + bytes((127, 0, 0, 1)) + bytes(8)


def request(number: int, *arguments: int, arch: int = AUDIT_ARCH_X86_64, copied: Any = None) -> Request:
    padded = (*arguments, *(0,) * (6 - len(arguments)))
    return Request(number, arch, padded, 7, 7, "python", is_worker=True, copied=copied or {})  # type: ignore[arg-type]


def call(name: str, *arguments: int, **more: Any) -> Request:
    return request(X86_64.syscalls[name], *arguments, **more)


@pytest.mark.parametrize(
    ("policy", "asked", "kind", "number", "report"),
    [
        (STRICT, call("socket", 2, 1), REFUSE, errno.EPERM, True),
        (STRICT, call("keyctl"), REFUSE, errno.ENOSYS, True),
        (STRICT, call("clone3"), REFUSE, errno.ENOSYS, False),
        (STRICT, call("mount"), KILL, errno.EPERM, True),
        (STRICT, call("getpid"), CONTINUE, 0, False),
        (STRICT, request(999), REFUSE, errno.ENOSYS, False),
        (STRICT, request(-1), REFUSE, errno.ENOSYS, False),
        (STRICT, request(20, arch=AUDIT_ARCH_I386), KILL, errno.EPERM, True),
        (STRICT, request(0x40000000), KILL, errno.EPERM, True),
        (DATASCIENCE, call("connect", 3, 1, 16, copied={1: OUTSIDE}), CONTINUE, errno.ENETUNREACH, True),
        (DATASCIENCE, call("connect", 3, 1, 16, copied={1: NAME_SERVER}), CONTINUE, errno.ECONNREFUSED, True),
        (DATASCIENCE, call("connect", 3, 1, 16, copied={1: LOOPBACK}), CONTINUE, 0, False),
        (DATASCIENCE, call("connect", 3, 1, 16), CONTINUE, 0, False),
        (DATASCIENCE, call("ptrace"), REFUSE, errno.EPERM, True),
    ],
)
def test_a_call_is_judged(
    policy: CompiledPolicy, asked: Request, kind: str, number: int, *, report: bool
) -> None:
    verdict = judge(asked, policy)
    assert (verdict.kind, verdict.errno, verdict.report) == (kind, number, report)
    assert verdict.silent is not report


def policy_of(action: str) -> CompiledPolicy:
    document = {"default_action": "ALLOW", "syscall_rules": [{"name": "sync", "action": action}]}
    return compile_policy(parse_profile("mine", json.dumps(document)), "x86_64")


def test_asking_holds_a_call_that_registers_decide() -> None:
    verdict = judge(call("sync"), policy_of("ASK"))
    assert (verdict.kind, verdict.errno, verdict.report) == (ASK, errno.EPERM, True)


def test_nobody_is_asked_about_what_lies_behind_a_pointer() -> None:
    asked = policy_of("ASK")
    number = asked.architecture.syscalls["connect"]
    rule = replace(asked.rules[asked.architecture.syscalls["sync"]][0], syscall="connect", number=number)
    policy = replace(asked, rules={**asked.rules, number: (rule,)})
    assert judge(call("connect", 3, 4096, 110), policy).kind == REFUSE
    assert judge(call("sync"), policy).kind == ASK


def test_logging_lets_the_call_go_on_and_tells() -> None:
    verdict = judge(call("sync"), policy_of("LOG"))
    assert (verdict.kind, verdict.report) == (CONTINUE, True)


numbers = st.integers(-(1 << 31), (1 << 31) - 1) | st.sampled_from(sorted(X86_64.syscalls.values()))
registers = st.lists(
    st.integers(0, (1 << 64) - 1) | st.sampled_from((1, 2, 10, 16, 28)), min_size=6, max_size=6
)
copies = st.dictionaries(st.integers(0, 5), st.binary(max_size=200))


@given(numbers, registers, copies, copies, st.sampled_from((STRICT, DATASCIENCE)))
def test_what_is_copied_never_decides_whether_a_call_goes_on(
    number: int,
    arguments: list[int],
    first: dict[int, bytes],
    second: dict[int, bytes],
    policy: CompiledPolicy,
) -> None:
    """The memory behind a pointer may change after it was looked at: two looks must give one answer."""
    one = judge(request(number, *arguments, copied=first), policy)
    two = judge(request(number, *arguments, copied=second), policy)
    assert one.kind == two.kind
    assert one.rule == two.rule
    if one.kind == REFUSE:
        assert one.errno == two.errno
