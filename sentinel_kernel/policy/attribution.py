"""Whether the sandbox caused an error: what is known of the cell is held against what the error is made of; pure.

A cause is named only on evidence that does not come from the program: an event that the supervisor saw, a limit that
it measured, a path that was looked up on both sides. The program's own report (policy/failure_report.py) only says
which of these to look at, and takes errors out that were made by hand. False attribution is worse than none.
"""

from __future__ import annotations

import errno
import signal

from sentinel_kernel.policy.action import ActionKind
from sentinel_kernel.policy.cause import CALL as CALL_CAUSE
from sentinel_kernel.policy.failure_report import (
    CALL,
    CTYPES,
    LIBRARY,
    PROGRAM,
    RAISE,
    REMOTE,
    SOCKET,
    SOFT,
    SPAWN,
    STANDARD,
    THREAD,
    UNOPENED,
    UNWRITTEN,
)
from sentinel_kernel.policy.resource import NETWORK
from sentinel_kernel.policy.sockaddr import NAME_LOOKUP

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence
    from typing import Any

    from sentinel_kernel.policy.compiled import CompiledRule
    from sentinel_kernel.policy.failure_report import Entry, Failure
    from sentinel_kernel.policy.violation import Violation

FRESH_MS = 2000
"""Where it is not known from which line a refusal was repeated, the last repeat counts as this error's if so young."""

LOOKUP_MS = 60_000
"""The same for the look-up of a name, which waits for servers and tries again."""

_OF_PATHS = frozenset({"files", "devices", "mounts", "linux-kernel", "machine"})
"""What calls reach for whose errors carry a path."""

STARTS, FULL, MAPPED, CROWDED, ROOM = "starts", "full", "mapped", "crowded", "room"
_SQLITE_FULL = 13
_MINUS_EAI = frozenset(range(-11, 0))
_SOCKET_TYPE, _OF_LOOKUPS = 0xF, (1, 2)
"""Which bits of socket(2)'s second argument are the type; SOCK_STREAM and SOCK_DGRAM."""

_NEVER_A_HOST = (".invalid", ".localhost", ".test", ".example")
"""Names that no name server ever knows (RFC 6761)."""

_BY_ERRNO: Mapping[int, tuple[str, ...]] = {
    errno.ENOSPC: ("space",),
    errno.EDQUOT: ("space",),
    errno.EAGAIN: ("pids", "memory"),
    errno.ENOMEM: ("memory",),
    errno.EFBIG: ("file_size",),
    errno.EMFILE: ("open_files",),
}
_BY_CODE: Mapping[int, tuple[str, ...]] = {errno.ENOSPC: (ROOM,), errno.ENOMEM: ("memory",)}
"""The errno whose words a program that failed has put out -> the limits: who filled a folder may be an earlier cell."""
PATH_ERRNOS = frozenset(
    {errno.ENOENT, errno.ENOTDIR, errno.EACCES, errno.EPERM, errno.EROFS, errno.EXDEV, errno.EBUSY}
)


def is_of_call(entry: Entry) -> bool:
    """Tell whether an error came from a call that failed, not from a statement that made it up."""
    return entry.by in (CALL, CTYPES, REMOTE) or (entry.by == STANDARD and entry.site == PROGRAM)


# --- calls that were refused


def refused_call(
    entry: Entry,
    failure: Failure,
    violations: Iterable[Violation],
    now_ms: int,
    coarse: Collection[str] = (),
) -> Violation | None:
    """Return the refusal that the program got this error for, if there was one.

    ``coarse`` has the ids of those that repeats from unknown lines were counted for.
    """
    if entry.errno is None or entry.errno <= 0 or not is_of_call(entry):
        return None
    elsewhere = entry.by == REMOTE or entry.site == PROGRAM
    found = [
        one
        for one in violations
        if one.cause == CALL_CAUSE
        and one.errno == entry.errno
        and one.outcome in ("refused", "continued", "asked")
        and one.process is not None
        and one.process.is_worker is not elsewhere
        and (entry.path is None or elsewhere or one.resource in _OF_PATHS)
        and _is_where(one, entry, failure, now_ms, one.id in coarse)
    ]
    return max(found, key=lambda one: (is_sure(one, entry, failure), one.last_time_ms), default=None)


