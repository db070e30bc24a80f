"""Lists what cells changed, one by one and within bounds, by walking the upper folder beside the host's."""

from __future__ import annotations

from sentinel_kernel.record import MutableRecord

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from sentinel_kernel.policy.committable import Surroundings
    from sentinel_kernel.workspace.change import Change
    from sentinel_kernel.workspace.layer import Layer


class Bounds(MutableRecord):
    """What one listing may take, and what lay beyond it."""

    entries: int = 1_000_000
    """Files and folders that are looked at."""
    compared_bytes: int = 1 << 30
    """Read of files whose size and time equal the host's: to tell whether they differ at all."""
    left_out: int = 0
    """How many were not looked at: beyond these bounds, or too deep."""
    unreadable: int = 0
    """How many folders could not be entered."""


def changes(layer: Layer, surroundings: Surroundings, bounds: Bounds | None = None) -> Iterator[Change]:
    """Yield the changes of ``layer``, folders before what is in them; nothing is held in memory but one path's folders.

    A folder is told of where it is new (also if something is in it), replaced or gone. Of a folder that is gone
    only itself is told. A file that equals the host's is no change.

    Cells may run meanwhile: what is told was so at some moment of the walk. Nothing is raised for what they do.
    """
    raise NotImplementedError
