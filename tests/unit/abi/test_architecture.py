"""The machines that Sentinel runs on: audit numbers, system call tables, the x32 bit."""

from __future__ import annotations

import os

import pytest
from lacking import need_module

from sentinel_kernel.abi import architecture
from sentinel_kernel.abi.architecture import AARCH64, ARCHITECTURES, X86_64, Architecture
from sentinel_kernel.abi.numbers import own_calls
from sentinel_kernel.errors import UnsupportedHost

NEWER_THAN_5_1 = 424
FIRST_NUMBERS = {"x86_64": {"read": 0, "openat": 257, "socket": 41}, "aarch64": {"read": 63, "openat": 56}}


@pytest.mark.parametrize("machine", ARCHITECTURES, ids=lambda machine: machine.machine)
def test_no_number_has_two_names(machine: Architecture) -> None:
    assert len(machine.names) == len(machine.syscalls)
    assert all(machine.syscalls[name] == number for number, name in machine.names.items())


@pytest.mark.parametrize("machine", ARCHITECTURES, ids=lambda machine: machine.machine)
def test_the_table_agrees_with_known_numbers_and_with_our_own_calls(machine: Architecture) -> None:
    expected = FIRST_NUMBERS[machine.machine] | own_calls(machine.machine)
    assert {name: machine.syscalls[name] for name in expected} == expected


@pytest.mark.parametrize("machine", ARCHITECTURES, ids=lambda machine: machine.machine)
def test_the_table_has_no_gap_up_to_linux_6_18(machine: Architecture) -> None:
    newest = {number for number in machine.names if number >= NEWER_THAN_5_1}
    assert newest == set(range(NEWER_THAN_5_1, 470))


def test_calls_since_linux_5_1_have_one_number_everywhere() -> None:
    for number in range(NEWER_THAN_5_1, 470):
        assert X86_64.names[number] == AARCH64.names[number]


def test_aarch64_lacks_what_newer_calls_replaced() -> None:
    assert not {"open", "fork", "vfork", "select", "stat", "epoll_wait", "mknod"} & AARCH64.syscalls.keys()


def test_this_machines_table_agrees_with_libseccomp() -> None:
    """libseccomp carries tables of its own, made by other people from the same sources."""
    seccomp = need_module("pyseccomp")
    machine = architecture.architecture_of(os.uname().machine)
    compared = 0
    for name, number in machine.syscalls.items():
        theirs = seccomp.resolve_syscall(seccomp.Arch.NATIVE, name)
        if theirs >= 0:  # it does not know calls that are younger than it
            assert theirs == number, name
            compared += 1
    assert compared > 300


def test_an_unknown_machine_is_an_error_not_a_guess() -> None:
    with pytest.raises(UnsupportedHost, match="riscv64"):
        architecture.architecture_of("riscv64")


def test_foreign_machines_have_names_for_messages() -> None:
    assert architecture.audit_name(architecture.AUDIT_ARCH_I386) == "i386"
    assert architecture.audit_name(0x1234) == "0x00001234"
    assert architecture.architecture_by_audit(architecture.AUDIT_ARCH_I386) is None
    assert architecture.architecture_by_audit(architecture.AUDIT_ARCH_X86_64) is X86_64


def test_a_number_without_a_name_still_has_one_for_messages() -> None:
    assert X86_64.name_of(9999) == "syscall_9999"
    assert X86_64.name_of(0) == "read"
