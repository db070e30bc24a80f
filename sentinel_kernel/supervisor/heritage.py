"""What every worker takes after init: compared with how it was before a cell could change it."""

from __future__ import annotations

import os
import resource

from sentinel_kernel.linux.process import io_priority
from sentinel_kernel.policy.plan import process_limits
from sentinel_kernel.supervisor.switching import SOFT_LIMITS, limit_process

_LIMITS = 16  # RLIM_NLIMITS of <asm-generic/resource.h>

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from sentinel_kernel.supervisor.current import Current


def is_sound(current: Current) -> bool:
    """Tell whether init hands down what it did before its first worker; False where it is gone.

    Soft limits that we change ourselves are set to the sizes in force; a hard limit that was lowered stays so.
    """
    pid = current.sandbox.pid
    try:
        if current.served:
            limit_process(pid, pid, dict(process_limits(current.preparation.plan.sizes)))
        now = _handed_down(pid)
    except OSError:
        return False
    if not current.served or not current.heritage:
        current.heritage = now
    return now == current.heritage


def _handed_down(pid: int) -> tuple[Any, ...]:
    """Return limits, nice value, scheduling, processors and the priority of input and output (fork(2) copies each)."""
    limits = []
    for what in range(_LIMITS):
        soft, hard = resource.prlimit(pid, what)
        limits.append((None if what in SOFT_LIMITS else soft, hard))
    return (
        tuple(limits),
        os.getpriority(os.PRIO_PROCESS, pid),
        os.sched_getscheduler(pid),
        os.sched_getparam(pid).sched_priority,
        frozenset(os.sched_getaffinity(pid)),
        io_priority(pid),
    )
