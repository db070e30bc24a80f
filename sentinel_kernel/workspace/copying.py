"""Copies the data of one file and leaves its holes holes; tells what a copy will take."""

from __future__ import annotations

import errno
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

_CHUNK_BYTES = 16 << 20
"""One call's; between calls a lease that somebody waits for is given back."""
_PLAIN_BYTES = 1 << 20


def copy_data(reader: int, writer: int, size: int, between: Callable[[], object] = lambda: None) -> None:
    """Copy ``size`` bytes from the start of a file into an empty one, both just opened; a hole there is one here.

    The data goes from file to file within the Linux kernel (sendfile(2)), where their file systems can do that.
    Shorter where the file became shorter meanwhile: ``size`` is the copy's length all the same.

    Raises:
        OSError: it can't be read or written (ENOSPC, EFBIG ...).

    """
    if os.fstat(reader).st_blocks * 512 >= size:
        # No holes to look for: most files.
        if _copy_stretch(reader, writer, 0, size, between) < size:
            os.ftruncate(writer, size)
        return
    position = 0
    while position < size:
        try:
            start = os.lseek(reader, position, os.SEEK_DATA)
            end = min(os.lseek(reader, start, os.SEEK_HOLE), size)
        except OSError as error:
            if error.errno == errno.ENXIO:
                break  # only a hole is left
            if error.errno != errno.EINVAL:
                raise
            start, end = position, size  # a file system that does not tell
        if start >= size:
            break
        os.lseek(reader, start, os.SEEK_SET)
        os.lseek(writer, start, os.SEEK_SET)
        position = _copy_stretch(reader, writer, start, end, between)
        if position < end:
            break
    os.ftruncate(writer, size)


def _copy_stretch(reader: int, writer: int, start: int, end: int, between: Callable[[], object]) -> int:
    position = start
    within_kernel = True
    while position < end:
        if within_kernel:
            try:
                count = os.sendfile(writer, reader, None, min(_CHUNK_BYTES, end - position))
            except OSError as error:
                if error.errno not in (errno.EINVAL, errno.ENOSYS):
                    raise
                within_kernel = False
                continue
        else:
            view = memoryview(os.read(reader, min(_PLAIN_BYTES, end - position)))
            count = len(view)
            while view:
                view = view[os.write(writer, view) :]
        if not count:
            break
        position += count
        between()
    return position


def keeps_holes(folder: int) -> bool:
    """Tell whether the file system of ``folder`` stores holes as holes (vfat, say, does not)."""
    try:
        probe = os.open(".", os.O_TMPFILE | os.O_WRONLY | os.O_CLOEXEC, 0o600, dir_fd=folder)
    except OSError:
        return False  # such a file system is none that keeps them, or too old to tell
    try:
        os.ftruncate(probe, _PLAIN_BYTES)
        os.fsync(probe)
        return os.fstat(probe).st_blocks * 512 < _PLAIN_BYTES
    except OSError:
        return False
    finally:
        os.close(probe)
