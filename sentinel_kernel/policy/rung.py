"""What the landlock rung refuses beside a profile: there the sandbox has no network, IPC, process or mounts of its own.

Landlock keeps files from being opened, and, from its version 6 on, signals and abstract sockets inside. What it does
not see is refused here, or held and answered by the supervisor (supervisor/rung_calls.py), as signals are before that.
"""

from __future__ import annotations

import errno

from sentinel_kernel.abi.landlock import SCOPES_FROM
from sentinel_kernel.abi.resource import RLIMIT_LOCKS
from sentinel_kernel.abi.socket import AF_INET6, AF_NETLINK, AF_UNIX
from sentinel_kernel.policy.action import NOTIFY, Action, ActionKind
from sentinel_kernel.policy.compiled import ORIGIN_SHARED, CompiledRule, reachable
from sentinel_kernel.policy.floor import FixedRule
from sentinel_kernel.policy.regions import EVERYTHING, LOW_32_BITS, ArgumentTest, intersection
from sentinel_kernel.record import replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

    from sentinel_kernel.policy.compiled import CompiledPolicy
    from sentinel_kernel.policy.regions import Region

FULL, LANDLOCK = "full", "landlock"

LEAST_ABI: Final = 4
"""From this version on (Linux 6.7) Landlock refuses TCP, a second fence behind the refusal of all such sockets."""


def _calls(names: str) -> tuple[str, ...]:
    return tuple(names.split())


def _equals(index: int, value: int) -> ArgumentTest:
    return ArgumentTest(index, LOW_32_BITS, value)


_TYPE = 0x0F  # SOCK_TYPE_MASK of <linux/net.h>
_STREAM, _PACKETS = 1, 5  # SOCK_STREAM, SOCK_SEQPACKET: whoever sends on one can't name another receiver
_OWN_SOCKETS: Final[tuple[Region, ...]] = tuple(
    (_equals(0, AF_UNIX), ArgumentTest(1, _TYPE, kind)) for kind in (_STREAM, _PACKETS)
)
_NO_FAMILY = Action(ActionKind.ERRNO, errno.EAFNOSUPPORT)
_NO_ATTRIBUTES = Action(ActionKind.ERRNO, errno.EOPNOTSUPP)
_OF_TERMINALS = ArgumentTest(
    1, 0xFFFFFF00, 0x5400
)  # 'T' of <asm-generic/ioctls.h>: FIONREAD and FIONBIO among them
# Of <asm-generic/fcntl.h> and <linux/fcntl.h>.
_F_SETOWN, _F_SETSIG, _F_SETOWN_EX, _F_SETLEASE, _F_NOTIFY = 8, 10, 15, 1024, 1026
_RENAME_WHITEOUT = 4  # <linux/fs.h>
_OWNERS = (0x8901, 0x8902)  # FIOSETOWN and SIOCSPGRP of <asm-generic/sockios.h>

_OF_RUNG: Final = "on the landlock rung the sandbox has none of its own, and this one is the machine's"

RULES: Final[tuple[FixedRule, ...]] = (
    # Asked for at imports (urllib3, getaddrinfo), by who goes on where the family does not exist: nothing to tell.
    FixedRule(
        ("socket",),
        _NO_FAMILY,
        f"network: {_OF_RUNG}",
        only_in=(
            (_equals(0, AF_NETLINK),),
            (_equals(0, AF_INET6), ArgumentTest(1, _TYPE, _STREAM), _equals(2, 0)),
        ),
    ),
    FixedRule(("socket", "socketpair"), NOTIFY, f"network: {_OF_RUNG}", except_in=_OWN_SOCKETS),
    FixedRule(
        _calls(
            "shmget shmat shmctl semget semop semtimedop semctl msgget msgsnd msgrcv msgctl mq_open mq_unlink"
        ),
        NOTIFY,
        f"shared memory, semaphores and queues: {_OF_RUNG}",
    ),
    # By prlimit(2) it is held, and refused from outside.
    FixedRule(
        ("setrlimit",),
        NOTIFY,
        "by this limit the sandbox's processes are found",
        only_in=((_equals(0, RLIMIT_LOCKS),),),
    ),
    FixedRule(
        ("renameat2",),
        Action(ActionKind.ERRNO, errno.EINVAL),  # as of file systems that have no such thing
        "a whiteout would stay behind, a device that Landlock does not keep from being made",
        only_in=((ArgumentTest(4, _RENAME_WHITEOUT, _RENAME_WHITEOUT),),),
    ),
    FixedRule(("inotify_add_watch",), NOTIFY, "Landlock does not keep it from folders that are not shown"),
    FixedRule(
        ("fcntl",),
        NOTIFY,
        "it would hold up, watch or signal others",
        only_in=tuple(
            (_equals(1, command),) for command in (_F_SETOWN, _F_SETSIG, _F_SETOWN_EX, _F_SETLEASE, _F_NOTIFY)
        ),
    ),
    FixedRule(
        ("ioctl",),
        NOTIFY,
        "it would have a process outside signalled",
        only_in=tuple((_equals(1, request),) for request in _OWNERS),
    ),
    # ls and shutil.copy2 ask for them, and go on without.
    FixedRule(
        _calls(
            "getxattr lgetxattr listxattr llistxattr setxattr lsetxattr fsetxattr removexattr lremovexattr "
            "fremovexattr"
        ),
        _NO_ATTRIBUTES,
        "Landlock does not keep them from files that are not shown",
    ),
)
"""On every machine."""

