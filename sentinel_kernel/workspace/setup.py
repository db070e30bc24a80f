"""What a files process has to know of its sandbox besides the folders' descriptors."""

from __future__ import annotations

from sentinel_kernel.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from sentinel_kernel.policy.committable import Surroundings
    from sentinel_kernel.workspace.store import StoreSettings


class FilesSetup(Record):
    """Settings and surroundings; made by the supervisor."""

    kernel: str
    """Stays the same when the server restarts this kernel: who is told of what was saved."""
    store: StoreSettings
    surroundings: Surroundings
    writer: tuple[int, int] | None = None
    """Started by root: who the sandbox runs as, in the host's numbers."""
    pidfd: int = -1
    """Of the sandbox's first process: readable when nobody writes any more; -1: nobody does."""
    stamp: int = 0
    """Of the undo journal, as it was told last: one that is older on the disk says nothing."""
