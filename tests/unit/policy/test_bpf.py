"""The BPF interpreter, and that it finds a program that is wrong."""

from __future__ import annotations

import struct

import pytest

from sentinel_kernel.abi.architecture import AUDIT_ARCH_I386, AUDIT_ARCH_X86_64
from sentinel_kernel.policy.action import ActionKind
from sentinel_kernel.policy.bpf import (
    RET_ALLOW,
    RET_USER_NOTIF,
    ProgramFault,
    decode_program,
    first_mismatch,
    run_program,
)
from sentinel_kernel.policy.compiled import CompiledPolicy, compile_policy
from sentinel_kernel.policy.measured import measured_policy
from sentinel_kernel.policy.profile import load_profile
from sentinel_kernel.policy.regions import holds

LOAD, RETURN, JUMP_EQUAL, AND, JUMP, JUMP_GREATER, JUMP_GREATER_EQUAL, JUMP_BITS = (
    0x20, 0x06, 0x15, 0x54, 0x05, 0x25, 0x35, 0x45,
)  # fmt: skip
ZEROS = (0,) * 6


def program(*instructions: tuple[int, int, int, int]) -> bytes:
    return b"".join(struct.pack("=HBBI", *instruction) for instruction in instructions)


def run(
    source: bytes, number: int = 0, arguments: tuple[int, ...] = ZEROS, arch: int = AUDIT_ARCH_X86_64
) -> int:
    return run_program(decode_program(source), arch, number, arguments)


def test_loads_read_seccomp_data_where_the_header_puts_it() -> None:
    for offset, expected in ((0, 5), (4, AUDIT_ARCH_X86_64), (16, 0xAAAA), (20, 0xBBBB), (56, 0xCCCC)):
        source = program(
            (LOAD, 0, 0, offset), (JUMP_EQUAL, 0, 1, expected), (RETURN, 0, 0, 1), (RETURN, 0, 0, 0)
        )
        assert run(source, 5, (0xBBBB_0000_AAAA, 0, 0, 0, 0, 0xCCCC)) == 1


@pytest.mark.parametrize(
    ("code", "constant", "value", "taken"),
    [
        (JUMP_EQUAL, 7, 7, True), (JUMP_EQUAL, 7, 8, False),
        (JUMP_GREATER, 7, 8, True), (JUMP_GREATER, 7, 7, False),
        (JUMP_GREATER_EQUAL, 7, 7, True), (JUMP_GREATER_EQUAL, 7, 6, False),
        (JUMP_BITS, 6, 2, True), (JUMP_BITS, 6, 1, False),
    ],
)  # fmt: skip
def test_jumps_compare_unsigned(code: int, constant: int, value: int, *, taken: bool) -> None:
    source = program((LOAD, 0, 0, 0), (code, 0, 1, constant), (RETURN, 0, 0, 1), (RETURN, 0, 0, 0))
    assert run(source, value) == taken


def test_masks_and_long_jumps() -> None:
    source = program(
        (LOAD, 0, 0, 16), (AND, 0, 0, 0xF0), (JUMP, 0, 0, 1), (RETURN, 0, 0, 9),
        (JUMP_EQUAL, 0, 1, 0x50), (RETURN, 0, 0, 1), (RETURN, 0, 0, 0),
    )  # fmt: skip
    assert run(source, 0, (0x5F, 0, 0, 0, 0, 0)) == 1


@pytest.mark.parametrize(
    "source",
    [
        b"", b"1234567", bytes(8 * 4097),
        program((JUMP, 0, 0, 100), (RETURN, 0, 0, 0)),
        program((LOAD, 0, 0, 0)),
        program((LOAD, 0, 0, 64), (RETURN, 0, 0, 0)),
        program((LOAD, 0, 0, 1), (RETURN, 0, 0, 0)),
        program((0x99, 0, 0, 0), (RETURN, 0, 0, 0)),
    ],
)  # fmt: skip
def test_a_malformed_program_is_a_fault(source: bytes) -> None:
    with pytest.raises(ProgramFault):
        run(source)


@pytest.fixture(scope="module")
def policy() -> CompiledPolicy:
    return compile_policy(load_profile("strict"), "x86_64")


def test_a_program_that_allows_everything_is_found_out(policy: CompiledPolicy) -> None:
    mismatch = first_mismatch(program((RETURN, 0, 0, RET_ALLOW)), policy)
    assert mismatch is not None
    assert (mismatch.program, mismatch.policy) == (RET_ALLOW, RET_USER_NOTIF)


def test_a_program_that_refuses_everything_is_found_out(policy: CompiledPolicy) -> None:
    assert first_mismatch(program((RETURN, 0, 0, RET_USER_NOTIF)), policy) is not None


