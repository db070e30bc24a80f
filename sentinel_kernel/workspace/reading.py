"""Opens one file for a person to see or fetch: the cell's version, or the host's."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from sentinel_kernel.workspace.layer import Layer


def open_version(layer: Layer, path: str, *, before: bool) -> tuple[int, int, int]:
    """Return (descriptor, size, mtime_ns) of the cell's file, or of the host's (``before``); regular files alone.

    The cell's is what cells see: where it was not changed, the host's.

    Raises:
        OSError: ENOENT where there is none, EINVAL where it is no regular file, else as open(2).

    """
    raise NotImplementedError


def head(layer: Layer, path: str, most: int, *, before: bool) -> bytes | None:
    """Return the first ``most`` bytes of a version; None where there is none. Raises OSError as above."""
    raise NotImplementedError
