"""What the landlock rung refuses and holds whatever the profile, and the mark of its processes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sentinel_kernel.abi.resource import RLIMIT_LOCKS
from sentinel_kernel.policy.action import ActionKind
from sentinel_kernel.policy.compiled import compile_policy
from sentinel_kernel.policy.measured import measured_policy
from sentinel_kernel.policy.profile import load_profile
from sentinel_kernel.policy.rung import held_calls, held_policy, rules_of
from sentinel_kernel.policy.stray_marks import MARK_BYTES, is_of_sandbox, mark_in, mark_of, warden_mark

SIGNALS = {"kill", "tkill", "tgkill", "rt_sigqueueinfo", "rt_tgsigqueueinfo", "pidfd_send_signal"}


@pytest.mark.parametrize("same_user", [True, False])
def test_signals_are_held_where_landlock_does_not_keep_them_inside(same_user: bool) -> None:
    before = {name for name, _ in held_calls(same_user=same_user, split=False, abi=4)}
    since = {name for name, _ in held_calls(same_user=same_user, split=False, abi=6)}
    assert before - since == SIGNALS
    assert since < before


def test_the_limit_that_is_the_mark_is_not_set() -> None:
    policy = compile_policy(load_profile("datascience"), os.uname().machine, rules_of(same_user=False))
    number = policy.architecture.syscalls["setrlimit"]
    for limit, kind in ((RLIMIT_LOCKS, ActionKind.NOTIFY), (4, ActionKind.ALLOW)):
        found = policy.decide(policy.architecture.audit_arch, number, (limit, 0, 0, 0, 0, 0)).action
        assert found.kind is kind, limit


@pytest.mark.parametrize("name", ["datascience", "strict"])
def test_the_limits_of_others_are_told_from_outside(name: str) -> None:
    policy = measured_policy(compile_policy(load_profile(name), os.uname().machine, rules_of(same_user=True)))
    number, arch = policy.architecture.syscalls["prlimit64"], policy.architecture.audit_arch
    held = held_policy(policy, held_calls(same_user=True, split=False, abi=6))
    own, others, asked = (0, 7, 0, 4096, 0, 0), (77, 7, 0, 4096, 0, 0), (0, 7, 4096, 0, 0, 0)
    assert (
        policy.decide(arch, number, others).action.kind is ActionKind.ALLOW
    )  # on the full rung there are none
    kinds = [held.decide(arch, number, one).action.kind for one in (own, others, asked)]
    assert kinds == [ActionKind.ALLOW, ActionKind.NOTIFY, ActionKind.NOTIFY]


def test_a_mark_is_found_in_limits_as_linux_shows_them() -> None:
    mark = mark_of(b"\xff" * MARK_BYTES)
    assert mark < warden_mark(mark) < 2**63 - 1
    shown = Path("/proc/self/limits").read_bytes()
    assert mark_in(shown) == 0
    line = next(line for line in shown.splitlines() if line.startswith(b"Max file locks"))
    for one in (mark, warden_mark(mark), mark_of(bytes(MARK_BYTES))):
        marked = shown.replace(line, b"%-26s%-21d%-21d%-10s" % (b"Max file locks", 5, one, b"locks"))
        assert mark_in(marked) == one
    assert (is_of_sandbox(mark), is_of_sandbox(warden_mark(mark)), is_of_sandbox(0)) == (True, False, False)


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"\nMax file locks",
        b"\nMax file locks 1",
        b"\nMax file locks x y z",
        b"\nMax file locks 5 77 locks",
    ],
)
def test_what_is_no_mark_is_none(text: bytes) -> None:
    assert mark_in(text) == 0