def failed_lookup(
    entry: Entry,
    failure: Failure,
    violations: Iterable[Violation],
    now_ms: int,
    coarse: Collection[str] = (),
) -> Violation | None:
    """Return the refusal, or the vain connection, that made the look-up of a host's name fail."""
    if entry.base != "gaierror" or entry.by not in (CALL, REMOTE) or entry.errno not in _MINUS_EAI:
        return None
    host = (entry.host or "").rstrip(".").lower()
    if host.endswith(_NEVER_A_HOST):
        return None
    found = [
        one
        for one in violations
        if one.cause in (CALL_CAUSE, "name_lookup")
        and (
            one.resource == NAME_LOOKUP or (one.resource == NETWORK and one.values.get("family") != "AF_UNIX")
        )
        and _asks_servers(one)
        and _is_where(one, entry, failure, now_ms, one.id in coarse, LOOKUP_MS)
    ]
    return max(found, key=lambda one: (is_sure(one, entry, failure), one.last_time_ms), default=None)


def _asks_servers(violation: Violation) -> bool:
    """Tell whether a refused call can be part of a look-up, which takes datagrams and streams and nothing else."""
    if violation.syscall not in ("socket", "socketpair") or len(violation.arguments) < 2:
        return violation.syscall != "socketpair"
    return violation.syscall == "socket" and violation.arguments[1].value & _SOCKET_TYPE in _OF_LOOKUPS


def is_sure(violation: Violation, entry: Entry, failure: Failure) -> bool:
    """Tell whether a refusal that was found is certainly the error's, not one like it from somewhere else."""
    if entry.by == REMOTE:
        return False  # of another process's error there are no lines
    lines = failure.lines
    placed = violation.line is not None and len(lines) > 0 and entry.site != PROGRAM and entry.by != CTYPES
    if entry.base == "gaierror" and violation.resource != NAME_LOOKUP:
        # A socket is refused for other reasons too, and the error is the program's word: only one line did both.
        return placed and violation.line in lines
    return not placed or violation.line in lines


def _is_where(
    violation: Violation,
    entry: Entry,
    failure: Failure,
    now_ms: int,
    coarse: bool,
    fresh_ms: int = FRESH_MS,
) -> bool:
    """Tell whether a refusal happened where the error came from."""
    young = now_ms - violation.last_time_ms <= fresh_ms
    lines = failure.lines
    if violation.line is None or not lines or entry.by == REMOTE or entry.site == PROGRAM:
        return young
    if violation.line in lines or (coarse and young):
        return True
    # A program that looks at errno itself raises some lines below the call.
    return entry.by == CTYPES and young and any(line - 8 <= violation.line <= line for line in lines)


# --- limits


def limit_names(entry: Entry) -> tuple[str, ...]:
    """Return the limits that could have brought this error about, likeliest first; ``space`` is any file system.

    ``starts`` is the limit of tasks by elimination: nothing else makes the start of a process or thread fail, once
    memory is ruled out, and what took up the tasks may have ended since. ``full`` is a file system that this cell has
    filled to the last block, for errors that don't say why something was not written. ``mapped`` is one that was full
    as a process wrote to a mapped file, which ended it; ``crowded`` that of tasks, met by a program that says no more
    than that it failed. ``room`` is a file system that is full, or too small, whoever filled it.
    """
    match entry.base:
        case "MemoryError":
            names: tuple[str, ...] = ("memory",) if entry.by in (CALL, SOFT, REMOTE) else ()
        case "OperationalError":
            names = ("space",) if entry.by == CALL and entry.code == _SQLITE_FULL else ()
        case "RuntimeError":
            names = ("pids", "memory", STARTS) if entry.by == CALL and entry.site == THREAD else ()
        case (
            "KeyboardInterrupt" | "CancelledError"
        ):  # the latter is what an interrupt makes of a cell that awaits
            names = ("wall_seconds", "cpu_seconds") if entry.by != RAISE else ()
        case "CalledProcessError" | "BrokenProcessPool":
            names = _of_child(entry)
        case "OSError" if entry.errno is None and entry.by == CALL:
            names = (FULL, ROOM) if entry.site == UNWRITTEN else (FULL,)  # as numpy raises it
        case _:
            names = _BY_ERRNO.get(entry.errno or 0, ()) if is_of_call(entry) else ()
            if entry.errno == errno.EAGAIN and entry.site == SPAWN:
                names += (STARTS,)
    return names


