"""Violations to test with: a refusal in its plainest form, what a profile makes of a call, what a cause is told as."""

from __future__ import annotations

import errno
from typing import Any

from sentinel_kernel.abi.architecture import AUDIT_ARCH_X86_64, X86_64
from sentinel_kernel.policy.compare import compiled
from sentinel_kernel.policy.occurrence import make_occurrence
from sentinel_kernel.policy.profile import load_profile
from sentinel_kernel.policy.request import Request
from sentinel_kernel.policy.verdict import judge
from sentinel_kernel.policy.violation import VERSION, Process, Violation, make_violation
from sentinel_kernel.record import replace


def refusal(identifier: str = "v", **facts: Any) -> Violation:
    """Return the refusal of a socket in the worker; ``facts`` are its other fields."""
    fields: dict[str, Any] = {
        "id": identifier,
        "version": VERSION,
        "profile": "strict",
        "rule": "NOTIFY socket",
        "origin": "profile",
        "action": "NOTIFY",
        "outcome": "refused",
        "first_time_ms": 1,
        "last_time_ms": 1,
        "syscall": "socket",
        "resource": "network",
        "errno": errno.EPERM,
        "errno_name": "EPERM",
        "process": Process(8, "python", is_worker=True),
    }
    return Violation(**(fields | facts))


def refused(name: str, *arguments: int, profile: str = "strict", killed: bool | None = None) -> Violation:
    """Return what the call ``name`` with these registers is told as under a profile that ships.

    ``killed`` is whether it has to be killed for; None: either.
    """
    policy = compiled(load_profile(profile), "x86_64")
    padded = (*arguments, *(0,) * (6 - len(arguments)))
    asked = Request(X86_64.syscalls[name], AUDIT_ARCH_X86_64, padded, 1, 1, "python", True, {})  # type: ignore[arg-type]
    verdict = judge(asked, policy)
    assert killed in (None, verdict.kind == "kill")
    return make_violation(asked, verdict, policy, "id", 0)


def occurred(cause: str, subject: tuple[str, str] | None = None, **fields: Any) -> Violation:
    """Return what no call was held for; ``subject`` is its kind and text."""
    made = make_occurrence(cause, id="id", profile="strict", rule="rule", time_ms=0, subject=subject)
    return replace(made, **fields)
