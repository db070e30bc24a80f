"""Every rule of every shipped profile, driven by a real program: the action is what the profile says."""

from __future__ import annotations

import json
import os
from collections import Counter
from typing import TYPE_CHECKING

import pytest
from ordinary_user import own_identity
from supervised import Supervised, own_folder

from sentinel_kernel.policy.action import ActionKind
from sentinel_kernel.policy.compiled import compile_policy
from sentinel_kernel.policy.profile import load_profile

if TYPE_CHECKING:
    from pathlib import Path

    from ordinary_user import Identity

    from sentinel_kernel.policy.compiled import CompiledPolicy, CompiledRule

pytestmark = [
    pytest.mark.sandbox,
    pytest.mark.requires("user_namespaces", "overlay"),
    pytest.mark.timeout(600),
]

PROFILES = (
    "strict",
    "datascience",
    "web",
    "sentinelbox/strict",
    "sentinelbox/datascience",
    "sentinelbox/web",
)
EVERY_BIT = (1 << 64) - 1
NOT_FILTERED = {"uretprobe", "uprobe"}
"""Calls of the Linux kernel's own trampolines, which it takes past every filter since 6.14; elsewhere they fail."""


def arguments_for(rule: CompiledRule) -> list[int]:
    """Return arguments that match the rule and are otherwise nonsense: every bit that is not looked at is set."""
    arguments = [EVERY_BIT] * 6
    for test in rule.tests:
        arguments[test.index] = (EVERY_BIT & ~test.mask) | test.value
    return arguments


def vectors(policy: CompiledPolicy) -> list[tuple[str, CompiledRule, list[int]]]:
    """Return (key, rule, arguments) for each rule that some call can reach."""
    found = []
    arch = policy.architecture.audit_arch
    for number, rules in policy.rules.items():
        if rules[0].syscall in NOT_FILTERED:
            continue
        for place, rule in enumerate(rules):
            arguments = arguments_for(rule)
            if policy.decide(arch, number, arguments).rule == rule:
                found.append((f"{rule.syscall}/{place}", rule, arguments))
    return found


@pytest.fixture
def owner(tmp_path: Path) -> Identity:
    return own_identity(tmp_path / "home")


def drive(owner: Identity, folder: Path, profile: str, calls: list[tuple[str, int, list[int]]]) -> Supervised:
    """Run the calls in one sandbox and return its supervisor, hung up, with all that it said."""
    from supervised import VICTIMS

    workspace = own_folder(owner, folder)
    (workspace / "drive_calls.py").write_bytes((VICTIMS / "drive_calls.py").read_bytes())
    (workspace / "calls.json").write_text(json.dumps(calls))
    names = ("drive_calls.py", "calls.json", "outcomes.json")
    with Supervised(owner, folder / "state") as supervised:
        command = [supervised.python, *(str(workspace / name) for name in names)]
        cause = supervised.run(workspace, command, profile)
        supervised.cause = cause
        if cause["kind"] == "exit":
            supervised.outcomes = supervised.saved_json("outcomes.json")
    return supervised


@pytest.mark.parametrize("profile", PROFILES)
def test_every_rule_acts_as_the_profile_says(owner: Identity, tmp_path: Path, profile: str) -> None:
    policy = compile_policy(load_profile(profile, ()), os.uname().machine)
    chosen = [vector for vector in vectors(policy) if vector[1].action.kind is not ActionKind.KILL]
    calls = [(key, rule.number, arguments) for key, rule, arguments in chosen]
    unknown = max(policy.rules) + 400
    calls.append(("unknown", unknown, [0] * 6))
    done = drive(owner, tmp_path / "work", profile, calls)
    assert done.cause["kind"] == "exit", done.events[-3:]
    assert done.outcomes["unknown"] == "38"  # ENOSYS, silently

    expected: Counter[str] = Counter()
    wrong = []
    for key, rule, _arguments in chosen:
        outcome = done.outcomes[key]
        action = rule.action
        if action.kind is ActionKind.ERRNO and outcome != str(action.errno_seen):
            wrong.append((key, str(action), outcome))
        elif action.kind in (ActionKind.NOTIFY, ActionKind.ASK):
            expected[rule.syscall] += 1
            if outcome != str(action.errno_seen):
                wrong.append((key, str(action), outcome))
    assert wrong == []
    told: Counter[str] = Counter()
    for violation in done.violations():
        told[violation["syscall"]] += violation["count"]
        assert violation["profile"] == profile
    logged = {rule.syscall for _, rule, _ in chosen if rule.action.kind is ActionKind.LOG}
    assert {name: count for name, count in told.items() if name not in logged} == dict(expected)


@pytest.mark.parametrize("profile", PROFILES)
def test_every_kill_rule_ends_the_sandbox_before_the_call_takes_effect(
    owner: Identity, tmp_path: Path, profile: str
) -> None:
    policy = compile_policy(load_profile(profile, ()), os.uname().machine)
    chosen = [vector for vector in vectors(policy) if vector[1].action.kind is ActionKind.KILL]
    assert chosen
    for key, rule, arguments in chosen:
        folder = tmp_path / key.replace("/", "-")
        done = drive(owner, folder, profile, [(key, rule.number, arguments)])
        assert done.cause["kind"] == "rule_kill", (key, done.events[-3:])
        [violation] = done.violations()
        assert violation["syscall"] == rule.syscall
        assert violation["id"] == done.cause["violation_id"]


@pytest.mark.parametrize("entry", ["int80", "x32"])
def test_foreign_entries_end_the_sandbox(owner: Identity, tmp_path: Path, entry: str) -> None:
    import platform
    import subprocess

    if platform.machine() != "x86_64":
        pytest.skip("i386 and x32 entries exist on x86_64 only")
    workspace = own_folder(owner, tmp_path / "work")
    source = workspace / "entry.c"
    call = {
        # getpid by the i386 table (20), and read by x32's number.
        "int80": 'long r; __asm__ volatile("int $0x80" : "=a"(r) : "a"(20)); return r > 0 ? 0 : 1;',
        "x32": "return syscall(0x40000000 | 39) < 0 ? 1 : 0;",
    }[entry]
    source.write_text(f"#include <unistd.h>\n#include <sys/syscall.h>\nint main(void) {{ {call} }}\n")
    subprocess.run(["gcc", "-o", str(workspace / "entry"), str(source)], check=True)
    if entry == "int80":
        # The positive control: this Linux kernel has the i386 entry, outside the sandbox it works.
        assert subprocess.run([str(workspace / "entry")], check=False).returncode == 0
    with Supervised(owner, tmp_path / "state") as supervised:
        cause = supervised.run(workspace, [str(workspace / "entry")])
    assert cause["kind"] == "rule_kill"
    assert supervised.violations()[0]["action"] == "KILL"
