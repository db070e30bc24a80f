"""What one listing of what cells changed may take, and what it did not see."""

from __future__ import annotations

from sentinel_kernel.record import MutableRecord, fresh
from sentinel_kernel.workspace.launching import Looks

TYPE_CHECKING = False
if TYPE_CHECKING:
    from sentinel_kernel.workspace.giving_up import Settled
    from sentinel_kernel.workspace.tracked import Path

_MOST_MISSED = 100
"""Their paths may be as long as the Linux kernel allows, and are written down: beyond it, it is the layer."""


class Bounds(MutableRecord):
    """What one listing may take, and what lay beyond it."""

    entries: int = 1_000_000
    """Files and folders that are looked at."""
    compared_bytes: int = 1 << 30
    """Read of files that are as long as the host's: to tell whether they differ at all."""
    looks: Looks = fresh(default_factory=Looks)
    """Into new files, for ``autocommit`` and ``waits``."""
    left_out: int = 0
    """How many were not looked at: beyond these bounds, or too deep."""
    unreadable: int = 0
    """How many folders could not be entered."""
    settled: list[tuple[str, Settled]] = fresh(default_factory=list)
    """Layer and path of what is no change and still in the upper layer: to be given up (giving_up.py)."""
    missed: set[Path] = fresh(default_factory=set)
    """Where nobody could see what is held: there, and below it; the path "" is all of a layer."""

    def leave_out(self, layer: str, path: str = "") -> None:
        """Count what was not looked at."""
        self.left_out += 1
        self._miss(layer, path)

    def could_not_read(self, layer: str, path: str, error: OSError) -> None:
        """Count what could not be read."""
        self.unreadable += 1
        if not isinstance(error, FileNotFoundError):  # else it is gone
            self._miss(layer, path)

    def _miss(self, layer: str, path: str) -> None:
        self.missed.add((layer, path if len(self.missed) < _MOST_MISSED else ""))
