"""Allocations that are larger than what is left: refused here instead of by the Linux kernel, which tells nobody.

A large private mapping is held (policy/measured.py) for as long as it takes to see whether RLIMIT_DATA has room for it.
Where it has none, the line is known, also where the program swallows the error, or it is a child's.
"""

from __future__ import annotations

import contextlib
import errno
import resource

from sentinel_kernel.supervisor.last_words import place_fields
from sentinel_kernel.supervisor.thread_signals import catches
from sentinel_kernel.supervisor.worker_link import STACK_SIGNAL

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from sentinel_kernel.linux.seccomp import Listener, Notification
    from sentinel_kernel.policy.stack_dump import Place
    from sentinel_kernel.supervisor.current import Current
    from sentinel_kernel.supervisor.headroom import Headroom
    from sentinel_kernel.supervisor.memory_use import Machine
    from sentinel_kernel.supervisor.meter import Meter
    from sentinel_kernel.supervisor.soft_memory import SoftMemory

_STATUS_BYTES = 8192


class RefusedMemory:
    """Answers the large mappings of one sandbox."""

    def __init__(
        self, current: Current, meter: Meter, headroom: Headroom, soft: SoftMemory, machine: Machine
    ) -> None:
        """Refuse what ``headroom`` leaves no room for; ``meter`` tells of the first refusal in a cell.

        What is more than all memory of the ``machine`` is the program's own mistake.
        """
        self._current = current
        self._meter = meter
        self._headroom = headroom
        self._soft = soft
        self._machine = machine

    def answer(self, listener: Listener, notification: Notification) -> bool:
        """Answer a private mapping that may be written; True where it was refused."""
        size, thread = notification.arguments[1], notification.thread
        process, held = _holder(thread)
        if not listener.is_valid(notification.id):
            return True
        if not self._is_refused(process, held, size):
            listener.proceed(notification.id)
            return False

        def refuse() -> None:
            listener.refuse(notification.id, errno.ENOMEM)

        told = None if self._soft.told else self._meter.refused(None, sure=True)
        if told is None:
            refuse()
        else:
            self._tell(told, process, thread, refuse)
        return True

    def wants_room(self, thread: int) -> None:
        """Lend the worker what it shows an error in, where it has raised its own limit."""
        process = _holder(thread)[0]
        if process == self._current.worker_pid and self._meter.running:
            self._headroom.lend(process)

    def _is_refused(self, process: int, held: int, size: int) -> bool:
        """Tell whether the Linux kernel would refuse it by a limit that is ours, not by the program's own."""
        least = self._headroom.bound(process, self._current.worker_pid)
        if least is None or not self._meter.running or size > self._machine.total_bytes:
            return False
        with contextlib.suppress(OSError):
            allowed = resource.prlimit(process, resource.RLIMIT_DATA)[0]
            # A child may have inherited one that was written before the worker's last; a program's own was asked for.
            ours = resource.RLIMIT_DATA not in self._current.limits_set or allowed >= least
            return ours and held + size > allowed
        return False

    def _tell(self, told: dict[str, Any], process: int, thread: int, refuse: Callable[[], object]) -> None:
        line, started, worker = self._current.held_line, self._current.started, self._current.worker_pid

        def found(place: Place | None) -> None:
            fields = place_fields(place)
            if fields is not None and place is not None:
                told["place_of"] = {**fields, "confidence": "certain" if place.sure else "likely"}
            self._meter.send_limit(told)

        if line is None or started is None:
            found(None)
            refuse()
        elif process == worker or catches(thread, STACK_SIGNAL):
            line.ask_held(process, thread, found, refuse)
        elif (place := started.started_at(process, worker, line.names)) is not None:
            found(place)
            refuse()
        else:
            line.ask_who_waits(worker, found, refuse)


def _holder(thread: int) -> tuple[int, int]:
    """Return a thread's process, and how many bytes RLIMIT_DATA counts of it (VmData of proc_pid_status(5))."""
    with contextlib.suppress(OSError, ValueError, IndexError), open(f"/proc/{thread}/status", "rb") as file:
        text = file.read(_STATUS_BYTES)
        process, held = (
            int(text.partition(b"\n" + name + b":")[2].split(None, 1)[0]) for name in (b"Tgid", b"VmData")
        )
        return process, held << 10
    return thread, 0
