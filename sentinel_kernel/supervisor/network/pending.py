"""Held connects that are under way: nobody waits for them, and each is answered once it is done, late or not wanted."""

from __future__ import annotations

import errno
import select
import time

from sentinel_kernel.record import MutableRecord, Record
from sentinel_kernel.supervisor.network.taken import let_go

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

    from sentinel_kernel.linux.seccomp import Listener, Notification
    from sentinel_kernel.policy.request import Request
    from sentinel_kernel.supervisor.network.connections import Connection, Connections
    from sentinel_kernel.supervisor.network.sockets import Target

MOST = 256
_LOOK_SECONDS = 1.0
_DONE = select.EPOLLOUT | select.EPOLLERR | select.EPOLLHUP


class Call(Record):
    """One held connect(2): who asked, and for what."""

    notification: Notification
    request: Request
    target: Target


class UnderWay(MutableRecord):
    """One that is under way, by ``sock``; ``made`` is None for one within the sandbox."""

    call: Call
    sock: socket.SocketType
    until: float | None
    made: Connection | None


class Pending:
    """Those of one sandbox; ``finish`` is given each that is done, and whether it was in time."""

    def __init__(
        self, listener: Listener, told: Connections, finish: Callable[[UnderWay, bool], None]
    ) -> None:
        """Start with none."""
        self._listener = listener
        self._told = told
        self._finish = finish
        self._epoll = select.epoll()
        self._all: dict[int, UnderWay] = {}
        self._look_at = 0.0

    @property
    def is_full(self) -> bool:
        """Whether there are as many as may be, without those whose caller is gone."""
        if len(self._all) >= MOST:
            self._let_go()
        return len(self._all) >= MOST

    def add(self, one: UnderWay) -> None:
        """Have one answered once it is done; its socket is closed then."""
        self._all[one.sock.fileno()] = one
        self._epoll.register(one.sock.fileno(), _DONE)

    def descriptors(self) -> list[int]:
        """Return what is readable when a connection has been established, or has failed."""
        return [self._epoll.fileno()] if self._all else []

    def due_seconds(self) -> float | None:
        """Return when one has taken as long as its socket may wait."""
        dues = [one.until for one in self._all.values() if one.until is not None]
        return max(0.0, min([*dues, self._look_at]) - time.monotonic()) if self._all else None

    def serve(self) -> None:
        """Answer those that are done."""
        for number, _ in self._epoll.poll(0):
            one = self._take(number)
            if one is not None:
                self._finish(one, True)

    def catch_up(self) -> None:
        """Answer those that have taken too long, and let go of those whose caller is gone."""
        now = time.monotonic()
        if self._all and now >= self._look_at:
            self._let_go()
        for number, one in list(self._all.items()):
            if one.until is not None and one.until <= now:
                self._take(number)
                self._finish(one, False)

    def end(self, is_meant: Callable[[UnderWay], bool], error: int) -> None:
        """Fail all that are meant with ``error``."""
        for number, one in list(self._all.items()):
            if is_meant(one):
                self._drop(number, error)
                self._listener.refuse(one.call.notification.id, error)

    def _take(self, number: int) -> UnderWay | None:
        one = self._all.pop(number, None)
        if one is not None:
            self._epoll.unregister(number)
        return one

    def _drop(self, number: int, error: int) -> None:
        one = self._take(number)
        if one is not None:
            let_go(one.sock)
            if one.made is not None:
                self._told.failed(one.made, error)

    def _let_go(self) -> None:
        """End what callers that are gone waited for: signals and ends of threads are told by nobody."""
        self._look_at = time.monotonic() + _LOOK_SECONDS
        for number, one in list(self._all.items()):
            if not self._listener.is_valid(one.call.notification.id):
                self._drop(number, errno.EINTR)

    def close(self) -> None:
        """Let go of everything; what is held still fails with its listener."""
        for one in self._all.values():
            let_go(one.sock)
        self._all.clear()
        self._epoll.close()
