"""What comes from clients: checked, and handed to the one who knows what to do with it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import zmq

from sentinel_kernel.errors import ProtocolError
from sentinel_kernel.kernel import host_comms, outer
from sentinel_kernel.kernel.completion import complete
from sentinel_kernel.kernel.lifecycle import State
from sentinel_kernel.kernel.log import log
from sentinel_kernel.kernel.requests import read_request
from sentinel_kernel.kernel.unavailable import answer_request
from sentinel_kernel.kernel.widgets import COMM_TYPES
from sentinel_kernel.kernel.wire import unsigned

if TYPE_CHECKING:
    from collections.abc import Callable

    from sentinel_kernel.kernel.host import Host
    from sentinel_kernel.kernel.requests import Request

MESSAGES_A_TURN = 64
PENDING_BYTES = 16 * 1024 * 1024
"""How much may wait for a worker that does not read before no more is taken from clients."""

WAITING_MESSAGES = 10_000


class ClientSide:
    """Reads the outer sockets."""

    def __init__(self, host: Host) -> None:
        self._host = host
        sockets = host.sockets
        self._handlers: dict[str, tuple[outer.Socket, Callable[[Request], None]]] = {
            "control": (sockets.control, self._control),
            "shell": (sockets.shell, self._shell),
            "stdin": (sockets.stdin, self._stdin),
        }
        self.heard = False
        """Whether any client has asked for anything."""

    def pump(self) -> bool:
        """Read what clients sent, as far as it can be taken now; tell whether there may be more."""
        more = self._subscriptions()
        for channel in ("control", "shell", "stdin"):
            # Asked even where nothing can be taken: libzmq's descriptor stays ready until it is, and the loop would
            # spin through the whole start of the sandbox.
            if outer.has_input(self._handlers[channel][0]) and self._takes(channel):
                more |= self._read(channel, MESSAGES_A_TURN)
        return more

    def has_more(self) -> bool:
        """Tell whether a message can be taken now.

        To be asked last before a wait: whatever was sent meanwhile made libzmq read its mailbox, and what it found
        there is no longer announced by the descriptor (zmq_getsockopt(3), ZMQ_FD).
        """
        if outer.has_input(self._host.sockets.iopub):
            return True
        return any(
            outer.has_input(socket) and self._takes(channel)
            for channel, (socket, _) in self._handlers.items()
        )

    def take_waiting(self) -> None:
        """Take every shell request that has arrived: a failed cell aborts those behind it."""
        self._read("shell", WAITING_MESSAGES)

    def _takes(self, channel: str) -> bool:
        lifecycle = self._host.lifecycle
        if channel == "control":
            return lifecycle.state is not State.STOPPING
        if lifecycle.state is State.UNAVAILABLE:
            return True
        if lifecycle.state is not State.READY or lifecycle.inner is None:
            return False
        stalled = lifecycle.inner[channel].pending_bytes > PENDING_BYTES
        return not stalled and self._host.execution.waiting < WAITING_MESSAGES

    def _read(self, channel: str, most: int) -> bool:
        socket, handle = self._handlers[channel]
        for _ in range(most):
            frames = outer.receive(socket)
            if frames is None:
                return False
            self._host.loop.catch_up()
            try:
                request = read_request(channel, frames, self._host.session)
                self.heard = True
                self._host.firewall.note(request)
                handle(request)
            except ProtocolError as error:
                log(f"A client's {channel} message was dropped: {error}")
            except Exception as error:  # noqa: BLE001 - one client's message must not end all clients' kernel
                self._host.faults.note(f"A client's {channel} message was dropped", error)
        return True

    def _subscriptions(self) -> bool:
        socket = self._host.sockets.iopub
        if not outer.has_input(socket):
            return False
        frames = outer.receive(socket)
        if frames and bytes(frames[0][:1]) == b"\x01":
            # JEP 65: who subscribes is told when the subscription is in force.
            topic = bytes(frames[0][1:])
            content = {"subscription": topic.decode("utf-8", "replace")}
            self._host.outbox.publish("iopub_welcome", content, topic=topic)
        return frames is not None

    def _control(self, request: Request) -> None:
        if request.msg_type == "shutdown_request":
            self._host.shutdown(request)
        elif request.msg_type == "interrupt_request":
            self._host.interrupt(request)
        else:
            self._host.execution.add(request)

    def _shell(self, request: Request) -> None:
        if request.msg_type in COMM_TYPES and (
            self._host.widgets.takes(request) or host_comms.takes(self._host, request)
        ):
            self._still_busy()
            return
        if request.msg_type == "complete_request":
            answer = complete(request, self._host.magics.choices)
            if answer is not None:
                self._host.outbox.answer(request, answer)
                self._still_busy()
                return
        if request.msg_type == "sentinel_carry_request":
            return  # the host's alone
        if request.msg_type == "execute_request":
            request.source = outer.source(self._host.sockets.shell)
        self._host.execution.add(request)

    def _still_busy(self) -> None:
        """Say that a cell runs, behind an idle of the host's own: clients show the state that was told last."""
        for cell in self._host.execution.running.values():
            if not cell.idle:
                self._host.outbox.status("busy", cell.request.header)
                return

    def _stdin(self, request: Request) -> None:
        """Forward the answer to a prompt, to the cell that asked, from the client that was asked."""
        if self._host.questions.takes(request):
            return
        lifecycle = self._host.lifecycle
        for cell in self._host.execution.running.values():
            if cell.asks and cell.request.identities == request.identities and lifecycle.inner is not None:
                self._host.limits.person_asked(cell, waiting=False)
                cell.prompt = ""
                lifecycle.inner["stdin"].send(unsigned(request.identities, request.parts))
                return

    def forward(self, request: Request) -> None:
        """Send a request that is no cell to the worker, or answer it where there is none."""
        lifecycle = self._host.lifecycle
        if lifecycle.state is State.UNAVAILABLE and request.msg_type == "comm_info_request":
            comms = host_comms.listed(self._host, request, {})
            self._host.outbox.answer(request, {"status": "ok", "comms": comms})
        elif lifecycle.state is State.UNAVAILABLE and lifecycle.problem is not None:
            answer_request(self._host.outbox, request, lifecycle.problem.error(self._host.settings.language))
        elif lifecycle.inner is not None:
            lifecycle.inner[request.channel].send(unsigned(request.identities, request.parts))


def watch_sockets(host: Host) -> None:
    """Wake the loop whenever one of the outer sockets may have something; ``pump`` finds out what."""
    for socket in (host.sockets.shell, host.sockets.control, host.sockets.stdin, host.sockets.iopub):
        _watch(host, socket)


def _watch(host: Host, socket: outer.Socket) -> None:
    def stir(_events: int) -> None:
        socket.stirred[0] = True

    host.loop.watch(int(socket.getsockopt(zmq.FD)), stir)
