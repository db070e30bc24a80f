"""Looks at the places that settings name, beside the loop: a disk may never answer, and an import takes its time."""

from __future__ import annotations

import os
import threading
from collections import deque
from typing import TYPE_CHECKING

from sentinel_kernel.kernel import words
from sentinel_kernel.kernel.log import log
from sentinel_kernel.kernel.unusable_settings import names_places

if TYPE_CHECKING:
    from sentinel_kernel.kernel.host import Host
    from sentinel_kernel.kernel.words import Words


def look_at_places(host: Host) -> None:
    """Have those that can't be used told by the cell that runs when it is found out, else by the next one.

    And by the log: a run of a few quick cells may be over before.
    """
    if not names_places(os.environ):
        return
    reader, writer = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    found: deque[Words] = deque()

    def look() -> None:
        try:
            for told in words.about_places():
                log(told.message("en"))
                found.append(told)
                os.write(writer, b".")
        finally:
            os.close(writer)

    def woken(_events: int) -> None:
        over = not os.read(reader, 64)
        while found:
            host.displays.waiting.append(found.popleft())
        cell = host.execution.newest()
        if cell is not None and host.execution.running:
            host.displays.show_waiting(cell)
        if over:
            host.loop.forget(reader)
            os.close(reader)

    host.loop.watch(reader, woken)
    # Nobody waits for it, at the end either: the process is gone with the loop (__main__.py).
    threading.Thread(target=look, name="places of settings", daemon=True).start()
