"""Answers for whoever repairs a cell: what an error of the sandbox means, and the cell changed so that it runs."""

from __future__ import annotations

import errno as errno_numbers

from sentinel_kernel.abi.architecture import architecture_of, is_known_anywhere
from sentinel_kernel.policy.cause import CALL, CAUSES
from sentinel_kernel.policy.change import changed_lines
from sentinel_kernel.policy.compare import compiled
from sentinel_kernel.policy.hints import complete
from sentinel_kernel.policy.limit_remedy import TYPED
from sentinel_kernel.policy.mapping import load_mappings
from sentinel_kernel.policy.occurrence import make_occurrence
from sentinel_kernel.policy.request import Request
from sentinel_kernel.policy.spelling import closest
from sentinel_kernel.policy.verdict import judge
from sentinel_kernel.policy.violation import Limit, Remedy, Text, make_violation
from sentinel_kernel.record import Record, field_names, replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from sentinel_kernel.policy.compiled import CompiledPolicy
    from sentinel_kernel.policy.leeway import Leeway
    from sentinel_kernel.policy.violation import Violation

_ID = "advice"
_DEVICE = 0o020600
"""The mode of a device file (<linux/stat.h>): the only kind that is refused to be made."""
_WRITES = frozenset(
    ("open", "openat", "creat", "mkdir", "mkdirat", "rename", "renameat", "renameat2", "unlink", "unlinkat", "rmdir",
     "truncate", "chmod", "fchmodat", "chown", "fchownat", "link", "linkat", "symlink", "symlinkat", "utimensat")
)  # fmt: skip
_OF_CALLS = {
    **dict.fromkeys(_WRITES, "path_read_only"),
    **dict.fromkeys(("execve", "execveat"), "program_absent"),
    **dict.fromkeys(("clone", "clone3", "fork", "vfork"), "pids"),
    **dict.fromkeys(("mmap", "brk", "mremap"), "memory"),
    **dict.fromkeys(("write", "pwrite64", "ftruncate", "fallocate"), "disk"),
}
"""Call that a profile lets through -> what makes it fail all the same."""

_OF_SIGNALS = {
    "OOM_KILL": "memory",
    "SIGXCPU": "cpu_seconds",
    "SIGXFSZ": "file_size",
    "SIGINT": "wall_seconds",
    "SIGSYS": "worker_killed",
    "SIGKILL": "worker_killed",
    "SIGSEGV": "worker_crashed",
    "SIGABRT": "worker_crashed",
    "SIGBUS": "worker_crashed",
}
_OF_ERRNOS = {
    errno_numbers.ENOMEM: "memory",
    errno_numbers.EAGAIN: "pids",
    errno_numbers.ENOSPC: "disk",
    errno_numbers.EFBIG: "file_size",
    errno_numbers.EMFILE: "open_files",
    errno_numbers.ENFILE: "open_files",
    errno_numbers.EROFS: "path_read_only",
    errno_numbers.EACCES: "path_denied",
    errno_numbers.EPERM: "path_denied",
    errno_numbers.ENOENT: "path_hidden",
    errno_numbers.ENOTDIR: "path_hidden",
    errno_numbers.ENETUNREACH: "network_unreachable",
    errno_numbers.EHOSTUNREACH: "network_unreachable",
    errno_numbers.ENOSYS: "call_absent",
}
_ERRNO_OF = {cause: number for number, cause in reversed(list(_OF_ERRNOS.items()))}
"""The errno by which each is known first."""


class Repair(Record):
    """What to do about a refusal: ``code`` is the whole changed cell, ``magic`` a line to put on top of the cell.

    ``changed_lines`` are those of ``code``, from 1. With neither, ``why`` says why nothing can be done here.
    """

    cause: str
    code: str | None
    magic: str | None
    why: Text
    changed_lines: tuple[int, ...]
    remedies: tuple[Remedy, ...]


class Translated(Record):
    """An error in words, with what helps; ``cause`` is one of cause.CAUSES."""

    cause: str
    message: Text
    hint: Text
    remedies: tuple[Remedy, ...]


class UnknownError(ValueError):
    """What was asked about is no cause, call, signal or errno; the text says what was meant, perhaps."""