def _of_child(entry: Entry) -> tuple[str, ...]:
    if entry.base == "BrokenProcessPool":
        return "killed", MAPPED
    if entry.returncode in (-signal.SIGKILL, 128 + signal.SIGKILL):
        return ("killed",)
    if entry.returncode in (-signal.SIGBUS, 128 + signal.SIGBUS):
        return (MAPPED,)
    if entry.returncode == -signal.SIGXFSZ:
        return ("file_size",)
    if entry.returncode is None or entry.returncode <= 0:
        return ()
    return (CROWDED, FULL, *_BY_CODE.get(entry.code or 0, ()))


def told_limit(
    name: str, entry: Entry, told: Iterable[Mapping[str, Any]], msg_id: str
) -> Mapping[str, Any] | None:
    """Return the event of the running cell that tells of the limit ``name``, if it was told already.

    ``killed`` is the kill of a process that was not the worker.
    """
    return next((limit for limit in reversed(list(told)) if _is_limit(limit, name, entry, msg_id)), None)


def _is_limit(limit: Mapping[str, Any], name: str, entry: Entry, msg_id: str) -> bool:
    stage, what = limit.get("stage"), limit.get("name")
    if name == "killed":
        return what == "memory" and stage == "kill"
    if name == MAPPED:
        return what in ("disk", "tmp", "shm") and stage == "kill"
    if name in ("wall_seconds", "cpu_seconds"):
        return what == name and stage == "interrupt" and limit.get("msg_id") == msg_id
    if name == "memory":
        return what == name and (stage == "refused" or (stage == "soft" and entry.base == "MemoryError"))
    return what == name or (name in ("space", ROOM) and what in ("disk", "tmp", "shm"))


# --- what is not there


def is_absent_package(entry: Entry) -> bool:
    """Tell whether an error is the import of a module that no finder in the sandbox knows."""
    return (
        entry.base == "ModuleNotFoundError"
        and entry.by in (CALL, STANDARD)
        and entry.name is not None
        and entry.name.isidentifier()
    )


def absent_call(entry: Entry, rules: Mapping[int, Sequence[CompiledRule]]) -> CompiledRule | None:
    """Return the rule by which the filter answers the call as if Linux did not have it, told to nobody."""
    if entry.errno != errno.ENOSYS or not is_of_call(entry) or entry.call is None:
        return None
    of_call = rules.get(entry.call, ())
    silent = all(
        rule.action.kind is ActionKind.ERRNO and rule.action.errno_seen == errno.ENOSYS for rule in of_call
    )
    return of_call[0] if of_call and silent else None


def silent_socket(entry: Entry, rules: Sequence[CompiledRule]) -> CompiledRule | None:
    """Return the rule that answers, told to nobody, that a family of sockets is not there: libraries try that."""
    if entry.errno != errno.EAFNOSUPPORT or entry.by != CALL or entry.site != SOCKET:
        return None
    return next(
        (
            rule
            for rule in rules
            if rule.action.kind is ActionKind.ERRNO and rule.action.errno_seen == errno.EAFNOSUPPORT
        ),
        None,
    )


def wants_paths(entry: Entry) -> bool:
    """Tell whether both sides are to be looked at for an error's path: what it says could be the sandbox's doing."""
    if entry.site == UNOPENED and entry.path is not None and entry.errno in (None, *PATH_ERRNOS):
        return entry.by in (LIBRARY, STANDARD) or is_of_call(entry)
    if entry.base != "OSError" or entry.path is None or entry.errno not in PATH_ERRNOS:
        return False
    if entry.by == LIBRARY:  # which looked for itself; a cell that makes such an error up gets nothing
        return entry.errno == errno.ENOENT
    return is_of_call(entry)
