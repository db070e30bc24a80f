"""Of whom a held call is, is known once it is asked for behind all that was read by its thread's number."""

from __future__ import annotations

import ctypes
import os
import socket
import struct
from typing import TYPE_CHECKING, Any

import pytest

from sentinel_kernel.abi.architecture import architecture_of
from sentinel_kernel.linux.seccomp import Notification
from sentinel_kernel.policy.compiled import compile_policy
from sentinel_kernel.policy.network import Decision
from sentinel_kernel.policy.profile import load_profile
from sentinel_kernel.supervisor.ledger import Ledger
from sentinel_kernel.supervisor.network.connections import Connections
from sentinel_kernel.supervisor.network.connects import Connects
from sentinel_kernel.supervisor.notifications import NotificationHandler

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.usefixtures("own_alarm"), pytest.mark.timeout(600, method="thread")]

MACHINE = os.uname().machine
ARCHITECTURE = architecture_of(MACHINE)
_ADDRESS = struct.pack("=H", socket.AF_INET) + struct.pack("!H4s8x", 80, bytes((127, 0, 0, 1)))


class Listener:
    """Stands for the Linux kernel's: its caller is there, or has ended and its number may be another's."""

    def __init__(self) -> None:
        self.descriptor, self._writer = os.pipe2(os.O_CLOEXEC)
        self.valid = True
        self.answers: list[int] = []

    def is_valid(self, _identifier: int) -> bool:
        return self.valid

    def refuse(self, _identifier: int, number: int) -> bool:
        self.answers.append(number)
        return self.valid

    def answer(self, _identifier: int, value: int) -> bool:
        self.answers.append(value)
        return self.valid

    def proceed(self, _identifier: int) -> bool:
        self.answers.append(0)
        return self.valid

    def close(self) -> None:
        os.close(self.descriptor)
        os.close(self._writer)


@pytest.fixture
def listener() -> Iterator[Any]:
    made = Listener()
    yield made
    made.close()


@pytest.mark.parametrize("kind", [socket.SOCK_STREAM, socket.SOCK_DGRAM])
@pytest.mark.parametrize("goes_on", [True, False])
def test_no_address_is_noted_of_a_caller_that_may_be_another(listener: Any, kind: int, goes_on: bool) -> None:
    """``goes_on``: the rules about calls leave it to those about hosts."""
    handler = NotificationHandler(listener, compile_policy(load_profile("web"), MACHINE), Ledger(bool), 0)
    handler.worker_pid = os.getpid()
    handler._going[ARCHITECTURE.syscalls["connect"]] = goes_on
    told = Connections(lambda _: None)
    handler.way_out = Connects(
        listener,
        ARCHITECTURE.syscalls,
        lambda *_: ("", Decision(allowed=False, reason="not-listed")),
        lambda *_: None,
        told,
    )
    with socket.socket(socket.AF_INET, kind) as own:
        buffer = ctypes.create_string_buffer(_ADDRESS, len(_ADDRESS))
        arguments = (own.fileno(), ctypes.addressof(buffer), len(_ADDRESS), 0, 0, 0)
        held = Notification(
            1, os.getpid(), ARCHITECTURE.syscalls["connect"], ARCHITECTURE.audit_arch, arguments
        )
        listener.valid = False
        assert not handler._serve(held)
        assert not handler.addressed
        listener.valid = True
        listener.answers.clear()
        assert not handler._serve(held)
        assert [request.copied for _, request in handler.addressed] == [{1: _ADDRESS}]
        assert len(listener.answers) == 1, "it is answered"
    handler.way_out.close()
    told.close()
