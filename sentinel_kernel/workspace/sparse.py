"""Copies a file's content from one descriptor to another; holes stay holes."""

from __future__ import annotations

import os

_CHUNK_BYTES = 1 << 20


def copy_content(reader: int, writer: int, size: int) -> None:
    """Write ``size`` bytes of ``reader`` to the empty file ``writer``. Raises OSError."""
    position = 0
    while position < size:
        try:
            start = os.lseek(reader, position, os.SEEK_DATA)
        except OSError:
            break  # ENXIO: only a hole is left
        chunk = os.pread(reader, _CHUNK_BYTES, start)
        if not chunk:
            break
        position = start
        view = memoryview(chunk)
        while view:
            written = os.pwrite(writer, view, position)
            view, position = view[written:], position + written
    os.ftruncate(writer, size)
