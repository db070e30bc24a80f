"""Reaps children of the supervisor that it has killed, without waiting for any."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable


def unreaped(pids: Iterable[int]) -> list[int]:
    """Reap those children that have ended; return the others, which end once the disk they hang in answers.

    A process id stays its child's own until it is reaped. Source: waitpid(2), WNOHANG.
    """
    return [pid for pid in pids if not _is_reaped(pid)]


def _is_reaped(pid: int) -> bool:
    try:
        return os.waitpid(pid, os.WNOHANG)[0] == pid
    except ChildProcessError:
        return True
