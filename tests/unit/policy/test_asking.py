"""What a person may be asked about: never what a pointer leads to, never what no profile can give."""

from __future__ import annotations

import json
import os

import pytest

from sentinel_kernel.abi.architecture import X86_64
from sentinel_kernel.errors import ProfileError
from sentinel_kernel.policy.action import ActionKind
from sentinel_kernel.policy.asking import is_askable, question_key
from sentinel_kernel.policy.compare import gives_more, is_within
from sentinel_kernel.policy.compiled import CompiledPolicy, compile_policy
from sentinel_kernel.policy.floor import FLOOR
from sentinel_kernel.policy.profile import Profile, load_profile
from sentinel_kernel.policy.profile_document import parse_profile

MACHINE = os.uname().machine


def profile(**keys: object) -> Profile:
    return parse_profile("mine", json.dumps({"default_action": "NOTIFY", **keys}))


def policy(**keys: object) -> CompiledPolicy:
    return compile_policy(profile(**keys), "x86_64")


def kind(of: CompiledPolicy, name: str, *arguments: int) -> ActionKind:
    registers = (*arguments, *(0,) * (6 - len(arguments)))
    return of.decide(of.architecture.audit_arch, X86_64.syscalls[name], registers).action.kind


@pytest.mark.parametrize(
    "name", ["connect", "ptrace", "openat", "mount", "prctl", "sendmmsg", "timer_create"]
)
def test_rule_that_asks_about_what_pointers_lead_to_is_an_error(name: str) -> None:
    with pytest.raises(ProfileError, match="can't be ASK") as caught:
        profile(syscall_rules=[{"name": name, "action": "ASK"}])
    assert caught.value.json_path == "$.syscall_rules[0].action"
    assert "NOTIFY" in caught.value.remedy or "ALLOW" in caught.value.remedy


def test_rule_may_ask_about_numbers() -> None:
    asks = policy(syscall_rules=[{"names": ["socket", "personality", "sync"], "action": "ASK"}])
    assert [kind(asks, name, 2) for name in ("socket", "personality", "sync")] == [ActionKind.ASK] * 3


def test_default_asks_only_where_an_answer_could_be_yes() -> None:
    asks = policy(default_action="ASK")
    assert kind(asks, "personality", 8) is ActionKind.ASK
    assert kind(asks, "ptrace") is ActionKind.NOTIFY
    assert kind(asks, "process_vm_readv") is ActionKind.NOTIFY


def test_nobody_can_be_talked_into_what_no_profile_gives() -> None:
    names = [name for fixed in FLOOR for name in fixed.syscalls if is_askable(name)]
    assert {"unshare", "setns"} <= set(names)
    asks = policy(syscall_rules=[{"names": [name], "action": "ASK"} for name in names if name != "clone"])
    for fixed in FLOOR:
        for name in fixed.syscalls:
            if not fixed.only_in and not fixed.except_in and name in X86_64.syscalls:
                assert kind(asks, name) not in (ActionKind.ASK, ActionKind.ALLOW, ActionKind.LOG), name
    assert kind(asks, "socket", 17) is ActionKind.NOTIFY  # AF_PACKET
    assert kind(asks, "socket", 2) is ActionKind.ASK


def test_profile_that_asks_for_more_than_its_ceiling_gives_is_beyond_it() -> None:
    strict = load_profile("strict")
    asks = profile(extends="strict", syscall_rules=[{"name": "socket", "action": "ASK"}])
    assert not is_within(asks, strict, MACHINE)
    assert is_within(asks, load_profile("datascience"), MACHINE)
    assert not is_within(load_profile("datascience"), asks, MACHINE)


def test_what_is_asked_about_is_not_given_yet() -> None:
    strict = compile_policy(load_profile("strict"), MACHINE)
    asks = profile(extends="strict", syscall_rules=[{"name": "socket", "action": "ASK"}])
    assert gives_more(compile_policy(asks, MACHINE), strict) == []


def test_question_is_told_by_the_registers_that_the_call_reads() -> None:
    first = question_key("strict: 1", "socket", (2, 1, 0, 77, 88, 99))
    assert first == question_key("strict: 1", "socket", (2, 1, 0, 0, 0, 0))
    assert first != question_key("strict: 1", "socket", (10, 1, 0, 0, 0, 0))
    assert first != question_key("other: 1", "socket", (2, 1, 0, 0, 0, 0))
