"""Connections outside that the Linux kernel itself refused: where calls to connect are allowed, nobody has seen them.

A sandbox's network has its own loopback and nothing else, so that ENETUNREACH (connect(2)) is the sandbox's doing. Not
where there is a way out, which streams alone take and whose answer may be the network's outside, nor on the landlock
rung, with the host's network.
"""

from __future__ import annotations

import contextlib
import errno
import socket

from sentinel_kernel.policy import failure_report
from sentinel_kernel.policy.host_remedy import DATAGRAM
from sentinel_kernel.policy.occurrence import make_occurrence
from sentinel_kernel.record import replace
from sentinel_kernel.supervisor.ledger import stamp

TYPE_CHECKING = False
if TYPE_CHECKING:
    from sentinel_kernel.policy.failure_report import Entry
    from sentinel_kernel.policy.violation import Violation
    from sentinel_kernel.supervisor.current import Current

_PORT_DIGITS = 5


def no_way_to(current: Current, entry: Entry) -> Violation | None:
    """Return the violation for an error ENETUNREACH; the address is the program's word, if it is one."""
    datagrams = entry.site == failure_report.DATAGRAM
    leads_out = current.handler.way_out is not None and not datagrams
    if leads_out or current.preparation.plan.lists is not None:
        return None
    address = numeric(entry.host or "")
    made = make_occurrence(
        "network_unreachable",
        rule="the sandbox's own network",
        errno=errno.ENETUNREACH,
        subject=("address", address) if address else None,
        **stamp(current),
    )
    values = {**({"address": address} if address else {}), **({"socket": DATAGRAM} if datagrams else {})}
    return replace(made, values={**made.values, **values})


def numeric(text: str) -> str:
    """Return ``ADDRESS:PORT`` as it is usually written; empty where the text is none."""
    host, _, port = text.rpartition(":")
    if not (port.isascii() and port.isdecimal() and len(port) <= _PORT_DIGITS and int(port) <= 0xFFFF):
        return ""
    for family in (socket.AF_INET, socket.AF_INET6):
        with contextlib.suppress(OSError, ValueError):
            plain = host.removeprefix("[").removesuffix("]") if family == socket.AF_INET6 else host
            found = socket.inet_ntop(family, socket.inet_pton(family, plain))
            return f"[{found}]:{int(port)}" if family == socket.AF_INET6 else f"{found}:{int(port)}"
    return ""
