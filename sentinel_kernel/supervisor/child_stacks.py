"""Gives what a worker executes stacks of another size than its own: so that threads of the two can be told apart."""

from __future__ import annotations

import contextlib
import resource

from sentinel_kernel.policy.plan import MARKED_STACK_BYTES, USUAL_STACK_BYTES


def mark_stacks(worker: int) -> None:
    """Have what the worker executes make stacks of another size than it does itself; its limit else is as it was."""
    with contextlib.suppress(OSError, ValueError):
        soft, hard = resource.prlimit(worker, resource.RLIMIT_STACK)
        if soft == USUAL_STACK_BYTES and (hard == resource.RLIM_INFINITY or hard >= MARKED_STACK_BYTES):
            resource.prlimit(worker, resource.RLIMIT_STACK, (MARKED_STACK_BYTES, hard))
