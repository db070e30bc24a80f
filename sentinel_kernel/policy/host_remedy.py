"""What helps against the refusal of a host: the command that asks the person to allow it, for this session."""

from __future__ import annotations

from sentinel_kernel.policy.network import LOOPBACK, METADATA, MULTICAST, HostRule, kind_of, parse_rule
from sentinel_kernel.policy.violation import Remedy, Text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from sentinel_kernel.policy.leeway import Leeway
    from sentinel_kernel.policy.violation import Violation

_LONGEST = 100

ALLOW = Text(
    "You are asked before anything is sent. It holds for this session; the variables stay.",
    "在发送任何内容之前会先询问您。仅对本次会话有效；变量会保留。",
)

PRIVATE = "private"
REQUEST = "request"
CLOSED = "closed"
"""Kinds of refusal besides a host that is not listed, in a violation's ``values["does"]``: an address that is not
public, a request that no rule of HTTP passes on, what no rule can open (loopback)."""


def allowing(violation: Violation, leeway: Leeway) -> tuple[Remedy, ...]:
    """Return the command, where one helps: of the sandbox's own words only a name or address that was read strictly."""
    kind = violation.values.get("does", "")
    if leeway.locked or leeway.lab or kind in (REQUEST, CLOSED):
        return ()
    text = violation.values.get("address", "") if kind == PRIVATE else violation.values.get("host", "")
    rule = _rule(text, violation.values.get("port", ""))
    if rule is not None and rule.network and kind_of(rule.network) in (LOOPBACK, METADATA, MULTICAST):
        return ()
    return () if rule is None else (Remedy("magic", f"%sentinel_allow {rule.text}", ALLOW),)


def _rule(host: str, port: str) -> HostRule | None:
    if not 0 < len(host) <= _LONGEST or "/" in host or "*" in host:
        return None
    shown = f"[{host}]" if ":" in host and port else host
    try:
        return parse_rule(f"{shown}:{port}" if port else shown)
    except ValueError:
        return None