def repair_of(violation: Violation, code: str, leeway: Leeway) -> Repair:
    """Return the repair of ``code``, in which ``violation`` happened."""
    completed = complete(violation, leeway=leeway, code=code)
    remedies = completed.remedies
    changed = next((remedy.code for remedy in remedies if remedy.code is not None), None)
    magic = next((remedy.text for remedy in remedies if remedy.kind == "magic"), None)
    first = remedies[0] if remedies else None
    if first is not None and first.kind == "magic":
        changed = None  # the cell may stay as it is
    why = first.why if first is not None and first.why is not None else completed.hint
    lines = changed_lines(code, changed) if changed is not None else ()
    return Repair(violation.cause, changed, magic, why or Text("", ""), lines, remedies)


def suggest_repair(
    what: str,
    code: str,
    leeway: Leeway,
    *,
    profile: str = "strict",
    machine: str = "x86_64",
    path: str | None = None,
) -> Repair:
    """Return how ``code`` runs, in which ``what`` (a system call, or a cause of cause.CAUSES) failed.

    Raises:
        UnknownError: there is no call and no cause of that name.

    """
    return repair_of(_violation(what, leeway, profile, machine, path, code), code, leeway)


def translate_error(
    leeway: Leeway,
    *,
    profile: str = "strict",
    machine: str = "x86_64",
    signal: str | None = None,
    errno: int | str | None = None,
    syscall: str | None = None,
    path: str | None = None,
) -> Translated:
    """Return what an error means under ``profile``, by the most telling of what is given.

    Raises:
        UnknownError: nothing that is given names a signal, an errno or a call.

    """
    number = _errno_number(errno)
    policy = _policy(leeway, profile, machine)
    if syscall is not None and (refused := _refused(syscall, policy, _wanted(syscall, ""))) is not None:
        violation = refused
    elif signal is not None:
        violation = _occurrence(_named(signal.upper(), _OF_SIGNALS, "signal"), leeway, profile, path)
        if signal.upper().startswith("SIG"):
            violation = replace(violation, values={**violation.values, "signal": signal.upper()})
    elif number is not None:
        violation = _occurrence(_of_errno(number, path), leeway, profile, path)
    elif syscall is not None:
        violation = _violation(syscall, leeway, profile, machine, path, "")
    else:
        raise UnknownError("Give a signal, an errno or a system call.")
    done = complete(violation, leeway=leeway)
    message, hint = done.message or Text("", ""), done.hint or Text("", "")
    if violation.cause != CALL and syscall is None and path is None:
        # A number alone can have other reasons, too: the words for it say so.
        known = signal.upper() if signal is not None else errno_numbers.errorcode.get(number or 0, "")
        words = load_mappings().error_words([known], profile)
        if words is not None:
            message, hint = Text(words.message_en, words.message_zh), Text(words.hint_en, words.hint_zh)
    elif violation.cause.startswith("path_") and syscall is None:
        # Nobody has looked whether the path is there.
        message = Text(f"Probably: {message.en}", f"很可能：{message.zh}")
    return Translated(done.cause, message, hint, done.remedies)


def _violation(
    what: str, leeway: Leeway, profile: str, machine: str, path: str | None, code: str
) -> Violation:
    if what in CAUSES and what != "call":
        return _occurrence(what, leeway, profile, path)
    if not is_known_anywhere(what):
        meant = closest(what, tuple(CAUSES))
        raise UnknownError(
            f"{what[:60]!r} is neither a system call nor a cause." + (f" Was {meant} meant?" if meant else "")
        )
    refused = _refused(what, _policy(leeway, profile, machine), _wanted(what, code))
    return (
        refused
        if refused is not None
        else _occurrence(_OF_CALLS.get(what, "path_denied"), leeway, profile, path)
    )


def _wanted(syscall: str, code: str) -> tuple[int, ...]:
    """Return the registers that a call without any to go by most likely had."""
    if syscall == "socket":
        return (10, 1, 6) if "AF_INET6" in code else (2, 1, 0)
    return {"mknod": (0, _DEVICE), "mknodat": (0, 0, _DEVICE)}.get(syscall, ())


