"""The fence of a sandbox that may reach hosts: what its filter holds and refuses, whatever its profile says."""

from __future__ import annotations

import errno
import os
import socket

import pytest

from sentinel_kernel.policy.action import ActionKind
from sentinel_kernel.policy.compiled import compile_policy
from sentinel_kernel.policy.network_fence import MSG_FASTOPEN, answer_to_option, fenced_policy
from sentinel_kernel.policy.profile import load_profile
from sentinel_kernel.supervisor.filter import build_filter

MACHINE = os.uname().machine
POLICY = compile_policy(load_profile("web"), MACHINE)
FENCED = fenced_policy(POLICY)


def action(call: str, *arguments: int) -> tuple[ActionKind, int | None]:
    """Return what the fenced filter's policy does with a call."""
    registers = (*arguments, *(0,) * (6 - len(arguments)))
    made = FENCED.decide(POLICY.architecture.audit_arch, POLICY.architecture.syscalls[call], registers).action
    return made.kind, made.errno


@pytest.mark.parametrize(
    ("call", "arguments"),
    [
        ("connect", (3, 0, 2)), ("connect", (3, 0, 16)), ("connect", (3, 0, 110)), ("bind", (3, 0, 16)),
        ("bind", (3, 0, 5)), ("listen", (3, 1)), ("setsockopt", (3, 0, 4)), ("setsockopt", (3, 41, 57)),
        ("setsockopt", (3, 6, 30)), ("setsockopt", (3, 6, 31)), ("ioctl", (3, 0x8912)), ("ioctl", (3, 0x894C)),
    ],
)  # fmt: skip
def test_what_could_lead_a_connection_elsewhere_is_held(call: str, arguments: tuple[int, ...]) -> None:
    assert action(call, *arguments)[0] is ActionKind.NOTIFY


@pytest.mark.parametrize(
    ("call", "level", "name", "number"),
    [
        ("setsockopt", 1, 25, errno.EPERM),
        ("setsockopt", 1, 62, errno.EPERM),
        ("getsockopt", 1, 77, errno.ENOPROTOOPT),
    ],
)
def test_devices_of_the_network_outside_and_the_supervisor_are_not_to_be_had(
    call: str, level: int, name: int, number: int
) -> None:
    assert action(call, 3, level, name) == (ActionKind.ERRNO, number)
    assert action(call, 3, level, 17)[0] is ActionKind.ALLOW


def test_of_an_address_familys_options_those_are_set_that_are_known_to_be_harmless() -> None:
    assert [name for name in range(128) if not answer_to_option(socket.IPPROTO_IP, name)] == [
        *(
            1,
            2,
            3,
            6,
            7,
            8,
            10,
            11,
            12,
            13,
            14,
            15,
            18,
            20,
            21,
            22,
            23,
            24,
            25,
            26,
            32,
            33,
            34,
            35,
            36,
            49,
            51,
        )
    ]
    for name in (socket.IPV6_V6ONLY, socket.IPV6_UNICAST_HOPS, socket.IPV6_TCLASS, socket.IPV6_RECVPKTINFO):
        assert answer_to_option(socket.IPPROTO_IPV6, name) == 0
    for level in (socket.IPPROTO_IP, socket.IPPROTO_IPV6):
        for name in range(37, 49):  # groups by source, and groups that a socket of TCP may join
            assert answer_to_option(level, name) == errno.ENOPROTOOPT
    assert answer_to_option(socket.IPPROTO_IP, 4) == errno.EPERM
    assert answer_to_option(socket.IPPROTO_TCP, 31) == errno.EOPNOTSUPP
    assert answer_to_option(socket.IPPROTO_TCP, 62) == 0


@pytest.mark.parametrize(("call", "index"), [("sendto", 3), ("sendmsg", 2), ("sendmmsg", 3)])
def test_sending_never_connects(call: str, index: int) -> None:
    arguments = [0] * 6
    assert action(call, *arguments)[0] is ActionKind.ALLOW
    arguments[index] = MSG_FASTOPEN | 0x4000
    assert action(call, *arguments) == (ActionKind.ERRNO, errno.EOPNOTSUPP)


@pytest.mark.parametrize(
    ("call", "arguments"),
    [
        ("setsockopt", (3, 6, 1)),
        ("setsockopt", (3, 1, 2)),
        ("ioctl", (3, 0x5421)),
        ("accept4", (3,)),
        ("recvmsg", (3,)),
    ],
)
def test_what_programs_do_all_the_time_is_not_held(call: str, arguments: tuple[int, ...]) -> None:
    assert action(call, *arguments)[0] is ActionKind.ALLOW


def test_the_filter_is_built_and_does_what_its_policy_says() -> None:
    assert build_filter(POLICY, None, (load_profile("strict"),), fenced=True)
