"""An interpreter for seccomp's classic BPF, and the proof that a program does what a policy says."""

from __future__ import annotations

import itertools
import struct

from sentinel_kernel.abi.architecture import AUDIT_ARCH_ARM, AUDIT_ARCH_I386, X32_SYSCALL_BIT
from sentinel_kernel.policy.action import ActionKind
from sentinel_kernel.policy.regions import boundary_values, nearest_values
from sentinel_kernel.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from sentinel_kernel.policy.compiled import CompiledPolicy, CompiledRule

# <linux/seccomp.h>
RET_ALLOW = 0x7FFF0000
RET_ERRNO = 0x00050000
RET_USER_NOTIF = 0x7FC00000

_INSTRUCTION = struct.Struct("=HBBI")  # struct sock_filter of <linux/filter.h>
_DATA = struct.Struct("=iIQ6Q")  # struct seccomp_data
_MAXIMUM_INSTRUCTIONS = 4096  # BPF_MAXINSNS
_ALL_ONES = (1 << 64) - 1
_MOST_PAIRS = 500
_BEYOND = 64
"""How many numbers above the table are tried."""

# Codes of <linux/bpf_common.h> that libseccomp emits.
_LOAD_WORD = 0x20
_RETURN = 0x06
_AND = 0x54
_JUMP = 0x05
_JUMP_EQUAL = 0x15
_JUMP_GREATER = 0x25
_JUMP_GREATER_EQUAL = 0x35
_JUMP_BITS = 0x45


class ProgramFault(Exception):
    """The program is malformed, or uses an instruction that a filter of ours never has."""


class Mismatch(Record):
    """A call that program and policy answer differently."""

    arch: int
    number: int
    arguments: tuple[int, ...]
    program: int
    policy: int


def decode_program(program: bytes) -> list[tuple[int, int, int, int]]:
    """Return the instructions of ``program`` as (code, jump if true, jump if false, constant).

    Raises:
        ProgramFault: it is no whole number of instructions, none, or more than the Linux kernel takes.

    """
    if (
        not program
        or len(program) % _INSTRUCTION.size
        or len(program) > _MAXIMUM_INSTRUCTIONS * _INSTRUCTION.size
    ):
        what = f"{len(program)} bytes are no program"
        raise ProgramFault(what)
    return list(_INSTRUCTION.iter_unpack(program))


def run_program(  # noqa: C901 - one branch an instruction
    instructions: Sequence[tuple[int, int, int, int]], arch: int, number: int, arguments: Sequence[int]
) -> int:
    """Return what the program answers to one call, as SECCOMP_RET_* with its data.

    Raises:
        ProgramFault: it leaves the program, reads outside of the call, or has an unknown instruction.

    """
    data = _DATA.pack(number, arch & 0xFFFFFFFF, 0, *arguments)
    words = struct.unpack("=16I", data)
    accumulator = position = 0
    try:
        while True:
            code, if_true, if_false, constant = instructions[position]
            position += 1
            if code == _JUMP_EQUAL:
                position += if_true if accumulator == constant else if_false
            elif code == _JUMP_GREATER:
                position += if_true if accumulator > constant else if_false
            elif code == _JUMP_GREATER_EQUAL:
                position += if_true if accumulator >= constant else if_false
            elif code == _LOAD_WORD:
                if constant & 3:
                    what = f"unaligned load at {position - 1}"
                    raise ProgramFault(what)
                accumulator = words[constant >> 2]
            elif code == _AND:
                accumulator &= constant
            elif code == _RETURN:
                return constant
            elif code == _JUMP:
                position += constant
            elif code == _JUMP_BITS:
                position += if_true if accumulator & constant else if_false
            else:
                what = f"instruction {code:#x} at {position - 1}"
                raise ProgramFault(what)
    except IndexError:
        what = f"the program is left at {position}"
        raise ProgramFault(what) from None


def expected(policy: CompiledPolicy, arch: int, number: int, arguments: Sequence[int]) -> int:
    """Return what a right program answers to one call: ALLOW, ERRNO with its number, or a notification."""
    decision = policy.decide(arch, number, arguments)
    if decision.rule.origin == "unknown":
        return RET_USER_NOTIF  # the default of the filter; the supervisor answers ENOSYS
    if decision.action.kind is ActionKind.ALLOW:
        return RET_ALLOW
    if decision.action.kind is ActionKind.ERRNO:
        return RET_ERRNO | decision.action.errno_seen
    return RET_USER_NOTIF


def calls_to_try(policy: CompiledPolicy) -> Iterator[tuple[int, int, tuple[int, ...]]]:
    """Yield (arch, number, arguments) of calls that tell a wrong program from a right one.

    Every number of the table and beyond, the edges of every argument test, x32 and foreign machines.
    """
    native = policy.architecture.audit_arch
    zeros, ones = (0,) * 6, (_ALL_ONES,) * 6
    highest = max(policy.rules)
    for number in (*range(-1, highest + _BEYOND), 1 << 29, X32_SYSCALL_BIT - 1, (1 << 31) - 1, -(1 << 31)):
        for arguments in arguments_to_try(policy.rules.get(number, ())):
            yield native, number, arguments
    for number in (0, 1, 41, 59, highest):
        for foreign in (AUDIT_ARCH_I386, AUDIT_ARCH_ARM, native ^ 1, 0, 0xFFFFFFFF):
            yield foreign, number, zeros
        yield native, number | X32_SYSCALL_BIT, zeros
        yield native, number | X32_SYSCALL_BIT, ones


def arguments_to_try(rules: Sequence[CompiledRule]) -> Iterator[tuple[int, ...]]:
    """Yield argument vectors at the edges of the tests of one call's ``rules``."""
    yield (0,) * 6
    yield (_ALL_ONES,) * 6
    by_index: dict[int, list[int]] = {}
    tests = [test for rule in rules for test in rule.tests]
    for index in sorted({test.index for test in tests}):
        by_index[index] = boundary_values(test for test in tests if test.index == index)
    for rule in rules if tests else ():
        # Each argument over its edges, while the others are as this rule wants them.
        base = [0] * 6
        for test in rule.tests:
            base[test.index] = test.value
        for index, values in by_index.items():
            for value in values:
                yield (*base[:index], value, *base[index + 1 :])
    if len(by_index) == 2:
        # Where what one test leaves is divided by another, each part is tried with each part.
        first, second = by_index
        near = [nearest_values(test for test in tests if test.index == index) for index in (first, second)]
        for value, other in itertools.product(*near) if len(near[0]) * len(near[1]) <= _MOST_PAIRS else ():
            pair = [0] * 6
            pair[first], pair[second] = value, other
            yield tuple(pair)


def first_mismatch(program: bytes, policy: CompiledPolicy) -> Mismatch | None:
    """Return a call that ``program`` answers otherwise than ``policy``, None where all tried ones agree.

    Raises:
        ProgramFault: the program is malformed.

    """
    instructions = decode_program(program)
    tried: set[tuple[int, int, tuple[int, ...]]] = set()
    for call in calls_to_try(policy):
        if call in tried:
            continue
        tried.add(call)
        answer, wanted = run_program(instructions, *call), expected(policy, *call)
        if answer != wanted:
            return Mismatch(*call, program=answer, policy=wanted)
    return None
