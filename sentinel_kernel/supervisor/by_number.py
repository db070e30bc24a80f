"""Sets what Linux sets by a process's number alone (limits, processors), of the sandbox's processes and no other's.

A number can come to mean another process as soon as the one that had it was waited for, which is up to programs inside.
So the process is held by a pidfd, looked at, and asked for again behind the call: what another has got is taken back.
"""

from __future__ import annotations

import contextlib
import errno
import os
import resource

from sentinel_kernel.linux.process import is_there, open_thread
from sentinel_kernel.supervisor.processes import same_sandbox

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


def set_soft_limit(pid: int, first: int, what: int, soft: int) -> None:
    """Set a soft limit of a process of the sandbox whose init is ``first``, as far as the hard one allows.

    Raises:
        OSError: ESRCH, it has ended, or is none of the sandbox's; EPERM.

    """
    with _held(pid, first) as pidfd:
        limit_held(pidfd, pid, what, soft)


def limit_held(pidfd: int, pid: int, what: int, soft: int) -> None:
    """Set a soft limit as far as the hard one allows; of a process that ``pidfd`` is known to mean.

    Raises:
        OSError: ESRCH, it has ended; EPERM.

    """
    hard = resource.prlimit(pid, what)[1]
    if hard != resource.RLIM_INFINITY:
        soft = min(soft, hard) if soft != resource.RLIM_INFINITY else hard
    before = resource.prlimit(pid, what, (soft, hard))
    if not is_there(pidfd):
        with contextlib.suppress(OSError, ValueError):
            resource.prlimit(pid, what, before)
        raise _gone()


def set_processors(thread: int, first: int, processors: Iterable[int]) -> None:
    """Keep a thread of the sandbox whose init is ``first`` on these processors.

    Raises:
        OSError: ESRCH, it has ended, or is none of the sandbox's; EINVAL, there is none of these processors.

    """
    with _held(thread, first) as pidfd:
        before = os.sched_getaffinity(thread)
        os.sched_setaffinity(thread, processors)
        if not is_there(pidfd):
            with contextlib.suppress(OSError):
                os.sched_setaffinity(thread, before)
            raise _gone()


@contextlib.contextmanager
def _held(number: int, first: int) -> Iterator[int]:
    """Give a pidfd of the task of that number; raises ProcessLookupError where it is none of the sandbox's."""
    pidfd = open_thread(number, number)
    try:
        # One that had the number before the look and has it after it was the one looked at.
        if not same_sandbox(number, first) or not is_there(pidfd):
            raise _gone()
        yield pidfd
    finally:
        os.close(pidfd)


def _gone() -> ProcessLookupError:
    return ProcessLookupError(errno.ESRCH, os.strerror(errno.ESRCH))
