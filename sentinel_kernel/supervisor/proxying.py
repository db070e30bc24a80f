"""The sandbox's HTTP proxy as the supervisor sees it: forked at a first connection, it reports each request."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import time

from sentinel_kernel.record import replace
from sentinel_kernel.supervisor.keeper import Keeper
from sentinel_kernel.supervisor.killed_children import unreaped
from sentinel_kernel.supervisor.ledger import stamp

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from sentinel_kernel.policy.http_rules import HttpPolicy
    from sentinel_kernel.policy.network import HostRule
    from sentinel_kernel.supervisor.current import Current
    from sentinel_kernel.supervisor.ledger import Ledger
    from sentinel_kernel.supervisor.network.way_out import WayOut

SOCKET = "proxy"
"""The name of the listening socket among those of the plan."""

_PACKET_BYTES = 8192
_MOST_A_TURN = 32
_MOST_TEXT = 300
_PAUSE_SECONDS = 1.0
"""A proxy that ends by itself is not replaced at once: what ended it may go on."""


class Proxying(Keeper):
    """Keeps at most one proxy process, which serves the listening socket of the sandbox in use."""

    def __init__(
        self,
        host_pid: Callable[[], int],
        ledger: Ledger,
        way_out: WayOut,
    ) -> None:
        """``host_pid`` is the host kernel, whose environment holds secrets; ``way_out`` has the hosts in force."""
        self._host_pid = host_pid
        self._ledger = ledger
        self._way_out = way_out
        self._current: Current | None = None
        self._pid = 0
        self._control: socket.socket | None = None
        self._ended: list[int] = []
        self._not_before = 0.0
        self._rules: tuple[HostRule, ...] = ()

    def sandbox_ready(self, current: Current, generation: int) -> None:  # noqa: ARG002 - all are told alike
        """Watch its listening socket, if the profile has rules of HTTP."""
        if self._current is None or self._current.sandbox is not current.sandbox:
            self._end()
        self._current = current if SOCKET in current.sandbox.sockets else None

    def sandbox_gone(self, cause: dict[str, Any]) -> None:  # noqa: ARG002 - as above
        """End the proxy with who asked it."""
        self._end()
        self._current = None

    def catch_up(self) -> dict[str, Any] | None:
        """End a proxy that was made for other hosts; the next connection is served by those in force by then."""
        if self._pid and self._way_out.policy().rules != self._rules:
            self._end()
        return None

    def descriptors(self) -> Sequence[int]:
        """Return the proxy's reports, or what is connected to while there is none."""
        if self._current is None:
            return ()
        if self._control is not None:
            return (self._control.fileno(),)
        if self._not_before > time.monotonic():
            return ()
        listening = self._current.sandbox.sockets.get(SOCKET)
        return (listening.fileno(),) if listening is not None else ()

    def due_seconds(self) -> float | None:
        """Return when a proxy may be started again."""
        left = self._not_before - time.monotonic()
        return left if self._current is not None and left > 0 else None

    def serve(self, ready: dict[int, int]) -> None:
        """Start the proxy, or take its reports."""
        current = self._current
        if current is None:
            return
        if self._control is not None:
            if self._control.fileno() in ready:
                self._receive(current, self._control)
            return
        listening = current.sandbox.sockets.get(SOCKET)
        if listening is not None and listening.fileno() in ready:
            self._start(current, listening)

    def end_cell(self, message: dict[str, Any]) -> None:  # noqa: ARG002 - all are told alike
        """Take what was reported before the cell's end: it belongs to the cell."""
        if self._current is not None and self._control is not None:
            self._receive(self._current, self._control)

    def close(self) -> None:
        """End the proxy."""
        self._end()
        self._current = None

    def _start(self, current: Current, listening: socket.socket) -> None:
        from sentinel_kernel.policy.http_rules import HttpPolicy  # noqa: PLC0415 - few sandboxes have a proxy

        self._reap()
        network = current.preparation.profile.network
        policy = HttpPolicy(self._way_out.policy(), network.http, network.secrets)
        self._rules = policy.network.rules
        host_pid = self._host_pid()
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            pid = os.fork()
        except OSError:  # no process is to be had
            self._not_before = time.monotonic() + _PAUSE_SECONDS
            ours.close()
            theirs.close()
            return
        if pid == 0:
            _be_proxy(listening, theirs, policy, host_pid)
        theirs.close()
        ours.setblocking(False)
        self._pid, self._control = pid, ours

    def _receive(self, current: Current, control: socket.socket) -> None:
        for _ in range(_MOST_A_TURN):
            try:
                packet = control.recv(_PACKET_BYTES)
            except BlockingIOError:
                return
            except OSError:
                packet = b""
            if not packet:
                self._end()  # it was ended by somebody else: another one serves the next connection
                self._not_before = time.monotonic() + _PAUSE_SECONDS
                self._tell_lost(current)
                return
            with contextlib.suppress(ValueError, KeyError, TypeError, OverflowError, RecursionError):
                self._report(current, _fields(packet))

    def _tell_lost(self, current: Current) -> None:
        """Tell of a proxy that was ended while it served; never is it on its own account."""
        from sentinel_kernel.policy.occurrence import make_occurrence  # noqa: PLC0415 - once in a blue moon

        made = make_occurrence(
            "network_unreachable",
            rule="the sandbox's proxy has ended",
            outcome="ended",
            **stamp(current),
        )
        self._ledger.record(replace(made, values={**made.values, "does": "proxy"}))

    def _report(self, current: Current, fields: dict[str, Any]) -> None:
        """Take note of a request; one that was refused is told. What was no request at all has no host."""
        if not fields["host"]:
            return
        from sentinel_kernel.supervisor.network.connections import Connection  # noqa: PLC0415 - imported by now

        now = int(time.time() * 1000)
        self._way_out.requested(
            Connection(
                fields["host"],
                fields["address"],
                fields["port"],
                fields["verdict"],
                f"network.http: {fields['reason'] or fields['method']}",
                now - fields["milliseconds"],
                now,
                bytes_out=fields["sent"],
                bytes_in=fields["received"],
            )
        )
        if fields["verdict"] != "refused":
            return
        from sentinel_kernel.policy.occurrence import host_refusal  # noqa: PLC0415 - for cells that are refused alone

        self._ledger.record(
            host_refusal(
                fields["host"],
                fields["port"],
                fields["reason"],
                address=fields["address"],
                **stamp(current),
            )
        )

    def _end(self) -> None:
        if self._control is not None:
            self._control.close()
            self._control = None
        if self._pid:
            os.kill(self._pid, signal.SIGKILL)  # not reaped yet: the number is its own
            self._ended.append(self._pid)
            self._pid = 0
        self._reap()

    def _reap(self) -> None:
        self._ended = unreaped(self._ended)


def _fields(packet: bytes) -> dict[str, Any]:
    """Return a report. It has read what a cell wrote, so that its words are bounded here once more."""
    told = json.loads(packet)
    texts = ("host", "method", "path", "address", "verdict", "reason")
    numbers = ("port", "sent", "received", "milliseconds", "missed")
    return {
        **{name: str(told[name])[:_MOST_TEXT] for name in texts},
        **{name: int(told[name]) for name in numbers},
    }


def _be_proxy(listening: socket.socket, control: socket.socket, policy: HttpPolicy, host_pid: int) -> None:
    """Serve in the forked process; never returns."""
    try:
        from sentinel_kernel.proxy.process import be_proxy  # noqa: PLC0415 - the supervisor itself never needs it

        be_proxy(listening, control, policy, host_pid)
    finally:
        os._exit(1)
