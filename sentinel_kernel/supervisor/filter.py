"""Builds the seccomp program of a policy, proves it against the policy, and keeps it in a cache."""

from __future__ import annotations

import os
import stat

from sentinel_kernel import __version__
from sentinel_kernel.abi.seccomp import BPF_INSTRUCTION_SIZE, BPF_MAXIMUM_INSTRUCTIONS
from sentinel_kernel.errors import UnsupportedHost
from sentinel_kernel.policy.action import ActionKind
from sentinel_kernel.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from sentinel_kernel.policy.compiled import CompiledPolicy
    from sentinel_kernel.policy.floor import FixedRule
    from sentinel_kernel.policy.profile import Profile
    from sentinel_kernel.policy.regions import Region

_LIBRARY = "libseccomp.so.2"
_LIBRARY_FOLDERS = (
    "/usr/lib/{0}-linux-gnu",
    "/lib/{0}-linux-gnu",
    "/usr/lib64",
    "/lib64",
    "/usr/lib",
    "/lib",
)
_DIGEST_BYTES = 32
_FORMAT = "6"
"""Raised whenever the same policies would give another program."""

_PROGRAM_MAXIMUM_BYTES = BPF_INSTRUCTION_SIZE * BPF_MAXIMUM_INSTRUCTIONS
_BINARY_TREE = (
    2  # SCMP_FLTATR_CTL_OPTIMIZE: calls are found by halving, not one after the other (libseccomp 2.5)
)
_MISSING_REMEDY = (
    "Install it: apt-get install libseccomp2 (Debian, Ubuntu), dnf install libseccomp (Fedora), "
    "apk add libseccomp (Alpine)."
)


class RungRules(Record):
    """What a lesser rung refuses whatever a profile says, and what it holds (policy/rung.py)."""

    refused: tuple[FixedRule, ...]
    held: tuple[tuple[str, Region], ...]


def build_filter(
    policy: CompiledPolicy,
    cache_directory: str | None = None,
    others: Sequence[Profile] = (),
    *,
    fenced: bool = False,
    of_rung: RungRules | None = None,
    threads: bool = False,
) -> bytes:
    """Return the BPF program of ``policy``: an array of ``struct sock_filter`` for seccomp(2).

    What one of ``others`` decides otherwise is a notification too, so that the sandbox can change to it. A sandbox
    that may reach hosts is ``fenced`` (policy/network_fence.py); ``of_rung`` is what a lesser rung refuses and holds;
    ``threads`` of programs are held as they start (policy/measured.py).

    It comes from the cache if that is this user's alone and whole, else from libseccomp; a new program is run
    against the policy before it is used. The default and every foreign call is a user notification.

    Raises:
        UnsupportedHost: libseccomp is missing, or what it built is not what the policy says.

    """
    key = _cache_key(policy, others, fenced, of_rung, threads) if cache_directory else None
    if cache_directory and key and (program := _read_cached(cache_directory, key)) is not None:
        return program
    from sentinel_kernel.policy.measured import measured_policy  # noqa: PLC0415 - a cached filter does without

    filtered = filtered_policy(policy, others, of_rung.refused if of_rung else ())
    filtered = measured_policy(filtered, threads=threads)
    if of_rung is not None:
        from sentinel_kernel.policy.rung import held_policy  # noqa: PLC0415 - few sandboxes are on a lesser rung

        filtered = held_policy(filtered, of_rung.held)
    if fenced:
        from sentinel_kernel.policy.network_fence import fenced_policy  # noqa: PLC0415 - for profiles with hosts alone

        filtered = fenced_policy(filtered)
    program = _build(filtered)
    _prove(program, filtered)
    if cache_directory and key:
        _write_cached(cache_directory, key, program)
    return program


def filtered_policy(
    policy: CompiledPolicy, others: Sequence[Profile], refused: Sequence[FixedRule] = ()
) -> CompiledPolicy:
    """Return what the filter of ``policy`` decides alone, and what it holds for ``others``; the rung has ``refused``.

    Raises:
        ProfileError: the argument tests of a call are too many to be told apart.

    """
    from sentinel_kernel.policy.compiled import compile_policy  # noqa: PLC0415 - a cached filter does without
    from sentinel_kernel.policy.reach import shared_policy  # noqa: PLC0415

    for other in others:
        policy = shared_policy(policy, compile_policy(other, policy.architecture.machine, refused))
    return policy


def _build(policy: CompiledPolicy) -> bytes:
    seccomp = _import_pyseccomp()
    notify = seccomp.NOTIFY
    try:
        built = seccomp.SyscallFilter(notify)
        built.set_attr(seccomp.Attr.ACT_BADARCH, notify)
        built.set_attr(seccomp.Attr.CTL_OPTIMIZE, _BINARY_TREE)
        for rule in policy.filter_rules():
            allowed = rule.action.kind is ActionKind.ALLOW
            action = seccomp.ALLOW if allowed else seccomp.ERRNO(rule.action.errno_seen)
            # By number: libseccomp does not know the names of calls that are younger than it.
            built.add_rule_exactly(
                action,
                rule.number,
                *(seccomp.Arg(test.index, seccomp.MASKED_EQ, test.mask, test.value) for test in rule.tests),
            )
        with open(os.memfd_create("sentinel-filter", os.MFD_CLOEXEC), "r+b") as file:
            built.export_bpf(file)
            file.seek(0)
            return file.read(_PROGRAM_MAXIMUM_BYTES + 1)
    except OSError as error:
        raise UnsupportedHost(
            f"libseccomp can't build the filter of profile '{policy.profile_name}': {error}.",
            "Version 2.5 or newer is needed; update the package libseccomp2 (or libseccomp).",
        ) from error


