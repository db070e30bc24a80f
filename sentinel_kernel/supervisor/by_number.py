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
    process = process_of(pid)  # its threads share the limits
    with _held(process, process, first) as pidfd:
        limit_held(pidfd, process, what, soft)


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
    process = process_of(thread)
    with _held(thread, process, first) as pidfd:
        before = os.sched_getaffinity(thread)
        os.sched_setaffinity(thread, processors)
        if not _is_there(pidfd, thread, process):
            with contextlib.suppress(OSError):
                os.sched_setaffinity(thread, before)
            raise _gone()


def process_of(thread: int) -> int:
    """Return the number of the process that a thread is of.

    Raises:
        OSError: ESRCH, it has ended.

    """
    try:
        with open(f"/proc/{thread}/status", "rb") as file:
            return int(file.read().partition(b"\nTgid:")[2].split(maxsplit=1)[0])
    except (FileNotFoundError, IndexError, ValueError):
        raise _gone() from None


@contextlib.contextmanager
def _held(thread: int, process: int, first: int) -> Iterator[int]:
    """Give a pidfd of a thread, or of its ``process`` before Linux 6.9; ProcessLookupError: none of the sandbox's."""
    pidfd = open_thread(thread, process)
    try:
        # One that had the number before the look and has it after it was the one looked at.
        if not same_sandbox(process, first) or not _is_there(pidfd, thread, process):
            raise _gone()
        yield pidfd
    finally:
        os.close(pidfd)


def _is_there(pidfd: int, thread: int, process: int) -> bool:
    """Tell whether the number still means that thread; a process that is there after the look was the one looked at."""
    return (thread == process or os.path.exists(f"/proc/{process}/task/{thread}")) and is_there(pidfd)


def _gone() -> ProcessLookupError:
    return ProcessLookupError(errno.ESRCH, os.strerror(errno.ESRCH))
