"""Names that may be reached and that nobody outside could look up: the program's error says so, and whose it is not."""

from __future__ import annotations

from sentinel_kernel.policy.network import host_name
from sentinel_kernel.policy.occurrence import make_occurrence
from sentinel_kernel.record import replace
from sentinel_kernel.supervisor.ledger import stamp

TYPE_CHECKING = False
if TYPE_CHECKING:
    from sentinel_kernel.policy.failure_report import Entry
    from sentinel_kernel.policy.violation import Violation
    from sentinel_kernel.supervisor.current import Current

_FRESH_SECONDS = 60.0


def unresolved_host(current: Current, entry: Entry) -> Violation | None:
    """Return the violation for a failed look-up of an allowed host that the name server inside passed on in vain."""
    way_out = current.handler.way_out
    if way_out is None or entry.base != "gaierror" or not entry.host:
        return None
    name = host_name(entry.host)
    if not name or not way_out.told.was_unknown(name, _FRESH_SECONDS):
        return None
    made = make_occurrence(
        "name_lookup",
        rule="no name server outside knows it",
        subject=("host", name),
        **stamp(current),
    )
    return replace(made, values={**made.values, "does": "outside", "host": name})