def _refused(syscall: str, policy: CompiledPolicy | None, arguments: tuple[int, ...]) -> Violation | None:
    """Return the violation of the call under ``policy``, with registers that it refuses; None if it refuses none."""
    number = None if policy is None else policy.architecture.syscalls.get(syscall)
    if policy is None or number is None:
        return None
    tried = [arguments] if arguments else []
    for rule in policy.rules[number]:
        if rule.tests and syscall in _WRITES:
            continue  # a mode that makes a program run as its owner, which hardly any code asks for
        values = {test.index: test.value for test in rule.tests}
        tried.append(tuple(values.get(index, 0) for index in range(6)))
    for registers in tried:
        first, second, third, fourth, fifth, sixth = (*registers, *(0,) * (6 - len(registers)))
        asked = Request(
            number,
            policy.architecture.audit_arch,
            (first, second, third, fourth, fifth, sixth),
            1,
            1,
            "python",
            is_worker=True,
        )
        verdict = judge(asked, policy)
        if verdict.kind != "continue" and (verdict.report or arguments == registers):
            return make_violation(asked, verdict, policy, _ID, 0)
    return None


def _policy(leeway: Leeway, profile: str, machine: str) -> CompiledPolicy | None:
    known = leeway.profile(profile)
    if known is None:
        raise UnknownError(f"There is no profile {profile[:60]!r}.")
    return compiled(known, architecture_of(machine).machine)


def _occurrence(cause: str, leeway: Leeway, profile: str, path: str | None) -> Violation:
    kind = {"package_absent": "package", "program_absent": "program", "name_lookup": "host"}.get(
        cause, "path"
    )
    subject = (kind, path) if path else None
    number = _ERRNO_OF.get(cause)
    made = make_occurrence(cause, id=_ID, profile=profile, rule="", time_ms=0, subject=subject, errno=number)
    if cause not in TYPED:
        return made
    _, field, unit = TYPED[cause]
    allowed = leeway.sizes.get(field)
    if allowed is None and (known := leeway.profile(profile)) is not None:
        written = getattr(known.resources, field)
        allowed = written if isinstance(written, int) else None
    if cause == "tmp":
        made = replace(made, values={**made.values, "place": "/tmp"})
    return replace(made, limit=Limit(cause, "refused", None, allowed, unit, False, ""))


def _of_errno(number: int, path: str | None) -> str:
    if number == errno_numbers.ENOSPC and path:
        if path.startswith("/dev/shm"):
            return "shm"
        return "tmp" if path.startswith(("/tmp", "/var/tmp")) else "disk"
    cause = _OF_ERRNOS.get(number)
    if cause is None:
        raise UnknownError(
            f"{errno_numbers.errorcode.get(number, number)} is no error that the sandbox makes by itself."
        )
    return cause


def _errno_number(errno: int | str | None) -> int | None:
    if errno is None or isinstance(errno, int):
        return errno
    number = getattr(errno_numbers, errno.upper(), None) if errno.isidentifier() else None
    if isinstance(number, int):
        return number
    if errno.isascii() and errno.isdecimal() and len(errno) < 6:
        return int(errno)
    raise UnknownError(f"{errno[:60]!r} is no errno: write EPERM, or its number.")


def _named(name: str, known: dict[str, str], what: str) -> str:
    if name not in known:
        raise UnknownError(f"{name[:60]!r} is no {what} that the sandbox sends. Known: {', '.join(known)}.")
    return known[name]


def as_json(repair: Repair | Translated) -> dict[str, Any]:
    """Return ``repair`` as JSON values."""
    document: dict[str, Any] = {}
    for name in field_names(type(repair)):
        value = getattr(repair, name)
        if isinstance(value, Text):
            value = {"en": value.en, "zh": value.zh}
        elif name == "remedies":
            value = [_remedy_json(remedy) for remedy in value]
        elif isinstance(value, tuple):
            value = list(value)
        document[name] = value
    return document


def _remedy_json(remedy: Remedy) -> dict[str, Any]:
    why = None if remedy.why is None else {"en": remedy.why.en, "zh": remedy.why.zh}
    return {"kind": remedy.kind, "text": remedy.text, "why": why, "code": remedy.code}
