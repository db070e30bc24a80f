"""What ends the host kernel from outside: signals, and the end of the process that started it."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import FrameType

    from sentinel_kernel.kernel.host import Host

UNHEARD_SECONDS = 60.0
"""A kernel whose parent is not there ends after that, unless anybody has asked it for anything."""


def watch_ends(host: Host) -> None:
    """Watch for both, from the host's loop."""
    _watch_signals(host)
    _watch_parent(host)


def _watch_signals(host: Host) -> None:
    """Take SIGINT as an interrupt (some clients know no other), SIGTERM and SIGHUP as the end."""
    reader, writer = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    arrived: set[int] = set()

    def noted(number: int, _frame: FrameType | None) -> None:
        arrived.add(number)
        host.loop.before_next = act

    def act() -> None:
        numbers = set(arrived)
        arrived.difference_update(numbers)
        if numbers - {signal.SIGINT}:
            host.lifecycle.stop()
        elif numbers:
            host.interrupt()

    def woken(_events: int) -> None:
        os.read(reader, 64)  # the handlers have run by now, and the loop calls what they asked for

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, noted)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    host.loop.watch(reader, woken)


def _watch_parent(host: Host) -> None:
    """End with the process that started this kernel, as ipykernel does."""
    if host.settings.parent_pid <= 1:
        return
    try:
        fd = os.pidfd_open(host.settings.parent_pid)
    except OSError:
        # Gone already, or in another pid namespace, where it has a number of its own: that one's clients come.
        host.loop.call_later(UNHEARD_SECONDS, lambda: None if host.clients.heard else host.lifecycle.stop())
        return

    def parent_ended(_events: int) -> None:
        host.loop.forget(fd)
        os.close(fd)
        host.lifecycle.stop()

    host.loop.watch(fd, parent_ended)
