"""What helps against the refusal of a host: the command that asks the person to allow it, for this session."""

from __future__ import annotations

from sentinel_kernel.policy.compare import compiled, lets_through
from sentinel_kernel.policy.network import LOOPBACK, METADATA, MULTICAST, HostRule, kind_of, parse_rule
from sentinel_kernel.policy.switch_order import in_place_first, switch_line
from sentinel_kernel.policy.violation import Remedy, Text
from sentinel_kernel.record import replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from sentinel_kernel.policy.compiled import CompiledPolicy
    from sentinel_kernel.policy.leeway import Leeway
    from sentinel_kernel.policy.violation import Violation

_LONGEST = 100
_AF_INET, _AF_INET6, _SOCK_STREAM = 2, 10, 1

ALLOW = Text(
    "You are asked before anything is sent. It holds for this session; the variables stay.",
    "在发送任何内容之前会先询问您。仅对本次会话有效；变量会保留。",
)

ALLOW_AFRESH = Text(
    "You are asked before anything is sent. It holds for this session; it takes a fresh sandbox, and you choose what "
    "becomes of the variables.",
    "在发送任何内容之前会先询问您。仅对本次会话有效；这需要全新的沙箱，您可以选择如何处理变量。",
)

PRIVATE = "private"
REQUEST = "request"
CLOSED = "closed"
FULL, UNWATCHED, UNRESOLVED, LOST_PROXY = "full", "unwatched", "outside", "proxy"
"""Kinds of refusal besides a host that is not listed, in a violation's ``values["does"]``: an address that is not
public, a request that no rule of HTTP passes on, what no rule can open (loopback); and three of a host that is
allowed: two of policy/network.py, that its name could not be looked up, and
that the proxy on the way there is gone."""


DATAGRAM = "datagram"
"""In ``values["socket"]``: what is sent by such a one reaches no host, listed or not."""


def allowing(violation: Violation, leeway: Leeway) -> tuple[Remedy, ...]:
    """Return the command, where one helps: of the sandbox's own words only a name or address that was read strictly."""
    kind = violation.values.get("does", "")
    if not leeway.asks or leeway.locked or leeway.lab or kind in (REQUEST, CLOSED, FULL, UNWATCHED):
        return ()
    text = violation.values.get("address", "") if kind == PRIVATE else violation.values.get("host", "")
    rule = _rule(text, violation.values.get("port", ""))
    if rule is not None and rule.network and kind_of(rule.network) in (LOOPBACK, METADATA, MULTICAST):
        return ()
    return () if rule is None else (Remedy("magic", f"%sentinel_allow {rule.text}", ALLOW),)


def allowing_afresh(violation: Violation, leeway: Leeway) -> tuple[Remedy, ...]:
    """Return the command for a sandbox without a way out, where one helps: it can have sockets, and what is a host."""
    subject = violation.subject
    if not asks_for_hosts(violation.profile, leeway) or violation.values.get("does") == UNRESOLVED:
        return ()
    if violation.values.get("socket") == DATAGRAM:
        return ()
    if violation.cause == "name_lookup":
        name = subject.text if subject is not None else ""
        inside = ":" in name or name.rstrip(".").lower().endswith("localhost")
        rule = None if inside else _rule(name, "")
    else:
        host, _, port = violation.values.get("address", "").rpartition(":")
        rule = _rule(host.strip("[]"), port)
    if rule is None or (rule.network and kind_of(rule.network) in (LOOPBACK, METADATA, MULTICAST)):
        return ()
    return (Remedy("magic", f"%sentinel_allow {rule.text}", ALLOW_AFRESH),)


def allowing_elsewhere(
    violation: Violation, code: str | None, leeway: Leeway, machine: str
) -> tuple[Remedy, ...]:
    """Return the cell with both commands, where the profile gives no sockets and one that a cell may change to does.

    It is the one of them that gives least, of those that keep the variables if one of them does.
    """
    if not code or asks_for_hosts(violation.profile, leeway) or violation.values.get("does") == UNRESOLVED:
        return ()
    for profile in in_place_first(violation, leeway, machine):
        # One that asks about the socket itself takes a second answer: no host is reached by the first.
        if not _opens_sockets(compiled(profile, machine, leeway.rung)):
            continue
        for allowed in allowing_afresh(replace(violation, profile=profile.name), leeway):
            lines = switch_line(profile, violation, leeway), allowed.text
            text = "Put two lines on top of the cell: `{}` and below it `{}`".format(*lines)
            return (Remedy("code", text, ALLOW_AFRESH, "\n".join((*lines, code))),)
    return ()


def asks_for_hosts(profile: str, leeway: Leeway) -> bool:
    """Tell whether the person can allow a sandbox of ``profile`` a host."""
    current = leeway.profile(profile)
    return leeway.asks and not (leeway.locked or leeway.lab) and current is not None and current.network.allow


def _opens_sockets(policy: CompiledPolicy) -> bool:
    socket = policy.architecture.syscalls["socket"]
    return any(
        lets_through(policy, socket, (family, _SOCK_STREAM, 0, 0, 0, 0)) for family in (_AF_INET, _AF_INET6)
    )


def _rule(host: str, port: str) -> HostRule | None:
    if not 0 < len(host) <= _LONGEST or "/" in host or "*" in host:
        return None
    shown = f"[{host}]" if ":" in host and port else host
    try:
        return parse_rule(f"{shown}:{port}" if port else shown)
    except ValueError:
        return None