def _import_pyseccomp() -> Any:  # noqa: ANN401 - pyseccomp has no types
    try:
        # Only here: importing it runs ldconfig twice (25 ms), and a cached filter does without.
        import pyseccomp  # noqa: PLC0415
    except RuntimeError:
        raise UnsupportedHost(f"{_LIBRARY} is missing on this machine.", _MISSING_REMEDY) from None
    except ImportError as error:
        raise UnsupportedHost(
            f"The Python package pyseccomp can't be imported: {error}.", "Install it: pip install pyseccomp."
        ) from None
    except OSError as error:
        raise UnsupportedHost(f"{_LIBRARY} can't be loaded: {error}.", _MISSING_REMEDY) from None
    return pyseccomp


def _prove(program: bytes, policy: CompiledPolicy) -> None:
    # Only on a cache miss, as pyseccomp.
    from sentinel_kernel.policy.bpf import ProgramFault, first_mismatch  # noqa: PLC0415

    try:
        wrong = first_mismatch(program, policy)
    except ProgramFault as fault:
        raise UnsupportedHost(
            f"libseccomp built a program that can't be checked: {fault}.",
            "Report this as a bug, with its version.",
        ) from None
    if wrong is not None:
        raise UnsupportedHost(
            f"libseccomp built a filter that answers {policy.architecture.name_of(wrong.number)} "
            f"{[hex(value) for value in wrong.arguments]} (machine {wrong.arch:#x}) with {wrong.program:#x} "
            f"instead of {wrong.policy:#x}.",
            "Report this as a bug, with the version of libseccomp. No sandbox starts with a wrong filter.",
        )


def _cache_key(
    policy: CompiledPolicy,
    others: Sequence[Profile],
    fenced: bool,
    of_rung: RungRules | None,
    threads: bool,
) -> str | None:
    """Return the name for the policy's program, None where it is unknown which libseccomp would build it."""
    library = _library_identity(policy.architecture.machine)
    if library is None:
        return None
    import hashlib  # noqa: PLC0415 - OpenSSL takes long to load, and the sandbox is being made meanwhile

    rules = [(other.default_action, other.syscall_rules) for other in others]
    return hashlib.sha256(
        f"{policy.digest}\n{rules!r}\n{library}\n{__version__}\n{_FORMAT}{' fenced' if fenced else ''}"
        f"{' threads' if threads else ''}{'' if of_rung is None else f' {of_rung!r}'}".encode()
    ).hexdigest()


def _library_identity(machine: str) -> str | None:
    """Return version (in the file's name), size and time of the libseccomp that would be loaded."""
    for folder in _LIBRARY_FOLDERS:
        path = os.path.realpath(os.path.join(folder.format(machine), _LIBRARY))
        try:
            status = os.stat(path)
        except OSError:
            continue
        return f"{path} {status.st_size} {status.st_mtime_ns}"
    return None


def _read_cached(directory: str, key: str) -> bytes | None:
    """Return the program kept under ``key``; None where there is none that can be trusted."""
    try:
        if not _is_ours_alone(os.lstat(directory), stat.S_IFDIR):
            return None
        descriptor = os.open(
            os.path.join(directory, key), os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
        )
    except OSError:
        return None
    try:
        if not _is_ours_alone(os.fstat(descriptor), stat.S_IFREG):
            return None
        content = os.read(descriptor, _DIGEST_BYTES + _PROGRAM_MAXIMUM_BYTES + 1)
    except OSError:
        return None
    finally:
        os.close(descriptor)
    digest, program = content[:_DIGEST_BYTES], content[_DIGEST_BYTES:]
    if not program or len(program) % BPF_INSTRUCTION_SIZE or len(program) > _PROGRAM_MAXIMUM_BYTES:
        return None
    return program if _digest(key, program) == digest else None


def _digest(key: str, program: bytes) -> bytes:
    """Return what vouches for ``program`` as the one of ``key``: another policy's, renamed, is not taken for it."""
    import hashlib  # noqa: PLC0415 - as above

    return hashlib.sha256(key.encode() + program).digest()


def _write_cached(directory: str, key: str, program: bytes) -> None:
    """Keep ``program`` under ``key``; a cache that can't be written only costs time."""
    temporary = os.path.join(directory, f".{key}.{os.getpid()}")
    try:
        os.makedirs(os.path.dirname(directory) or "/", exist_ok=True)
        if not os.path.lexists(directory):
            os.mkdir(directory, 0o700)
        if not _is_ours_alone(os.lstat(directory), stat.S_IFDIR):
            return
        descriptor = os.open(
            temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600
        )
        try:
            with open(descriptor, "wb") as file:
                file.write(_digest(key, program) + program)
            os.replace(temporary, os.path.join(directory, key))
        except OSError:
            os.unlink(temporary)
    except OSError:
        return


def _is_ours_alone(status: os.stat_result, kind: int) -> bool:
    """Tell whether the file is of ``kind``, is this user's, and nobody else can read or change it."""
    return (
        stat.S_IFMT(status.st_mode) == kind
        and status.st_uid == os.geteuid()
        and not stat.S_IMODE(status.st_mode) & 0o077
    )
