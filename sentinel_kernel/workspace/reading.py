"""Opens one file for a person to see or fetch: the cell's version, or the host's."""

from __future__ import annotations

import errno
import os

from sentinel_kernel.workspace.layer import folder_of, open_plain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from sentinel_kernel.workspace.layer import Layer

_CHUNK_BYTES = 1 << 20


def open_version(layer: Layer, path: str, *, before: bool) -> tuple[int, int, int]:
    """Return (descriptor, size, mtime_ns) of the cell's file, or of the host's (``before``); regular files alone.

    The cell's is what cells see: where it was not changed, the host's.

    Raises:
        OSError: ENOENT where there is none, EINVAL where it is no regular file, else as open(2).

    """
    with folder_of(layer.lower if before else layer.merged, path) as (folder, name):
        descriptor, status = open_plain(folder, name)
    return descriptor, status.st_size, status.st_mtime_ns


def head(layer: Layer, path: str, most: int, *, before: bool) -> bytes | None:
    """Return the first ``most`` bytes of a version; None where there is none. Raises OSError as above."""
    try:
        descriptor, _, _ = open_version(layer, path, before=before)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENOTDIR):
            return None
        raise
    try:
        parts: list[bytes] = []
        while most > 0:
            chunk = os.read(descriptor, min(most, _CHUNK_BYTES))
            if not chunk:
                break
            parts.append(chunk)
            most -= len(chunk)
        return b"".join(parts)
    finally:
        os.close(descriptor)
