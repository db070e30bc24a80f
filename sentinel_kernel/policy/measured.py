"""Calls that take from what all share and that no limit of the Linux kernel counts: held, so that they can be counted.

A profile that allows them allows them within its sizes. Each is decided on registers, or carried out by the supervisor.
"""

from __future__ import annotations

from sentinel_kernel.policy.action import Action, ActionKind
from sentinel_kernel.policy.compiled import ORIGIN_SHARED, CompiledRule, reachable
from sentinel_kernel.policy.regions import EVERYTHING, ArgumentTest, intersection
from sentinel_kernel.record import replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

    from sentinel_kernel.abi.architecture import Architecture
    from sentinel_kernel.policy.compiled import CompiledPolicy
    from sentinel_kernel.policy.regions import Region

_MAP_TYPE_AND_ANONYMOUS: Final = 0x0F | 0x20  # <asm-generic/mman-common.h>
_MAP_SHARED_ANONYMOUS: Final = 0x01 | 0x20
_MAP_PRIVATE_ANONYMOUS: Final = 0x02 | 0x20
_MAP_NORESERVE: Final = 0x4000
_PRIVATE: Final = ArgumentTest(3, _MAP_TYPE_AND_ANONYMOUS | _MAP_NORESERVE, _MAP_PRIVATE_ANONYMOUS)
"""Not what libraries' allocators (mimalloc, jemalloc) try to set aside, and do well without."""

_PROT_WRITE: Final = 2
_LARGE: Final = (1 << 64) - (1 << 27)
"""A mapping of 128 MiB and more takes 20 ms to be touched, and some tenths of one to be held."""

_RLIMIT_DATA: Final = 2  # <asm-generic/resource.h>
_LIMIT_NUMBERS: Final = 0x0F
"""All that there are (RLIM_NLIMITS is 16); the Linux kernel refuses higher ones, which are held too. Each further bit
would double what other rules of the call fall into."""

_OF_OTHERS: Final = ("sched_setscheduler", "sched_setparam", "sched_setattr", "setpriority", "ioprio_set")
"""What is aimed at pid 1 is refused (floor.py). In the filter that would take 32 rules each, one for each bit."""

_NOT_ASKED: Final = (ArgumentTest(2, (1 << 64) - 1, 0),)
_SMALL: Final = (ArgumentTest(1, _LARGE, 0), _PRIVATE)
"""Where a call is not held: each program that starts asks once for the size of its stack; small mappings are many."""

_CLONE_THREAD: Final = 0x00010000  # <linux/sched.h>

MEASURED: Final[tuple[tuple[str, Region, Region | None], ...]] = (
    ("mmap", (ArgumentTest(3, _MAP_TYPE_AND_ANONYMOUS, _MAP_SHARED_ANONYMOUS),), None),
    ("mmap", (ArgumentTest(2, _PROT_WRITE, _PROT_WRITE), _PRIVATE), _SMALL),
    ("memfd_create", EVERYTHING, None),
    ("shmget", EVERYTHING, None),
    ("semget", EVERYTHING, None),
    ("msgget", EVERYTHING, None),
    ("sched_setaffinity", EVERYTHING, None),
    ("sysinfo", EVERYTHING, None),
    *((name, EVERYTHING, None) for name in _OF_OTHERS),
    ("prlimit64", EVERYTHING, _NOT_ASKED),
    ("setrlimit", (ArgumentTest(0, _LIMIT_NUMBERS, _RLIMIT_DATA),), None),
)
"""Call, where it is held, and where in that it is not. What RLIMIT_DATA refuses, nobody is told of
(supervisor/refused_memory.py), and it leaves out shared memory; System V's
limits can't be set from here (ipc_namespaces(7) gives them to root alone); affinity and the soft RLIMIT_DATA are a
process's own to change; sysinfo(2) tells of the machine.

No mapping of a file is held: a signal whose handler does not restart calls (signal.signal of Python makes such) would
end one that the supervisor has not taken yet with EINTR, which mmap knows nothing of."""

_HELD = Action(ActionKind.NOTIFY)
_REASON = "it is counted against the profile's sizes"


def _starts(architecture: Architecture) -> tuple[tuple[str, Region, Region | None], ...]:
    """Return the starts of threads whose stack is not in the lower part of memory, where the worker's are.

    No signal ends one while it waits: C libraries block all of them around it (pthread_create of glibc 2.32, musl, Go).
    """
    top = 1 << architecture.top_bit
    stack = ArgumentTest(1, top, top)
    return (("clone", (ArgumentTest(0, _CLONE_THREAD, _CLONE_THREAD), stack), None),)


def measured_policy(policy: CompiledPolicy, *, threads: bool = False) -> CompiledPolicy:
    """Return the policy of a filter that also holds the calls that are to be counted.

    ``threads``: the starts of threads too, but for those of the worker and its forks (supervisor/child_threads.py).
    Where the supervisor is gone they fail, as all that is held.
    """
    rules = dict(policy.rules)
    starts = _starts(policy.architecture) if threads else ()
    for name, region, left_out in (*MEASURED, *starts):
        number = policy.architecture.syscalls.get(name)
        if number is not None and number in rules:
            held = CompiledRule(name, number, region, _HELD, ORIGIN_SHARED, _REASON)
            free = [
                replace(rule, tests=tests)
                for rule in rules[number]
                if left_out is not None and (tests := intersection(rule.tests, left_out)) is not None
            ]
            rules[number] = reachable((*free, held, *rules[number]))
    return replace(policy, rules=rules)
