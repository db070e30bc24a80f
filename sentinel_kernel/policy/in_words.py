"""A profile's limits, network and calls in words: the same wherever a person reads of them."""

from __future__ import annotations

from socket import AF_INET, SOCK_STREAM

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from sentinel_kernel.policy.compiled import CompiledPolicy
    from sentinel_kernel.policy.resources import Resources, Size

BY_ARGUMENTS = "by their arguments"
"""The group of the calls that are allowed or not according to what they are given."""

_NAMES = "names may be looked up, which has no effect as no hosts are listed"

_UNITS = (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10))
_LIMITS = (
    ("memory_bytes", "{} of memory"),
    ("disk_bytes", "{} of changed files"),
    ("tmp_bytes", "{} of /tmp"),
    ("shm_bytes", "{} of /dev/shm"),
    ("file_size_bytes", "{} of one file"),
    ("output_bytes", "{} of output a cell"),
    ("io_read_bytes", "{}/s of reading"),
    ("io_write_bytes", "{}/s of writing"),
    ("pids", "{} processes and threads"),
    ("open_files", "{} open files"),
    ("wall_seconds", "{} s of wall time a cell"),
    ("cpu_seconds", "{} s of processor time a cell"),
)


def limits(resources: Resources) -> Iterator[str]:
    """Yield every limit that is set."""
    processors = resources.cpu_quota if resources.cpu_count is None else resources.cpu_count
    if processors is not None:
        yield f"{processors:g} processor{'' if processors == 1 else 's'}"
    for field, words in _LIMITS:
        value = getattr(resources, field)
        if value is not None:
            yield words.format(_size(value) if field.endswith("_bytes") else value)


def network(policy: CompiledPolicy) -> str:
    """Return what sockets can reach."""
    if not reaches_itself(policy):
        return "none"
    alone = "the sandbox alone: no other machine, no service of this one"
    network = policy.profile.network
    if network.leads_out:
        asked = dict.fromkeys(f"requests to {rule.host.text}" for rule in network.http)
        return f"{', '.join((*network.hosts, *asked))}; else {alone}"
    return f"{alone}; {_NAMES}" if network.allow_dns else alone


def reaches_itself(policy: CompiledPolicy) -> bool:
    """Tell whether network sockets can be had, which reach the sandbox's own loopback."""
    number = policy.architecture.syscalls["socket"]
    arguments = [AF_INET, SOCK_STREAM, 0, 0, 0, 0]
    return not policy.decide(policy.architecture.audit_arch, number, arguments).action.refuses


def calls(policy: CompiledPolicy) -> dict[str, list[str]]:
    """Return the names of all calls by what becomes of them: an action as it is written, or ``BY_ARGUMENTS``."""
    groups: dict[str, list[str]] = {}
    for rules in policy.rules.values():
        last = rules[-1]
        varies = any(rule.action != last.action for rule in rules)
        groups.setdefault(BY_ARGUMENTS if varies else str(last.action), []).append(last.syscall)
    return {title: sorted(names) for title, names in groups.items()}


def counted(number: int) -> str:
    """Return a number of calls."""
    return f"{number} call{'' if number == 1 else 's'}"


def _size(value: Size) -> str:
    """Return bytes in the largest unit that divides them well enough to be read; a share as a share."""
    if not isinstance(value, int):
        return f"{value}"
    for unit, factor in _UNITS:
        if value >= factor:
            return f"{value / factor:.4g} {unit}"
    return f"{value} B"
