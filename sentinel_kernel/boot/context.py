"""What the boot steps work on: the plan, and the descriptors that the supervisor hands to the child."""

from __future__ import annotations

from sentinel_kernel.record import MutableRecord, fresh

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    from collections.abc import Mapping

    from sentinel_kernel.policy.plan import BootPlan


class BootContext(MutableRecord):
    """State of one boot; lives in the child only.

    ``trees`` maps a mount's target to a detached mount of its source, made by a root supervisor with the owner's
    id mapped. ``root_device`` is the device number of the new root, noted when it is made.
    """

    plan: BootPlan
    report: socket.socket
    """SEQPACKET to the supervisor: failures, then the descriptors; closed by exec."""
    control: int
    """Becomes fd 3 of the payload."""
    error_output: int
    """Becomes fd 2 of the payload."""
    liveness: int
    """Read end of a pipe that only the supervisor writes: end of file means that it is gone."""
    trees: Mapping[str, int] = fresh(default_factory=dict)
    root_device: int = -1
    nice: int = 0
    """What the sandbox's session is to weigh (autogroup, sched(7))."""
    filter_program: bytes = b""
    listener: int = -1
    workspace_upper: int = -1
    workspace_context: int = -1
    layers: list[tuple[str, int]] = fresh(default_factory=list)
    """What work on held folders needs: ``upper:NAME``, ``merged:NAME``, ``context:NAME``, ``history``, ``parked``."""
    sized: list[tuple[str, int]] = fresh(default_factory=list)
    """Contexts (fspick(2)) of the file systems in memory whose size is the profile's, by the name of that size."""
    sockets: list[tuple[str, int]] = fresh(default_factory=list)
    """What the plan has bound inside for the supervisor to serve, as ``socket:NAME``."""
    shown: list[tuple[str, int]] = fresh(default_factory=list)
    """Files that stand for the machine's own inside, open for the supervisor to write, by name."""
