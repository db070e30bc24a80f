"""A file in memory whose size nobody can change any more, to be shared with who is not trusted (memfd_create(2))."""

from __future__ import annotations

import fcntl
import os

_SEALS = fcntl.F_SEAL_SEAL | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW


def sealed_memory(name: str, size: int) -> int:
    """Return the descriptor of a file of ``size`` bytes, all zero; the caller closes it.

    Raises:
        OSError: there are too many files, or too little memory.

    """
    descriptor = os.memfd_create(name, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        os.ftruncate(descriptor, size)
        fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, _SEALS)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor
