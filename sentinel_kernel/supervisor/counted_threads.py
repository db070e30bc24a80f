"""Whether a sandbox has the threads of its programs held as they start, which is decided before it is made."""

from __future__ import annotations

import os

from sentinel_kernel.abi.personality import ADDR_COMPAT_LAYOUT, PER_LINUX
from sentinel_kernel.linux.process import may_set_personality
from sentinel_kernel.record import replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from sentinel_kernel.supervisor.backend import Backend
    from sentinel_kernel.supervisor.preparation import Preparation, StartRequest

_BLOCKING_GLIBC = (2, 32)


def count_threads(preparation: Preparation, request: StartRequest, backend: Backend) -> Preparation:
    """Return ``preparation`` with the threads of programs counted as they start, where nobody else counts them.

    Not where programs may have a C library that lets signals end the start of a thread: an older one, or a tree's own.
    """
    if backend.group >= 0 or preparation.profile.filesystem.rootfs or not _blocks_signals():
        return preparation
    low_memory = not request.payload
    if low_memory and not may_set_personality(PER_LINUX | ADDR_COMPAT_LAYOUT):
        return preparation  # each thread of the worker would be held too
    plan = replace(preparation.plan, counts_threads=True, low_memory=low_memory)
    return replace(preparation, plan=plan)


def _blocks_signals() -> bool:
    """Tell whether this machine's C library blocks all signals while it starts a thread (glibc 2.32)."""
    try:
        name, _, version = (os.confstr("CS_GNU_LIBC_VERSION") or "").partition(" ")
        return name == "glibc" and tuple(map(int, version.split(".")[:2])) >= _BLOCKING_GLIBC
    except (OSError, ValueError):  # another C library knows no such name
        return False
