"""Held calls of a sandbox that may reach hosts: connections that are made in its stead, and never waited for.

What the address is is copied once. The socket is taken out of the program's table as it is, and what is done is done
to that one, so that it makes no difference what the program puts under the number meanwhile. Only what the Linux
kernel itself keeps inside (policy/network_fence.py) is let go on.
"""

from __future__ import annotations

import errno
import os
import socket
import time

from sentinel_kernel.abi.socket import AF_UNSPEC, SOCKADDR_STORAGE_BYTES
from sentinel_kernel.policy.network import FULL, LOOPBACK, UNWATCHED, Decision, kind_of
from sentinel_kernel.policy.network_fence import HELD_CALLS
from sentinel_kernel.supervisor.network.epolls import Unwatched, Watches
from sentinel_kernel.supervisor.network.pending import MOST, Call, Pending, UnderWay
from sentinel_kernel.supervisor.network.socket_calls import SocketCalls, signed
from sentinel_kernel.supervisor.network.sockets import (
    CLOSE_WAIT,
    CLOSED,
    ESTABLISHED,
    SYN_SENT,
    close_on_exec,
    connect_inside,
    cookie_of,
    is_tcp,
    network_of,
    patience_of,
    read_target,
    stand_in,
    state_of,
)
from sentinel_kernel.supervisor.network.taken import let_go, take_socket

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from sentinel_kernel.linux.seccomp import Listener, Notification
    from sentinel_kernel.policy.request import Request
    from sentinel_kernel.supervisor.network.connections import Connection, Connections
    from sentinel_kernel.supervisor.network.epolls import Registration

    Decide = Callable[[bytes, int], tuple[str, Decision]]
    Refuse = Callable[[Call, str, Decision], None]

_ADDRESS = 1
_NAME_SERVER = 53


