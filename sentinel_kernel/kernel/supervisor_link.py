"""The host's side of the control socket: numbered requests with deadlines, and events as they come."""

from __future__ import annotations

import contextlib
import os
import signal
from collections import deque
from typing import TYPE_CHECKING

from sentinel_kernel.errors import ProtocolError
from sentinel_kernel.kernel.loop import READ, WRITE
from sentinel_kernel.supervisor import protocol

if TYPE_CHECKING:
    from collections.abc import Callable

    from sentinel_kernel.kernel.loop import Loop, Timer
    from sentinel_kernel.kernel.supervisor_process import SupervisorProcess
    from sentinel_kernel.kernel.wire import Json

    OnReply = Callable[[Json], None]
    OnEvent = Callable[[Json, list[int]], None]


class SupervisorLink:
    """Talks with one supervisor process until either end is gone.

    ``on_event`` gets every event that is no reply, with the descriptors that came along (then the
    receiver's own). ``on_gone`` is called once, with the reason, when the supervisor ended, broke the
    protocol or let a request wait past its deadline; it has been killed by then, and the sandbox with it.
    """

    def __init__(
        self, loop: Loop, process: SupervisorProcess, on_event: OnEvent, on_gone: Callable[[str], None]
    ) -> None:
        self._loop = loop
        self._process = process
        self._on_event = on_event
        self._on_gone = on_gone
        self._next_id = process.first_request
        self._pending: dict[int, tuple[OnReply, Timer]] = {}
        self._outgoing: deque[Json] = deque()
        self._inbox: deque[tuple[Json, list[int]]] = deque()
        self._ended: str | None = None
        self._gone = False
        self._fd = process.control.fileno()
        loop.watch(self._fd, self._readable)

    @property
    def gone(self) -> bool:
        """Whether the supervisor is no more."""
        return self._gone

    @property
    def has_news(self) -> bool:
        """Whether something was read that ``dispatch`` has still to hand out."""
        return bool(self._inbox) or (self._ended is not None and not self._gone)

    def expect_first(self, on_reply: OnReply, seconds: float) -> None:
        """Await the answer to the request that was sent with the process's start."""
        self._expect("start", self._next_id, on_reply, seconds)

    def request(self, operation: str, fields: Json, on_reply: OnReply, seconds: float) -> None:
        """Send a request; ``on_reply`` gets its answer, unless the supervisor goes first."""
        if self._gone:
            return
        self._next_id += 1
        self._expect(operation, self._next_id, on_reply, seconds)
        self._outgoing.append({**fields, "op": operation, "id": self._next_id})
        self._flush()

    def _readable(self, _events: int) -> None:
        self._read()
        if self._outgoing:
            self._flush()
        self.dispatch()

    def _read(self) -> None:
        """Take every packet that has come into the inbox."""
        while not self._gone and self._ended is None:
            try:
                received = protocol.receive(self._process.control)
            except BlockingIOError:
                return
            except (ProtocolError, OSError) as error:
                self._ended = str(error)
            else:
                if received is None:
                    self._ended = "The supervisor ended."
                else:
                    self._inbox.append(received)

    def dispatch(self) -> None:
        """Hand out what is in the inbox, and then the supervisor's end if it came."""
        while self._inbox and not self._gone:
            self._take(*self._inbox.popleft())
        if self._ended is not None and not self._gone:
            self._fail(self._ended)

    def take_urgent(self) -> None:
        """Read without waiting, and hand out violations alone: nothing that changes the worker's state.

        It is called in the middle of the worker's messages; deaths and the like follow with ``dispatch``.
        """
        self._read()
        inbox, self._inbox = self._inbox, deque()
        for message, fds in inbox:
            if message.get("event") == protocol.EVENT_VIOLATION and not self._gone:
                self._take(message, fds)
            else:
                self._inbox.append((message, fds))

    def close(self) -> None:
        """Close the socket without a call to ``on_gone``; the supervisor then ends the sandbox and itself."""
        if self._gone:
            return
        self._gone = True
        for _, fds in self._inbox:
            for fd in fds:
                os.close(fd)
        self._inbox.clear()
        for _, timer in self._pending.values():
            timer.cancel()
        self._pending.clear()
        self._loop.forget(self._fd)
        self._process.control.close()
        if self._process.pidfd >= 0:
            os.close(self._process.pidfd)

    def _expect(self, operation: str, request_id: int, on_reply: OnReply, seconds: float) -> None:
        def overdue() -> None:
            self._fail(f"The supervisor did not answer {operation!r} within {seconds:g} s.")

        self._pending[request_id] = (on_reply, self._loop.call_later(seconds, overdue))

    def _take(self, message: Json, fds: list[int]) -> None:
        if message.get("event") != protocol.EVENT_REPLY:
            self._on_event(message, fds)
            return
        for fd in fds:
            os.close(fd)
        waiting = self._pending.pop(message.get("id", 0), None)
        if waiting is not None:
            on_reply, timer = waiting
            timer.cancel()
            on_reply(message)

    def _flush(self) -> None:
        while self._outgoing:
            try:
                protocol.send(self._process.control, self._outgoing[0])
            except BlockingIOError:
                self._loop.change(self._fd, READ | WRITE)
                return
            except OSError:
                return  # the end is found, and told, by the next read
            except ProtocolError as error:
                self._fail(str(error))
                return
            self._outgoing.popleft()
        self._loop.change(self._fd, READ)

    def _fail(self, reason: str) -> None:
        if self._gone:
            return
        self._kill()
        self._on_gone(reason)

    def _kill(self) -> None:
        """End the supervisor now; the Linux kernel ends the sandbox with it (PR_SET_PDEATHSIG)."""
        process = self._process
        with contextlib.suppress(ProcessLookupError):
            if process.pidfd >= 0:
                signal.pidfd_send_signal(process.pidfd, signal.SIGKILL)
            else:
                os.kill(process.pid, signal.SIGKILL)
        self.close()
        if process.pidfd < 0:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(process.pid, 0)
