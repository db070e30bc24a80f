"""Why a program was refused, stopped or ended: the causes that a violation may have, and what each means."""

from __future__ import annotations

from sentinel_kernel.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

CALL = "call"
"""The cause of what a rule about system calls decided."""

STAGES = ("soft", "refused", "interrupt", "kill")
"""How far a limit went: the program was told in time, a call failed, the cell was interrupted, a process was killed."""

_ROOM = ("names", "unknown", "death")


class Cause(Record):
    """One cause. ``kind`` is call, limit, path, network, absent or death.

    ``variants`` are what may follow the name in a mapping's key (``memory:death``), beside a limit's stages; which of
    them a violation has is found by :func:`sentinel_kernel.policy.word_values.cause_keys`.
    """

    name: str
    kind: str
    meaning: str
    variants: tuple[str, ...] = ()

    @property
    def action(self) -> str:
        """What stands in a violation's ``action``: its rule's for a call, else the kind in capitals."""
        return "" if self.kind == "call" else self.kind.upper()


_ALL = (
    Cause(CALL, "call", "A rule refused, reported or asked about a system call, or killed for it."),
    Cause(
        "memory", "limit", "The sandbox's memory was used up, or nearly.",
        ("soft", "refused", "soft-machine", "refused-machine", "death", "death-machine", "threads"),
    ),
    Cause("pids", "limit", "No further process or thread could be started."),
    Cause("disk", "limit", "The room for new and changed files is full.", _ROOM),
    Cause("tmp", "limit", "A folder in memory (/tmp, HOME) is full.", _ROOM),
    Cause("shm", "limit", "The shared memory in /dev/shm is full.", _ROOM),
    Cause("file_size", "limit", "A file would have become larger than one file may be."),
    Cause("open_files", "limit", "A process has as many files open as it may."),
    Cause("watches", "limit", "More is watched for events (epoll) than a sandbox may.", ("death",)),
    Cause("output", "limit", "A cell has put out as much as it may."),
    Cause("wall_seconds", "limit", "A cell ran as long as it may.", ("interrupt", "death")),
    Cause("cpu_seconds", "limit", "A cell used as much processor time as it may.", ("interrupt", "death")),
    Cause(
        "path_hidden", "path", "The path exists on the host, and is not shown in the sandbox.",
        ("write", "named", "shown", "secret", "removed", "unasked", "profile"),
    ),
    Cause(
        "path_read_only", "path", "The place can't be written in the sandbox (EROFS, EACCES).",
        ("shown", "written", "consent", "unagreed", "removed", "unasked"),
    ),
    Cause(
        "path_denied", "path", "The path is shown, but covered, or not readable because of the sandbox.",
        ("process", "machine", "secret"),
    ),
    Cause("folder_rename", "path", "A folder of the host can't be renamed where changes are held (EXDEV)."),
    Cause(
        "path_busy", "path", "What the sandbox shows at that very place can't be removed or renamed (EBUSY).",
        ("workspace", "covered"),
    ),
    Cause(
        "name_lookup", "network", "A host's name could not be looked up: the sandbox reaches no DNS server.",
        ("outside",),
    ),
    Cause(
        "network_unreachable", "network", "An address lies outside the sandbox, which has no way out.",
        ("loopback", "proxy"),
    ),
    Cause(
        "host_refused", "network", "A host was asked for that the profile does not let cells reach.",
        ("private", "request", "closed", "full", "unwatched", "expected"),
    ),
    Cause("package_absent", "absent", "A module is not installed in the kernel's environment.", ("inside",)),
    Cause("program_absent", "absent", "A program is on the host, and not in the sandbox."),
    Cause(
        "child_killed", "death", "A process that the cell started was ended by the sandbox.",
        ("memory", "memory-machine", "pids", "cpu_seconds", "wall_seconds"),
    ),
    Cause(
        "worker_killed", "death", "The sandboxed Python was ended: by a signal, by its own code, or given up.",
        ("short", "SIGKILL", "SIGSYS", "exit", "protocol", "connection", "lost"),
    ),
    Cause(
        "worker_crashed", "death", "Native code in the sandboxed Python crashed.",
        ("short", "recursion", "SIGSEGV", "SIGABRT", "SIGBUS"),
    ),
    Cause("call_absent", "absent", "The sandbox answered a system call as if Linux did not have it (ENOSYS)."),
)  # fmt: skip

CAUSES: Mapping[str, Cause] = {cause.name: cause for cause in _ALL}
"""All causes by name."""

OUTCOMES = ("refused", "continued", "killed", "asked", "interrupted", "ended")
"""What became of the program: the last is an end that the sandbox did not bring about, such as a crash."""

CRASHES = ("SIGSEGV", "SIGABRT", "SIGBUS", "SIGILL", "SIGFPE", "SIGTRAP")
"""Signals that a process gets for what its own native code did."""
