"""What became of a host that no call was refused for: nobody knows it, it is meant outside, or no way leads there."""

from __future__ import annotations

import errno

from sentinel_kernel.policy.attribution import is_of_call
from sentinel_kernel.policy.failure_report import STANDARD

TYPE_CHECKING = False
if TYPE_CHECKING:
    from sentinel_kernel.policy.failure_report import Entry
    from sentinel_kernel.policy.violation import Violation
    from sentinel_kernel.supervisor.current import Current


def elsewhere(current: Current, entry: Entry) -> Violation | None:
    """Return the violation for an error that the Linux kernel, or a name server, gave for where a program went."""
    if entry.base == "gaierror" and current.handler.way_out is not None:
        from sentinel_kernel.supervisor.network.unresolved import unresolved_host  # noqa: PLC0415 - few look names up

        return unresolved_host(current, entry)
    if entry.errno == errno.ECONNREFUSED and is_of_call(entry):
        from sentinel_kernel.supervisor.network.own_loopback import meant_for_host  # noqa: PLC0415 - few connect

        return meant_for_host(current)
    if entry.errno == errno.ENETUNREACH and (is_of_call(entry) or entry.by == STANDARD):
        from sentinel_kernel.supervisor.network.no_way import no_way_to  # noqa: PLC0415 - few connect

        return no_way_to(current, entry)
    return None
