"""The host's event loop: one thread, readiness of descriptors, and timers."""

from __future__ import annotations

import heapq
import itertools
import select
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

READ, WRITE = select.EPOLLIN, select.EPOLLOUT


class Timer:
    """A call to come; ``cancel()`` takes it back."""

    __slots__ = ("call",)

    def __init__(self, call: Callable[[], None]) -> None:
        self.call: Callable[[], None] | None = call

    def cancel(self) -> None:
        """Take the call back; cancelling twice, or after it ran, does nothing."""
        self.call = None


class Loop:
    """Waits for descriptors and timers and calls what was registered for them.

    zmq.Poller builds its lists anew at every wait; epoll keeps them. ZeroMQ's sockets are asked through
    ``pump``, as their descriptors tell only that something may have changed (zmq_getsockopt(3), ZMQ_FD).
    """

    def __init__(self) -> None:
        self._epoll = select.epoll()
        self._calls: dict[int, Callable[[int], None]] = {}
        self._timers: list[tuple[float, int, Timer]] = []
        self._order = itertools.count()
        self._running = False
        self.on_fault: Callable[[Exception], None] | None = None
        """Told of what a call raised that was made from here; without it, ``run`` raises it."""

        self.before_next: Callable[[], None] | None = None
        """What a signal's handler asked for: called before anything that arrived after the signal is taken."""

    def watch(self, fd: int, call: Callable[[int], None], events: int = READ) -> None:
        """Call ``call(events)`` whenever ``fd`` is ready for one of ``events``, or hung up."""
        self._calls[fd] = call
        self._epoll.register(fd, events)

    def change(self, fd: int, events: int) -> None:
        """Wait for other events on a watched descriptor (0: only for its end)."""
        self._epoll.modify(fd, events)

    def forget(self, fd: int) -> None:
        """Stop watching ``fd``; call it before the descriptor is closed."""
        del self._calls[fd]
        self._epoll.unregister(fd)

    def call_later(self, seconds: float, call: Callable[[], None]) -> Timer:
        """Call ``call`` once, after ``seconds``."""
        timer = Timer(call)
        heapq.heappush(self._timers, (time.monotonic() + seconds, next(self._order), timer))
        return timer

    def run(self, pump: Callable[[], bool]) -> None:
        """Run until ``stop()``.

        ``pump`` is called before every wait; while it returns True nothing is waited for.
        """
        self._running = True
        while self._running:
            try:
                self._step(0.0 if pump() else self._until_timer())
            except Exception as fault:
                if self.on_fault is None:
                    raise
                self.on_fault(fault)

    def catch_up(self) -> None:
        """Do what a signal asked for that came before now.

        A poll that found input does not tell of the signal that came while it waited; and who reads one message
        after another asks between them.
        """
        if self.before_next is not None:
            call, self.before_next = self.before_next, None
            try:
                call()
            except Exception as fault:  # what was read meanwhile is still to be acted on
                if self.on_fault is None:
                    raise
                self.on_fault(fault)

    def stop(self) -> None:
        """Let ``run`` return."""
        self._running = False

    def close(self) -> None:
        """Close the loop's own descriptor."""
        self._epoll.close()

    def _until_timer(self) -> float:
        if not self._running:
            return 0.0
        while self._timers and self._timers[0][2].call is None:
            heapq.heappop(self._timers)
        if not self._timers:
            return -1.0
        return max(0.0, self._timers[0][0] - time.monotonic())

    def _step(self, seconds: float) -> None:
        ready = self._epoll.poll(seconds)
        self.catch_up()
        for fd, events in ready:
            call = self._calls.get(fd)
            if call is not None:  # an earlier call of this round may have forgotten it
                call(events)
        now = time.monotonic()
        while self._timers and self._timers[0][0] <= now:
            timer = heapq.heappop(self._timers)[2]
            if timer.call is not None:
                call_now, timer.call = timer.call, None
                call_now()
