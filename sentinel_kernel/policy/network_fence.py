"""Calls that a sandbox with a way out may not make on its own, in the filter: connections are made from outside alone.

A socket that was connected on the sandbox's behalf belongs to the network outside. Landlock refuses to the sandbox all
TCP connections and binding, whatever is raced; what Landlock does not see is held, or refused in the filter.
"""

from __future__ import annotations

import errno

from sentinel_kernel.policy.action import Action, ActionKind
from sentinel_kernel.policy.compiled import ORIGIN_SHARED, CompiledRule, reachable
from sentinel_kernel.policy.regions import EVERYTHING, ArgumentTest
from sentinel_kernel.record import replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

    from sentinel_kernel.policy.compiled import CompiledPolicy
    from sentinel_kernel.policy.regions import Region

MSG_FASTOPEN: Final = 0x20000000
"""Of <linux/socket.h>: to send is to connect, past what Landlock and connect(2) say."""

SOL_IP, SOL_TCP, SOL_IPV6 = 0, 6, 41  # <linux/socket.h>
REFUSED_OPTIONS: Final = {
    (SOL_IP, 4): errno.EPERM,  # IP_OPTIONS: source routes lead packets of a connection to other hosts
    (SOL_IPV6, 57): errno.EPERM,  # IPV6_RTHDR: as above
    (SOL_IPV6, 5): errno.EPERM,  # IPV6_2292RTHDR
    (SOL_IPV6, 6): errno.EPERM,  # IPV6_2292PKTOPTIONS
    (SOL_TCP, 30): errno.EOPNOTSUPP,  # TCP_FASTOPEN_CONNECT: connects at the first write
}
"""Level and name of options (setsockopt(2)) -> what is answered where one is set."""

_OF_DEVICES: Final = 0x8900
"""The group of ioctl(2) requests of sockets (<linux/sockios.h>)."""

HARMLESS_REQUESTS: Final = frozenset((0x8901, 0x8902, 0x8903, 0x8904, 0x8905, 0x8906, 0x8907))
"""FIOSETOWN to SIOCGSTAMPNS: they concern the socket alone."""

ASKED_OF_DEVICES: Final = frozenset(
    (0x8910, 0x8913, 0x8915, 0x8917, 0x8919, 0x891B, 0x891D, 0x8921, 0x8927, 0x8933, 0x8942)
)
"""SIOCGIFNAME, -FLAGS, -ADDR, -DSTADDR, -BRDADDR, -NETMASK, -METRIC, -MTU, -HWADDR, -INDEX, -TXQLEN."""

_HELD = Action(ActionKind.NOTIFY)
_REASON = "hosts are connected to from outside the sandbox alone"
_LEVEL, _NAME = 1, 2

_REGIONS: Final[tuple[tuple[str, Region], ...]] = (
    ("connect", EVERYTHING),
    ("bind", EVERYTHING),
    ("listen", EVERYTHING),
    # Few bits tell them apart: each more doubles what other rules fall into, and the supervisor looks at all.
    ("setsockopt", (ArgumentTest(_LEVEL, 0xFF, SOL_IP),)),
    ("setsockopt", (ArgumentTest(_LEVEL, 0xFF, SOL_IPV6),)),
    ("setsockopt", (ArgumentTest(_LEVEL, 0xFF, SOL_TCP), ArgumentTest(_NAME, 0x1F, 30))),
    ("ioctl", (ArgumentTest(1, 0xFF00, _OF_DEVICES),)),
)
HELD_CALLS: Final = frozenset(name for name, _ in _REGIONS)
"""Calls that the supervisor answers itself."""

_SENDING: Final = (("sendto", 3), ("sendmsg", 2), ("sendmmsg", 3))
"""Calls, and which argument holds their flags."""


def fenced_policy(policy: CompiledPolicy) -> CompiledPolicy:
    """Return the policy of a filter for a sandbox that may reach hosts."""
    rules = dict(policy.rules)
    no = Action(ActionKind.ERRNO, errno.EOPNOTSUPP)
    fences = [(name, region, _HELD) for name, region in _REGIONS]
    fences += [(name, (ArgumentTest(index, MSG_FASTOPEN, MSG_FASTOPEN),), no) for name, index in _SENDING]
    for name, region, action in fences:
        number = policy.architecture.syscalls.get(name)
        if number is not None and number in rules:
            rule = CompiledRule(name, number, region, action, ORIGIN_SHARED, _REASON)
            rules[number] = reachable((rule, *rules[number]))
    return replace(policy, rules=rules)
