"""Changes what cells see through the overlay itself: a file put there, removed, or the host's brought back."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from sentinel_kernel.workspace.change import Change
    from sentinel_kernel.workspace.layer import Layer


def discard(layer: Layer, change: Change) -> None:
    """Make cells see the host's file again, or none where it has none; what they wrote there is gone.

    Raises:
        OSError: it could not be done; what they see is the old or the new.

    """
    raise NotImplementedError


def put(layer: Layer, path: str, source: int, mode: int, mtime_ns: int) -> None:
    """Make cells see the content of the open file ``source`` at ``path``, in one step; folders are made as needed.

    Raises:
        OSError: it could not be done; what they see is the old or the new.

    """
    raise NotImplementedError


def remove(layer: Layer, path: str) -> None:
    """Remove a file, or an empty folder, from what cells see. Raises OSError (none where it is gone already)."""
    raise NotImplementedError


def make_folder(layer: Layer, path: str) -> None:
    """Make a folder, and those above it, in what cells see. Raises OSError."""
    raise NotImplementedError
