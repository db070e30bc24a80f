"""Ends a process that a cell has forked once it leaves the cell's code: it must not become a second kernel.

It has the kernel's sockets and wake-up descriptors. In the kernel's loop it would take messages from the kernel itself,
which then waits for ever.
"""

from __future__ import annotations

import os
import sys
import traceback
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import TracebackType


def end_if_forked(
    own_pid: int, error: BaseException | None = None, trace: TracebackType | None = None
) -> None:
    """Return in the process ``own_pid``; end any other as a script's child would end, with its error told."""
    if os.getpid() == own_pid:
        return
    status = 0
    try:
        if isinstance(error, SystemExit):
            status = error.code if isinstance(error.code, int) else int(error.code is not None)
        elif error is not None:
            status = 1
            traceback.print_exception(type(error), error, trace or error.__traceback__, file=sys.__stderr__)
        for stream in (sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__):
            if stream is not None:
                stream.flush()
    finally:
        os._exit(status & 0xFF)
