"""Landlock rulesets (landlock(7)): version, building, and restricting this process."""

from __future__ import annotations

import ctypes
import os
import struct

from sentinel_kernel.abi.landlock import (
    LANDLOCK_CREATE_RULESET_VERSION,
    LANDLOCK_RULE_PATH_BENEATH,
    PATH_BENEATH_FORMAT,
    RULESET_FORMAT,
    RULESET_SIZE_BY_ABI,
    AccessFs,
    AccessNet,
    Scope,
)
from sentinel_kernel.linux.libc import system_call


def abi_version() -> int:
    """Return the ABI version of Landlock here.

    Raises:
        OSError: ENOSYS (not built in) or EOPNOTSUPP (off at boot).

    """
    return system_call("landlock_create_ruleset", None, 0, LANDLOCK_CREATE_RULESET_VERSION)


def supported_access(abi: int) -> AccessFs:
    """Return the file access rights that Landlock of version ``abi`` can handle."""
    rights = AccessFs((1 << 13) - 1)
    if abi >= 2:
        rights |= AccessFs.REFER
    if abi >= 3:
        rights |= AccessFs.TRUNCATE
    if abi >= 5:
        rights |= AccessFs.IOCTL_DEV
    return rights


def restrict_self(
    abi: int,
    handled: AccessFs,
    scoped: Scope,
    rules: list[tuple[str, AccessFs]],
    network: AccessNet = AccessNet(0),  # noqa: B008 - a number
    *,
    may_be_gone: bool = False,
) -> None:
    """Refuse the ``handled`` rights to this process everywhere but beneath the paths of ``rules``.

    ``network`` (ABI 4) is refused everywhere.

    Precondition: no_new_privs is set. Paths that do not exist are an error unless they ``may_be_gone``: where all is
    refused but what rules allow, a rule less is no hole.
    """
    attributes = struct.pack(RULESET_FORMAT, int(handled), int(network), int(scoped))
    size = RULESET_SIZE_BY_ABI[min(abi, max(RULESET_SIZE_BY_ABI))]
    ruleset = system_call(
        "landlock_create_ruleset", ctypes.create_string_buffer(attributes, len(attributes)), size, 0
    )
    try:
        for path, access in rules:
            try:
                descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
            except (FileNotFoundError, NotADirectoryError, PermissionError):
                if may_be_gone:
                    continue
                raise
            _add_rule(ruleset, descriptor, access & handled)
        system_call("landlock_restrict_self", ruleset, 0)
    finally:
        os.close(ruleset)


def _add_rule(ruleset: int, descriptor: int, access: AccessFs) -> None:
    """Allow ``access`` beneath ``descriptor``, which is closed."""
    try:
        layout = struct.pack(PATH_BENEATH_FORMAT, int(access), descriptor)
        buffer = ctypes.create_string_buffer(layout, len(layout))
        system_call("landlock_add_rule", ruleset, LANDLOCK_RULE_PATH_BENEATH, buffer, 0)
    finally:
        os.close(descriptor)
