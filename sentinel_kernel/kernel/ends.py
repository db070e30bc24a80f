"""What ends the host kernel from outside: signals, and the end of the process that started it."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sentinel_kernel.kernel.host import Host


def watch_ends(host: Host) -> None:
    """Watch for both, from the host's loop."""
    _watch_signals(host)
    _watch_parent(host)


def _watch_signals(host: Host) -> None:
    """Take SIGINT as an interrupt (some clients know no other), SIGTERM and SIGHUP as the end."""
    reader, writer = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda _number, _frame: None)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)

    def received(_events: int) -> None:
        numbers = os.read(reader, 64)
        if set(numbers) - {signal.SIGINT}:
            host.lifecycle.stop()
        else:
            host.interrupt()

    host.loop.watch(reader, received)


def _watch_parent(host: Host) -> None:
    """End with the process that started this kernel, as ipykernel does."""
    if host.settings.parent_pid <= 1:
        return
    try:
        fd = os.pidfd_open(host.settings.parent_pid)
    except OSError:
        return  # gone, or in another pid namespace: the client's own ways to end a kernel are left

    def parent_ended(_events: int) -> None:
        host.loop.forget(fd)
        os.close(fd)
        host.lifecycle.stop()

    host.loop.watch(fd, parent_ended)