class Connects:
    """Answers the fenced calls of one sandbox."""

    def __init__(
        self,
        listener: Listener,
        machine: Mapping[str, int],
        decide: Decide,
        refuse: Refuse,
        told: Connections,
    ) -> None:
        """Serve ``listener``; ``machine`` gives the numbers of calls.

        ``decide`` tells by which name an address may be reached, or not; ``refuse`` refuses and tells the person.
        """
        self._listener = listener
        self._decide = decide
        self._refuse = refuse
        self.told = told
        self._calls = {machine[name]: name for name in HELD_CALLS if name in machine}
        self.pending = Pending(listener, told, self._finish)
        self._connecting: set[bytes] = set()
        self.at_once = False
        """Whether the last call was a connection that is made by now: nothing waits for anything."""
        self.was_there = False
        """Whether the last call is known to have been its caller's when the socket and all before it had been read."""
        self._watches = Watches()
        self._given: list[socket.SocketType] = []
        """Sockets that the program has by now, to be let go of with its own one: closing is made safe once for both."""
        self.asker: tuple[Request, float] | None = None
        """Who last connected a socket of datagrams, and when (monotonic seconds)."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as own:
            self._outside = network_of(own)
        self._others = SocketCalls(listener, self._outside)

    def takes(self, number: int) -> bool:
        """Tell whether the call is one of these."""
        return number in self._calls

    def answer(self, notification: Notification, request: Request) -> bool:
        """Answer a call that the policy in force allows; False where it is to go on."""
        name = self._calls[notification.number]
        self.at_once = self.was_there = False
        if name == "setsockopt":
            return self._others.set_option(notification) or not self._listener.is_valid(notification.id)
        try:
            own = take_socket(notification.thread, request.pid, signed(notification.arguments[0]))
        except OSError as error:
            return self._error(notification, error.errno or errno.EBADF)
        if own is None:
            return not self._listener.is_valid(notification.id) or self._no_socket(notification, name)
        try:
            self.was_there = self._listener.is_valid(notification.id)
            if not self.was_there:
                return True  # what was read, here and before, may be another thread's
            if name == "connect":
                return self._connect(notification, request, own)
            return self._others.answer(name, notification, request, own)
        finally:
            self._let_go(own)

    def _let_go(self, *own: socket.SocketType) -> None:
        """Let go of the program's own socket, where there is one, and of what it was given."""
        given, self._given = self._given, []
        let_go(*own, *given)

    def _no_socket(self, notification: Notification, name: str) -> bool:
        return self._error(notification, errno.ENOTTY if name == "ioctl" else errno.ENOTSOCK)

    def _error(self, notification: Notification, number: int) -> bool:
        self._listener.refuse(notification.id, number)
        return True

    def _is_outside(self, own: socket.SocketType) -> bool:
        return network_of(own) == self._outside

    def is_of_look_up(self, request: Request) -> bool:
        """Tell whether a call that goes on is part of looking a name up.

        It asks the name server inside; and the C library connects datagram sockets to what it has found, to see which
        address it would come from.
        """
        data = request.copied.get(_ADDRESS, b"")
        domain = int.from_bytes(data[:2], "little")
        if self._calls.get(request.number) != "connect" or domain not in (socket.AF_INET, socket.AF_INET6):
            return False
        target = read_target(data, domain)
        if isinstance(target, int):
            return False
        return (target.port == _NAME_SERVER and kind_of(target.address) == LOOPBACK) or bool(
            self._decide(target.address, target.port)[0]
        )

    # --- connect

    def _connect(  # noqa: PLR0911 - errors in the Linux kernel's order
        self, notification: Notification, request: Request, own: socket.SocketType
    ) -> bool:
        data = request.copied.get(_ADDRESS, b"")
        length = signed(notification.arguments[2])
        if not 0 <= length <= SOCKADDR_STORAGE_BYTES:
            return self._error(notification, errno.EINVAL)
        if len(data) < length:
            return self._error(notification, errno.EFAULT)
        if not is_tcp(own):
            if own.family != socket.AF_UNIX:
                self.asker = request, time.monotonic()  # it is about to ask the name server, as a rule
            return False  # local sockets, and datagrams, which the sandbox's own network leads nowhere
        if length < 2:
            return self._error(notification, errno.EINVAL)
        if int.from_bytes(data[:2], "little") == AF_UNSPEC:
            return False  # it takes a connection back; Landlock keeps the socket from any other
        target = read_target(data, own.family)
        if isinstance(target, int):
            return self._error(notification, target)
        call = Call(notification, request, target)
        if kind_of(target.address) == LOOPBACK:
            return self._connect_inside(call, own)
        return self._connect_outside(call, own)

    def _connect_inside(self, call: Call, own: socket.SocketType) -> bool:
        notification = call.notification
        if self._is_outside(own):
            number = errno.EISCONN if state_of(own) != CLOSED else errno.ENETUNREACH
            return self._error(notification, number)
        number = connect_inside(own, call.target)
        if number == 0:
            self._listener.answer(notification.id, 0)
            return True
        if number not in (errno.EINPROGRESS, errno.EALREADY) or not os.get_blocking(own.fileno()):
            return self._error(notification, number)
        return self._wait(call, _another(own), patience_of(own), None)

    def _connect_outside(self, call: Call, own: socket.SocketType) -> bool:
        notification, target = call.notification, call.target
        state = state_of(own)
        blocking = os.get_blocking(own.fileno())
        if state == SYN_SENT and self._is_outside(own):
            if not blocking:
                return self._error(notification, errno.EALREADY)
            return self._wait(call, _another(own), patience_of(own), None)
        if state != CLOSED:
            cookie = cookie_of(own)
            if (
                cookie in self._connecting
            ):  # the first call after the one that did not wait is told of success
                self._connecting.discard(cookie)
                self._listener.answer(notification.id, 0)
                return True
            return self._error(notification, errno.EISCONN)
        host, decision = self._decide(target.address, target.port)
        if decision.allowed and (self.told.full or self.pending.is_full):
            decision = Decision(allowed=False, reason=FULL)
        if not decision.allowed:
            return self._refused(call, host, decision)
        return self._begin(call, own, host, decision.rule, blocking=blocking)

    def _refused(self, call: Call, host: str, decision: Decision) -> bool:
        self.told.refused(host, str(call.target.named[0]), call.target.port, decision.reason)
        self._refuse(call, host, decision)
        return True

    def _begin(self, call: Call, own: socket.SocketType, host: str, rule: str, *, blocking: bool) -> bool:
        """Connect outside, by a socket that takes the place of ``own``."""
        target, notification = call.target, call.notification
        made: Connection | None = None
        try:
            made = self.told.begin(host, target.address, target.port, rule)
            sock = stand_in(own)
        except OSError as error:
            number = error.errno or errno.ENOBUFS
            if made is not None:
                self.told.failed(made, number)
            return self._error(notification, number)
        number = sock.connect_ex(target.named)
        waits = number == errno.EINPROGRESS and blocking
        if waits and (state := state_of(sock)) != SYN_SENT:  # a host that is near has answered by now
            waits, number = False, 0
            if state not in (ESTABLISHED, CLOSE_WAIT):
                number = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if number not in (0, errno.EINPROGRESS):
            let_go(sock)
            self.told.failed(made, number)
            return self._error(notification, number)
        if waits:
            return self._wait(call, sock, patience_of(own), made)
        self._give(call, sock, made, blocking=blocking, number=number)
        return True

    def _give(
        self, call: Call, sock: socket.SocketType, made: Connection, *, blocking: bool, number: int
    ) -> None:
        """Put ``sock`` in the place of the program's own, and answer with ``number``."""
        self._given.append(sock)
        notification = call.notification
        place, thread = signed(notification.arguments[0]), notification.thread
        if blocking:
            sock.setblocking(True)
        try:
            watching = self._watches.of(thread, place)
            given = self._listener.put_file(
                notification.id, sock.fileno(), place, close_on_exec=close_on_exec(thread, place)
            )
        except Unwatched:
            self.told.failed(made, errno.ENOBUFS)
            self._refused(call, made.host, Decision(allowed=False, reason=UNWATCHED))
            return
        except OSError as error:
            self.told.failed(made, error.errno or errno.EBADF)
            self._error(notification, error.errno or errno.EBADF)
            return
        if not given:
            self.told.failed(made, errno.EINTR)
            return
        if number:
            if len(self._connecting) >= MOST:
                self._connecting.clear()
            self._connecting.add(cookie_of(sock))
        if watching:
            number = self._watched(call, sock, watching) or number
        # Behind the answer comes all that the program need not wait for.
        if number:
            self._error(notification, number)
        else:
            self._listener.answer(notification.id, 0)
            self.at_once = True
        self.told.established(made, cookie_of(sock), os.fstat(sock.fileno()).st_ino)

    def _watched(self, call: Call, sock: socket.SocketType, watching: list[Registration]) -> int:
        """Have the program's sets watch ``sock``, and return 0 or the errno where one can't."""
        try:
            place = signed(call.notification.arguments[0])
            self._watches.move(call.notification.thread, place, sock.fileno(), watching)
        except OSError as error:
            return error.errno or errno.ENOBUFS
        return 0

    # --- those that take a while

    def _wait(
        self, call: Call, sock: socket.SocketType, patience: float | None, made: Connection | None
    ) -> bool:
        if self.pending.is_full:
            let_go(sock)
            return self._error(call.notification, errno.ENOBUFS)
        until = None if patience is None else time.monotonic() + patience
        self.pending.add(UnderWay(call, sock, until, made))
        return True

    def interrupt(self) -> None:
        """Fail all that is under way with EINTR: the signal was sent before."""
        self.pending.end(lambda _: True, errno.EINTR)

    def _finish(self, one: UnderWay, in_time: bool) -> None:
        notification = one.call.notification
        if self._is_outside(one.sock) and one.made is not None:
            number = one.sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) if in_time else errno.EINPROGRESS
            if number in (0, errno.EINPROGRESS):
                try:
                    self._give(one.call, one.sock, one.made, blocking=True, number=number)
                finally:
                    self._let_go()
                return
            self.told.failed(one.made, number)
        elif self._is_outside(one.sock):
            number = one.sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) if in_time else errno.EALREADY
        else:
            number = connect_inside(one.sock, one.call.target) if in_time else errno.EINPROGRESS
        let_go(one.sock)
        if number:
            self._listener.refuse(notification.id, number)
        else:
            self._listener.answer(notification.id, 0)

    def close(self) -> None:
        """Let go of everything; what is held still fails with its listener."""
        self.pending.close()


def _another(sock: socket.SocketType) -> socket.SocketType:
    return socket.SocketType(fileno=os.dup(sock.fileno()))
