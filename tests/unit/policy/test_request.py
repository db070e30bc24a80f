"""What the supervisor copies before a call is judged: little, bounded, and only where the call is described."""

from __future__ import annotations

import pytest

from sentinel_kernel.abi.architecture import AARCH64, ARCHITECTURES, AUDIT_ARCH_I386, X86_64
from sentinel_kernel.policy.request import PATH_MAXIMUM_BYTES, Copy, pointer_copies
from sentinel_kernel.policy.signatures import is_described, signature


def test_an_address_is_copied_by_its_length() -> None:
    for machine in ARCHITECTURES:
        copies = pointer_copies(machine.syscalls["connect"], machine.audit_arch)
        assert copies == (Copy(1, "sockaddr", 2, 128),)


def test_the_paths_of_a_mount_are_copied() -> None:
    copies = pointer_copies(X86_64.syscalls["mount"], X86_64.audit_arch)
    assert [(copy.argument, copy.kind, copy.length_argument) for copy in copies] == [
        (0, "path", None),
        (1, "path", None),
        (2, "path", None),
    ]


@pytest.mark.parametrize(
    ("number", "arch"),
    [
        (0, X86_64.audit_arch),
        (9999, X86_64.audit_arch),
        (-1, X86_64.audit_arch),
        (42, AUDIT_ARCH_I386),
        (42, 0),
    ],
)
def test_nothing_is_copied_for_other_calls(number: int, arch: int) -> None:
    assert pointer_copies(number, arch) == ()


@pytest.mark.parametrize("machine", [X86_64, AARCH64], ids=lambda machine: machine.machine)
def test_no_call_makes_the_supervisor_copy_much(machine: object) -> None:
    for name, number in machine.syscalls.items():  # type: ignore[attr-defined]
        copies = pointer_copies(number, machine.audit_arch)  # type: ignore[attr-defined]
        assert sum(copy.maximum_bytes for copy in copies) <= 3 * PATH_MAXIMUM_BYTES, name
        for copy in copies:
            assert 0 <= copy.argument < 6
            assert copy.length_argument is None or 0 <= copy.length_argument < 6


def test_signatures_have_at_most_six_arguments_with_distinct_names() -> None:
    for name in X86_64.syscalls:
        described = signature(name)
        assert len(described) <= 6
        assert len({argument for argument, _ in described}) == len(described), name
        if not is_described(name):
            assert [argument for argument, _ in described] == [f"arg{index}" for index in range(6)]
