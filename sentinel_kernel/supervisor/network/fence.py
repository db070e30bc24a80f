"""Whether a sandbox is made for a way out, and what boot has to prepare then."""

from __future__ import annotations

from sentinel_kernel.errors import UnsupportedHost
from sentinel_kernel.linux import landlock
from sentinel_kernel.record import replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from sentinel_kernel.policy.plan import BootPlan

_LANDLOCK_ABI = 4
"""The first that keeps programs from connecting and binding (Linux 6.7)."""

_STUB = (("dns-udp", "udp", "127.0.0.1", 53), ("dns-tcp", "tcp", "127.0.0.1", 53))


def is_possible() -> bool:
    """Tell whether this Linux kernel can keep a sandbox from all hosts but those that are let out to it."""
    try:
        return landlock.abi_version() >= _LANDLOCK_ABI
    except OSError:
        return False


def with_way_out(plan: BootPlan, profile: str, *, needed: bool) -> BootPlan:
    """Return ``plan``, fenced and with a name server inside: hosts may be reached, at its start or later.

    Raises:
        UnsupportedHost: it is ``needed`` at the start, and this Linux kernel can't keep the sandbox from other hosts.

    """
    if not is_possible():
        if needed:
            raise UnsupportedHost(
                f"Hosts are to be reached under the profile '{profile}', and this machine can't keep the sandbox from "
                "all others: Landlock with rules about the network is missing.",
                "Use Linux 6.7 or newer with Landlock (boot parameter lsm=landlock,...), or the profile datascience.",
            )
        return plan
    return replace(plan, fenced=True, sockets=(*plan.sockets, *_STUB))
