"""Fuzz target of held calls: any registers, any memory behind them, answered by the handler that the supervisor has."""

from __future__ import annotations

import json
import os
import struct
from typing import TYPE_CHECKING, Any

from sentinel_kernel.abi.architecture import AARCH64, X86_64
from sentinel_kernel.linux.seccomp import Notification
from sentinel_kernel.policy.compiled import compile_policy
from sentinel_kernel.policy.profile import load_profile
from sentinel_kernel.policy.violation import Violation
from sentinel_kernel.supervisor import notifications
from sentinel_kernel.supervisor.ledger import Ledger
from sentinel_kernel.supervisor.notifications import NotificationHandler

if TYPE_CHECKING:
    from collections.abc import Callable

LONGEST_PACKET = 128 * 1024
NUMBERS = tuple(sorted(X86_64.syscalls.values()))
HEAD = struct.Struct("=BBHiI6Q")


class Listener:
    """Stands for the Linux kernel's: takes the answers, and counts them."""

    def __init__(self) -> None:
        self.reader, self.writer = os.pipe2(os.O_CLOEXEC)
        self.descriptor = self.reader
        self.next: Notification | None = None
        self.valid = True
        self.answers = 0

    def receive(self) -> Notification | None:
        notification, self.next = self.next, None
        return notification

    def is_valid(self, _identifier: int) -> bool:
        return self.valid

    def refuse(self, _identifier: int, number: int) -> bool:
        assert 0 < number < 4096, number
        self.answers += 1
        return True

    def proceed(self, _identifier: int) -> bool:
        self.answers += 1
        return True


class Calls:
    """The handler of a profile, with a host that takes every violation and reads each as a host does."""

    def __init__(self, profile: str) -> None:
        self.listener = Listener()
        self.told = 0
        self.faults: list[BaseException] = []
        self.memory: Callable[[int, int], bytes] = lambda _address, _length: b""
        policy = compile_policy(load_profile(profile), "x86_64")
        listener: Any = self.listener
        self.handler = NotificationHandler(listener, policy, Ledger(self._take), 0)
        self.handler.worker_pid = os.getpid()
        real = self.handler._serve

        def serve(notification: Notification) -> bool:
            try:
                return real(notification)
            except Exception as fault:  # the handler would refuse the call, and hide it
                self.faults.append(fault)
                raise

        self.handler._serve = serve  # type: ignore[method-assign]

    def _take(self, violation: Violation) -> bool:
        self.told += 1
        packet = json.dumps(violation.to_json()).encode("ascii")
        assert len(packet) < LONGEST_PACKET
        assert Violation.from_json(json.loads(packet)) == violation
        return True

    def serve(self, notification: Notification, behind: bytes, *, valid: bool) -> None:
        """Have one call answered; ``behind`` is what all its pointers lead to."""
        self.memory = lambda address, length: behind[: max(0, length)] if address else b""
        self.listener.next, self.listener.valid = notification, valid
        answered = self.listener.answers
        killed = self.handler.serve_one()
        assert not self.faults, self.faults
        if self.handler.killed_by is not None:
            assert killed
            self.handler.killed_by = None
            self.handler.must_kill = False
        elif valid:
            assert self.listener.answers == answered + 1

    def new_cell(self) -> None:
        """Begin the next cell, as the session does."""
        self.handler._ledger.begin_cell()


_CALLS: dict[str, Calls] = {}
_USED = [0]
_PROFILES = ("strict", "datascience", "web", "sentinelbox/strict")


def _calls(name: str) -> Calls:
    if not _CALLS:
        notifications.read_memory = lambda _pid, address, length: _CALLS[_NOW[0]].memory(address, length)
    if name not in _CALLS:
        _CALLS[name] = Calls(name)
    _NOW[0] = name
    return _CALLS[name]


_NOW = [""]


def notification(data: bytes) -> None:
    """Serve one call that the bytes describe: a flag byte, a profile, a number, registers, then the memory."""
    flags, which, number, odd, pid, *arguments = HEAD.unpack_from(data.ljust(HEAD.size, b"\0"))
    calls = _calls(_PROFILES[which % len(_PROFILES)])
    _USED[0] += 1
    if _USED[0] % 256 == 0:
        calls.new_cell()
    architecture = X86_64.audit_arch
    if flags & 0x10:
        architecture = AARCH64.audit_arch if flags & 0x20 else pid
    call = NUMBERS[number % len(NUMBERS)] if not flags & 0x08 else odd
    if flags & 0x04:
        arguments = [value & 0xFFFF for value in arguments]
    thread = os.getpid() if not flags & 0x02 else pid % (1 << 22)
    made = Notification(_USED[0], thread, call, architecture, tuple(arguments))
    calls.serve(made, data[HEAD.size : HEAD.size + 4096], valid=not flags & 0x01)
