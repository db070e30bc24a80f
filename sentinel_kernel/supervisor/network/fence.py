"""Whether a sandbox is made for a way out, and what boot has to prepare then."""

from __future__ import annotations

from sentinel_kernel.errors import UnsupportedHost
from sentinel_kernel.linux import landlock
from sentinel_kernel.record import replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from sentinel_kernel.policy.plan import BootPlan
    from sentinel_kernel.policy.profile import Profile

_LANDLOCK_ABI = 4
"""The first that keeps programs from connecting and binding (Linux 6.7)."""

_STUB = (("dns-udp", "udp", "127.0.0.1", 53), ("dns-tcp", "tcp", "127.0.0.1", 53))


def with_way_out(plan: BootPlan, profile: Profile, reachable: Sequence[Profile]) -> BootPlan:
    """Return ``plan``, fenced and with a name server inside where hosts may be reached, at its start or later.

    Raises:
        UnsupportedHost: ``profile`` lists hosts, and this Linux kernel can't keep the sandbox from all others.

    """
    if not any(one.network.leads_out for one in (profile, *reachable)):
        return plan
    try:
        abi = landlock.abi_version()
    except OSError:
        abi = 0
    if abi < _LANDLOCK_ABI:
        if profile.network.leads_out:
            raise UnsupportedHost(
                f"The profile '{profile.name}' lists hosts, and this machine can't keep the sandbox from all others: "
                "Landlock with rules about the network is missing.",
                "Use Linux 6.7 or newer with Landlock (boot parameter lsm=landlock,...), or the profile datascience.",
            )
        return plan
    return replace(plan, fenced=True, sockets=(*plan.sockets, *_STUB))
