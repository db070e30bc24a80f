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

SOL_IP, SOL_SOCKET, SOL_TCP, SOL_IPV6 = 0, 1, 6, 41  # <linux/socket.h>
_TCP_FASTOPEN_CONNECT, _TCP_ULP = 30, 31
REFUSED_OPTIONS: Final = {
    (SOL_IP, 4): errno.EPERM,  # IP_OPTIONS: source routes lead packets of a connection to other hosts
    (SOL_IPV6, 57): errno.EPERM,  # IPV6_RTHDR: as above
    (SOL_IPV6, 5): errno.EPERM,  # IPV6_2292RTHDR
    (SOL_IPV6, 6): errno.EPERM,  # IPV6_2292PKTOPTIONS
    (SOL_TCP, _TCP_FASTOPEN_CONNECT): errno.EOPNOTSUPP,  # connects at the first write
    (
        SOL_TCP,
        _TCP_ULP,
    ): errno.EOPNOTSUPP,  # another protocol on top, which the Linux kernel would load code for
}
"""Level and name of options (setsockopt(2)) -> what is answered where one is set."""

HARMLESS_OPTIONS: Final = {
    # IP_TOS, TTL, HDRINCL, RECVOPTS to PKTINFO, MTU_DISCOVER to FREEBIND, PASSSEC, RECVORIGDSTADDR to RECVERR_RFC4884,
    # MULTICAST_IF to DROP_MEMBERSHIP (which no TCP socket takes), MULTICAST_ALL, LOCAL_PORT_RANGE
    SOL_IP: frozenset((1, 2, 3, *range(6, 9), *range(10, 16), 18, *range(20, 27), *range(32, 37), 49, 51)),
    # IPV6_2292PKTINFO to 2292DSTOPTS, CHECKSUM, 2292HOPLIMIT, FLOWINFO, UNICAST_HOPS to LEAVE_GROUP, MTU_DISCOVER to
    # V6ONLY, MULTICAST_ALL, RECVERR_RFC4884, FLOWINFO_SEND, RECVPKTINFO, RECVHOPLIMIT, RECVHOPOPTS, RECVRTHDR,
    # RECVDSTOPTS, RECVPATHMTU, DONTFRAG, RECVTCLASS, TCLASS, AUTOFLOWLABEL, ADDR_PREFERENCES to ORIGDSTADDR,
    # RECVFRAGSIZE, FREEBIND
    SOL_IPV6: frozenset(
        (
            2,
            3,
            4,
            7,
            8,
            11,
            *range(16, 22),
            *range(23, 27),
            29,
            31,
            33,
            49,
            51,
            53,
            56,
            58,
            60,
            62,
            66,
            67,
            70,
        )
    )
    | frozenset((72, 73, 74, 77, 78)),
}
"""Of these levels no other option is set: one may join groups of the network outside (MCAST_JOIN_GROUP, which a socket
of TCP takes as well), or lead packets through another device."""


def answer_to_option(level: int, name: int) -> int:
    """Return the errno of setting an option of a socket; 0 where it may be set."""
    refused = REFUSED_OPTIONS.get((level, name))
    if refused is not None:
        return refused
    harmless = HARMLESS_OPTIONS.get(level)
    return errno.ENOPROTOOPT if harmless is not None and name not in harmless else 0


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
    ("setsockopt", (ArgumentTest(_LEVEL, 0xFF, SOL_TCP), ArgumentTest(_NAME, 0x1E, _TCP_FASTOPEN_CONNECT))),
    ("ioctl", (ArgumentTest(1, 0xFF00, _OF_DEVICES),)),
)
HELD_CALLS: Final = frozenset(name for name, _ in _REGIONS)
"""Calls that the supervisor answers itself."""

_REFUSED: Final[tuple[tuple[str, Region, int], ...]] = (
    # SO_BINDTODEVICE and SO_BINDTOIFINDEX: the devices are those of the network outside, for a socket from there.
    ("setsockopt", (ArgumentTest(_LEVEL, 0xFF, SOL_SOCKET), ArgumentTest(_NAME, 0xFF, 25)), errno.EPERM),
    ("setsockopt", (ArgumentTest(_LEVEL, 0xFF, SOL_SOCKET), ArgumentTest(_NAME, 0xFF, 62)), errno.EPERM),
)
"""Calls that the filter refuses by itself."""

_SENDING: Final = (("sendto", 3), ("sendmsg", 2), ("sendmmsg", 3))
"""Calls, and which argument holds their flags."""


def fenced_policy(policy: CompiledPolicy) -> CompiledPolicy:
    """Return the policy of a filter for a sandbox that may reach hosts."""
    rules = dict(policy.rules)
    no = Action(ActionKind.ERRNO, errno.EOPNOTSUPP)
    fences = [(name, region, _HELD) for name, region in _REGIONS]
    fences += [(name, region, Action(ActionKind.ERRNO, number)) for name, region, number in _REFUSED]
    fences += [(name, (ArgumentTest(index, MSG_FASTOPEN, MSG_FASTOPEN),), no) for name, index in _SENDING]
    for name, region, action in fences:
        number = policy.architecture.syscalls.get(name)
        if number is not None and number in rules:
            rule = CompiledRule(name, number, region, action, ORIGIN_SHARED, _REASON)
            rules[number] = reachable((rule, *rules[number]))
    return replace(policy, rules=rules)
