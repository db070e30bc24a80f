"""What other profiles would do with a violation, and what else they give beyond the one in force."""

from __future__ import annotations

from sentinel_kernel.abi.architecture import ARCHITECTURES
from sentinel_kernel.abi.socket import FAMILIES
from sentinel_kernel.policy.cause import CALL, CAUSES
from sentinel_kernel.policy.compare import compiled, gives_more, lets_through, may_let_through
from sentinel_kernel.policy.resource import OUTSIDE_NETWORK
from sentinel_kernel.policy.resources import limit_names
from sentinel_kernel.policy.sockaddr import NAME_LOOKUP
from sentinel_kernel.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from sentinel_kernel.policy.compiled import CompiledPolicy
    from sentinel_kernel.policy.profile import Profile
    from sentinel_kernel.policy.violation import Violation

_SOCK_STREAM = 1
_WORD = (1 << 64) - 1
_FIELDS = {
    "memory": "memory_bytes",
    "disk": "disk_bytes",
    "tmp": "tmp_bytes",
    "shm": "shm_bytes",
    "file_size": "file_size_bytes",
    "output": "output_bytes",
}
"""A cause that is a limit -> its field of a profile, where that is not named the same."""

YES, ASKS, NO = "yes", "asks", "no"


class Alternative(Record):
    """One profile: ``allows`` is yes, asks (the person first) or no; the rest is what it gives beyond the other.

    ``limits`` are the names of those that are wider (policy/resources.py), or that can't be told without a machine.
    """

    profile: Profile
    allows: str
    calls: tuple[str, ...]
    limits: tuple[str, ...]
    folders: tuple[str, ...]


def alternatives(
    violation: Violation, current: Profile, profiles: Iterable[Profile], machine: str
) -> list[Alternative]:
    """Return each of ``profiles`` but ``current`` that the violation can be judged by, in their order."""
    return [
        Alternative(
            profile,
            _allows(violation, current, profile),
            tuple(sorted(set(gives_more(compiled(profile, machine), compiled(current, machine))))),
            tuple(name for name in limit_names() if _is_larger(name, current, profile)),
            tuple(
                mount.path
                for mount in profile.filesystem.mounts
                if mount not in current.filesystem.mounts
            ),
        )
        for profile in profiles
        if profile.name != current.name
    ]  # fmt: skip


def _allows(violation: Violation, current: Profile, profile: Profile) -> str:
    if violation.cause == CALL:
        return _call_allowed(violation, profile)
    if CAUSES[violation.cause].kind == "limit":
        return YES if _is_larger(_FIELDS.get(violation.cause, violation.cause), current, profile) else NO
    subject = violation.subject
    if violation.cause.startswith("path_") and subject is not None and subject.kind == "path":
        return _path_allowed(violation, profile, subject.text)
    return NO


def _call_allowed(violation: Violation, profile: Profile) -> str:
    machine, number = violation.architecture, violation.number
    if machine is None or number is None or machine not in [known.machine for known in ARCHITECTURES]:
        return NO
    if violation.resource in (OUTSIDE_NETWORK, NAME_LOOKUP):
        return NO  # no profile of this version has a way out
    policy = compiled(profile, machine)
    tested = [test.index for rule in policy.rules.get(number, ()) for test in rule.tests]
    if max(tested, default=-1) >= len(violation.arguments) or not _has_socket(policy, violation):
        return NO
    values = [argument.value & _WORD for argument in violation.arguments][:6]
    registers = (*values, *(0,) * (6 - len(values)))
    if lets_through(policy, number, registers):
        return YES
    return ASKS if may_let_through(policy, number, registers) else NO


def _has_socket(policy: CompiledPolicy, violation: Violation) -> bool:
    """Tell whether the socket that the call is made on could be had."""
    if violation.syscall not in ("connect", "bind"):
        return True
    family = next((key for key, name in FAMILIES.items() if name == violation.values.get("family")), None)
    number = policy.architecture.syscalls["socket"]
    return family is not None and lets_through(policy, number, (family, _SOCK_STREAM, 0, 0, 0, 0))


def _is_larger(name: str, current: Profile, profile: Profile) -> bool:
    here, there = getattr(current.resources, name, None), getattr(profile.resources, name, None)
    if here is None or there is None:
        return here is not None
    if isinstance(here, str) and isinstance(there, str):
        return int(there[:-1]) > int(here[:-1])
    if isinstance(here, str) or isinstance(there, str):
        return True  # a share of the memory, and a number of bytes: the machine decides
    return bool(there > here)


def _path_allowed(violation: Violation, profile: Profile, path: str) -> str:
    writes = violation.cause == "path_read_only"
    for mount in profile.filesystem.mounts:
        inside = path == mount.path or path.startswith(mount.path.rstrip("/") + "/")
        if inside and not (writes and mount.mode == "ro"):
            return YES
    return NO
