"""What a person can be asked about: calls that are decided by their registers, and how their questions are told apart.

An answer that lets a call go on lets the Linux kernel read it again. What lies behind a pointer can be another thing by
then (seccomp_unotify(2)), so that only calls without pointers are held for a person.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

ONCE, SESSION, NO = "once", "session", "no"
NOBODY, TIMEOUT, INTERRUPTED, CROWD = "nobody", "timeout", "interrupted", "crowd"
"""Why there was no answer: no one takes input, it took too long, the cell was interrupted, too many questions."""

UNRECORDED = "unrecorded"
"""There was a yes, and no lasting note could be made of it."""

_MEMORY = frozenset({"path", "address", "bytes", "pointer"})
# Calls whose arguments have no names here (signatures.py), and are numbers all the same: man 2 of each.
_PLAIN_NAMES = (
    "sync syncfs fsync fdatasync sync_file_range setpriority getpriority ioprio_set ioprio_get mlockall munlockall "
    "inotify_init inotify_init1 timerfd_create msgget semget shmget fchmod fchown setsid setresuid setresgid setreuid "
    "setregid setfsuid setfsgid pidfd_open process_mrelease epoll_create sched_get_priority_max "
    "sched_get_priority_min getpgid getsid fallocate readahead fadvise64 flock fchdir alarm pause"
)
_PLAIN = frozenset(_PLAIN_NAMES.split())


def is_askable(syscall: str) -> bool:
    """Tell whether a person can be asked about ``syscall``: none of its arguments points to memory."""
    from sentinel_kernel.policy.signatures import is_described, signature  # noqa: PLC0415 - not on the start path

    if not is_described(syscall):
        return syscall in _PLAIN
    # prctl(2) and keyctl(2) have numbers or pointers in the same place.
    return syscall not in ("prctl", "keyctl") and not any(kind in _MEMORY for _, kind in signature(syscall))


def question_key(place: str, syscall: str, arguments: Sequence[int]) -> tuple[object, ...]:
    """Return what two calls have in common that are one question: rule, call, and the registers that it reads."""
    from sentinel_kernel.policy.signatures import is_described, signature  # noqa: PLC0415 - not on the start path

    count = len(signature(syscall)) if is_described(syscall) else len(arguments)
    return (place, syscall, *arguments[:count])