OF_SAME_USER: Final[tuple[FixedRule, ...]] = (
    FixedRule(
        ("ioctl",),
        NOTIFY,
        "Landlock does not keep it from changing shown files",
        except_in=((_OF_TERMINALS,),),
    ),
    FixedRule(
        _calls("chown fchown lchown fchownat"),
        NOTIFY,
        "Landlock does not keep it from files that are not shown",
    ),
)
"""Where the sandbox runs as the very user who started the kernel: what that user may do to others' processes and files.

A sandbox of root's runs as an id that owns nothing."""

_O_DIRECTORY: Final = 0o200000
_HELD_ALWAYS: Final[tuple[tuple[str, Region], ...]] = tuple(
    (name, EVERYTHING) for name in _calls("connect listen pidfd_open prlimit64")
)
_FREE: Final[dict[str, Region]] = {"prlimit64": (_equals(0, 0), ArgumentTest(2, (1 << 64) - 1, 0))}
"""Where in that a call is not held: each program that starts asks for limits of its own. Others' are told from outside:
the Linux kernel tells a user those of all processes that are the user's."""

_HELD_OF_SAME_USER: Final[tuple[tuple[str, Region], ...]] = tuple(
    (name, EVERYTHING) for name in _calls("chmod fchmod fchmodat fchmodat2 utime utimes futimesat utimensat")
)
_HELD_OF_SPLIT: Final[tuple[tuple[str, Region], ...]] = (
    ("open", (ArgumentTest(1, _O_DIRECTORY, _O_DIRECTORY),)),
    ("openat", (ArgumentTest(2, _O_DIRECTORY, _O_DIRECTORY),)),
)
_HELD_UNSCOPED: Final[tuple[tuple[str, Region], ...]] = tuple(
    (name, EVERYTHING)
    for name in _calls("kill tkill tgkill rt_sigqueueinfo rt_tgsigqueueinfo pidfd_send_signal")
)
_HELD: Final = Action(ActionKind.NOTIFY)


def rules_of(*, same_user: bool) -> tuple[FixedRule, ...]:
    """Return what holds on the landlock rung whatever a profile says."""
    return (*RULES, *OF_SAME_USER) if same_user else RULES


def held_calls(*, same_user: bool, split: bool, abi: int) -> tuple[tuple[str, Region], ...]:
    """Return the calls that the supervisor makes in the sandbox's stead, and where they are held.

    ``abi`` is Landlock's version.
    """
    return (
        *_HELD_ALWAYS,
        *(_HELD_UNSCOPED if abi < SCOPES_FROM else ()),
        *(_HELD_OF_SAME_USER if same_user else ()),
        *(_HELD_OF_SPLIT if split else ()),
    )


def held_policy(policy: CompiledPolicy, held: tuple[tuple[str, Region], ...]) -> CompiledPolicy:
    """Return the policy of a filter that also holds those calls, where a rule lets them take effect."""
    rules = dict(policy.rules)
    for name, region in held:
        number = policy.architecture.syscalls.get(name)
        if number is not None and number in rules:
            rule = CompiledRule(name, number, region, _HELD, ORIGIN_SHARED, "it is done from outside")
            free = [
                replace(one, tests=tests)
                for one in rules[number]
                if name in _FREE and (tests := intersection(one.tests, _FREE[name])) is not None
            ]
            rules[number] = reachable((*free, rule, *rules[number]))
    return replace(policy, rules=rules)