def test_foreign_machines_are_tried_too(policy: CompiledPolicy) -> None:
    from sentinel_kernel.supervisor.filter import build_filter

    right, policy = build_filter(policy), measured_policy(policy)
    assert first_mismatch(right, policy) is None
    i386_is_let_through = program(
        (LOAD, 0, 0, 4), (JUMP_EQUAL, 0, 1, AUDIT_ARCH_I386), (RETURN, 0, 0, RET_ALLOW)
    )
    mismatch = first_mismatch(i386_is_let_through + right, policy)
    assert mismatch is not None
    assert mismatch.arch == AUDIT_ARCH_I386


def test_almost_every_changed_constant_of_a_filter_is_found_out(policy: CompiledPolicy) -> None:
    """Mutation testing of the proof: each comparison's constant is moved by one, each mask loses a bit."""
    from sentinel_kernel.supervisor.filter import build_filter

    right, policy = decode_program(build_filter(policy)), measured_policy(policy)
    survived = []
    for position, (code, if_true, if_false, constant) in enumerate(right):
        if code == RETURN:
            changed = (code, if_true, if_false, RET_ALLOW if constant != RET_ALLOW else RET_USER_NOTIF)
        elif code in (JUMP_EQUAL, JUMP_GREATER, JUMP_GREATER_EQUAL):
            changed = (code, if_true, if_false, (constant + 1) & 0xFFFFFFFF)
        elif code == AND and constant:
            changed = (code, if_true, if_false, constant & (constant - 1))
        else:
            continue
        if position % 4 and code != RETURN:
            continue  # a quarter of them is enough for each run
        mutant = program(*right[:position], changed, *right[position + 1 :])
        if first_mismatch(mutant, policy) is None:
            survived.append((position, right[position]))
    # libseccomp ANDs the high half of an argument with 0 and compares with 0, and orders numbers by ranges that
    # have no call in them at the edge: such a change has no effect on any call.
    assert len(survived) <= len(right) // 50, survived


@pytest.mark.parametrize(
    ("size", "protection", "flags", "held"),
    [
        (128 << 20, 3, 0x22, True),
        (1 << 40, 3, 0x22, True),
        ((128 << 20) - 1, 3, 0x22, False),
        (1 << 30, 1, 0x22, False),  # nothing can be written to it: it counts against nothing
        (1 << 30, 3, 0x4022, False),  # set aside only
        (1 << 30, 3, 0x02, False),  # a file's
        (4096, 3, 0x21, True),  # shared
        (1 << 30, 3, 0x01, False),  # a file's that is shared
        ((1 << 20) - 1, 3, 0x01, False),
        (1 << 30, 1, 0x01, False),
        (
            (8 << 20) + (64 << 10) + 4096,
            0,
            0x20022,
            False,
        ),  # a thread's stack in what the worker has executed
        ((8 << 20) + 4096, 0, 0x20022, False),  # and in the worker itself
    ],
)
def test_large_private_mappings_and_shared_ones_are_held(
    size: int, protection: int, flags: int, *, held: bool
) -> None:
    policy = compile_policy(load_profile("strict"), "x86_64")
    number = policy.architecture.syscalls["mmap"]
    arguments = (0, size, protection, flags, (1 << 64) - 1, 0)
    rule = next(one for one in measured_policy(policy).rules[number] if holds(one.tests, arguments))
    assert (rule.action.kind is ActionKind.NOTIFY) is held


@pytest.mark.parametrize(
    ("machine", "low", "high"),
    [
        ("x86_64", 0x2AAA_AAAA_AAAA + (1 << 44), 0x7F00_0000_0000),
        ("aarch64", 0x7FFF_F000_0000, 0xFFFF_0000_0000),
    ],
)
def test_starts_of_threads_are_held_where_their_stack_is_not_the_workers(
    machine: str, low: int, high: int
) -> None:
    policy = compile_policy(load_profile("strict"), machine)
    number = policy.architecture.syscalls["clone"]
    thread, fork, namespace = 0x3D0F00, 0x1200011, 0x1000_0000 | 0x3D0F00

    def decides(flags: int, stack: int, *, threads: bool = True) -> ActionKind:
        rules = measured_policy(policy, threads=threads).rules[number]
        return next(one for one in rules if holds(one.tests, (flags, stack, 0, 0, 0, 0))).action.kind

    assert decides(thread, high) is ActionKind.NOTIFY
    assert decides(thread, low) is decides(fork, high) is decides(fork, 0) is ActionKind.ALLOW
    assert decides(thread, high, threads=False) is ActionKind.ALLOW
    # What is held is judged by the profile's own policy: it gives no namespace to a thread either.
    assert policy.decide(policy.architecture.audit_arch, number, (namespace, high, 0, 0, 0, 0)).action.refuses
    assert decides(namespace, low) is ActionKind.NOTIFY
