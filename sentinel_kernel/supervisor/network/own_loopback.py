"""Connections to 127.0.0.1 that nobody inside answers, while a server of the host listens there, outside the sandbox.

That the loopback is the sandbox's own is the reason for certain only then; where nobody listens on the host either, the
program has made a mistake of its own.
"""

from __future__ import annotations

import contextlib
import errno
import time

from sentinel_kernel.policy.occurrence import make_occurrence
from sentinel_kernel.policy.sockaddr import LOOPBACK, read_address
from sentinel_kernel.record import replace
from sentinel_kernel.supervisor.ledger import stamp

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from sentinel_kernel.policy.violation import Violation
    from sentinel_kernel.supervisor.current import Current

_FRESH_SECONDS = 2.0
_LISTENS = b"0A"  # TCP_LISTEN of <net/tcp_states.h>
_MOST_BYTES = 1 << 20
"""Those that listen come first in the lists of proc_pid_net(5)."""

_ANYBODY, _MAPPED = ("0" * 8, "0" * 32), "0" * 16 + "FFFF0000"


def meant_for_host(current: Current) -> Violation | None:
    """Return the violation for the cell's last connection, if a server of the host listens where it was refused.

    Likely only, where it was some time ago or not the only one.
    """
    if current.preparation.plan.lists is not None:
        return None  # of the landlock rung: the loopback is the host's
    found = [
        (at, address.numeric)
        for at, request in current.handler.addressed
        for data in request.copied.values()
        if (address := read_address(data)).reach == LOOPBACK
    ]
    if not found:
        return None
    at, numeric = found[-1]
    ports = [int(one.rpartition(":")[2]) for _, one in found]
    if not _listens_outside(ports[-1]):
        return None
    sure = len(set(ports)) == 1 and time.monotonic() - at <= _FRESH_SECONDS
    made = make_occurrence(
        "network_unreachable",
        rule="the sandbox's own loopback",
        errno=errno.ECONNREFUSED,
        subject=("address", numeric),
        **stamp(current),
    )
    return replace(
        made,
        values={**made.values, "does": "loopback", "address": numeric},
        confidence="certain" if sure else "likely",
    )


def _listens_outside(port: int) -> bool:
    """Tell whether somebody listens on ``port`` of the host's own loopback, or of all its addresses."""
    for path in ("/proc/self/net/tcp", "/proc/self/net/tcp6"):
        for address, number in _listening(path):
            loopback = address == "0" * 24 + "01000000" or address.removeprefix(_MAPPED)[6:8] == "7F"
            if number == port and (address in _ANYBODY or loopback):
                return True
    return False


def _listening(path: str) -> Iterator[tuple[str, int]]:
    """Yield (address as Linux writes it, port) of the sockets that listen."""
    with contextlib.suppress(OSError, ValueError), open(path, "rb") as file:
        for line in file.read(_MOST_BYTES).splitlines()[1:]:
            fields = line.split()
            if len(fields) < 4 or fields[3] != _LISTENS:
                return
            address, _, number = fields[1].decode().partition(":")
            yield address, int(number, 16)
