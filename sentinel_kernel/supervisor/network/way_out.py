"""The way out of the sandbox in use: which hosts are in force, and who serves its names and its connections."""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import time

from sentinel_kernel.linux.network import end_socket, local_among, own_addresses
from sentinel_kernel.linux.process import open_thread, take_file
from sentinel_kernel.policy.network import FULL, UNWATCHED, NetworkPolicy, show_address
from sentinel_kernel.policy.network_document import policy_of
from sentinel_kernel.policy.occurrence import as_host_refusal, host_refusal
from sentinel_kernel.policy.text import shown
from sentinel_kernel.policy.violation import Process
from sentinel_kernel.record import replace
from sentinel_kernel.supervisor.keeper import Keeper
from sentinel_kernel.supervisor.ledger import stamp
from sentinel_kernel.supervisor.network.connections import Connections
from sentinel_kernel.supervisor.network.connects import Connects
from sentinel_kernel.supervisor.network.name_stub import NameStub
from sentinel_kernel.supervisor.network.names import Names
from sentinel_kernel.supervisor.network.taken import held
from sentinel_kernel.supervisor.processes import processes_below

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    from sentinel_kernel.policy.network import Decision
    from sentinel_kernel.policy.profile import Network
    from sentinel_kernel.policy.violation import Violation
    from sentinel_kernel.supervisor.current import Current
    from sentinel_kernel.supervisor.ledger import Ledger
    from sentinel_kernel.supervisor.network.connections import Connection
    from sentinel_kernel.supervisor.network.pending import Call

_OWN_SECONDS = 10.0
_RETRY_SECONDS = 1.0
_DECIDED_SECONDS, _MOST_DECIDED = 1.0, 64
_PASSES = 3
_MOST_WANTED = 100
_ASKED_SECONDS = 2.0


class WayOut(Keeper):
    """Serves a sandbox that was made to reach hosts; for any other it does nothing."""

    def __init__(self, ledger: Ledger, note: Callable[[Connection], None]) -> None:
        """Tell refusals to ``ledger``, and each connection that is over to ``note``."""
        self._ledger = ledger
        self._connections = Connections(note)
        self._current: Current | None = None
        self._connects: Connects | None = None
        self._stub: NameStub | None = None
        self._names: Names | None = None
        self._granted: tuple[str, ...] = ()
        self._own: frozenset[bytes] | None = None
        """This machine's addresses; None: not known."""
        self._own_until = 0.0
        self._network: Network | None = None
        self._policy = NetworkPolicy()
        self._compared: Network | None = None
        """What the open connections were last compared with: that of the policy changes whenever that is asked for."""
        self._decided: dict[tuple[bytes, int], tuple[str, Decision]] = {}
        """What was allowed a moment ago: a program that connects does so again. Until a name is looked up."""
        self._decided_by: NetworkPolicy | None = None
        self._decided_until = 0.0
        self._dry = False
        """A dry run is under way: no host is reached, and no name is looked up."""
        self._wanted: list[tuple[str, int]] = []
        """What it would have reached: name or address, and port (0: it got no further than the name)."""

    # --- what is in force

    def policy(self) -> NetworkPolicy:
        """Return the hosts in force now: the profile's, and those that the person has allowed; in a dry run none.

        Without this machine's own addresses, which no pattern may lead to, none either.
        """
        if self._dry:
            return NetworkPolicy()
        now = time.monotonic()
        network = self._current.preparation.profile.network if self._current is not None else None
        if network is not None and (network is not self._network or now >= self._own_until):
            self._own_until = now + _OWN_SECONDS
            try:
                self._own = own_addresses()
            except OSError:  # no descriptor is free: those that were known are right, as a rule
                self._own_until = now + _RETRY_SECONDS
            self._network = network
            if self._own is None:
                self._policy = NetworkPolicy()
            else:
                self._policy = policy_of(network, self._own, self._granted)
        return self._policy

    def forget(self) -> None:
        """Allow what the profile allows alone: the next host's session is another one."""
        self._granted = ()
        self._network = None

    def allow(self, rule: str) -> None:
        """Allow the hosts of ``rule`` for the session."""
        if rule not in self._granted:
            self._granted = (*self._granted, rule)
        self._network = None
        if self._names is not None:
            self._names.forget()

    @property
    def serves(self) -> bool:
        """Whether the sandbox in use was made to reach hosts."""
        return self._connects is not None

    def requested(self, made: Connection) -> None:
        """Take note of a request that went through the proxy."""
        self._connections.requested(made)

    def told(self) -> dict[str, Any]:
        """Return what the person is shown."""
        self._connections.serve()
        return {
            "serves": self.serves,
            "allow": self._current is not None and self._current.preparation.profile.network.allow,
            "hosts": [rule.text for rule in self.policy().rules],
            "requests": self._passed_on(),
            "granted": list(self._granted),
            "wanted": [list(one) for one in self._wanted],
            "connections": [one.to_json() for one in self._connections.told[-100:]],
        }

    def _passed_on(self) -> list[str]:
        """Return the requests that the proxy passes on by the profile's rules, in words."""
        network = self._current.preparation.profile.network if self._current is not None else None
        return [rule.text for rule in network.http] if network is not None and network.allow else []

    @property
    def connected(self) -> bool:
        """Whether a connection to a host is open."""
        self._connections.serve()
        return self._connections.has_open

    def begin_cell(self, message: dict[str, Any]) -> None:
        """Hold the way out shut while the cell is a dry run."""
        self._dry = bool(message.get("dry_run"))
        if self._dry:
            self._wanted = []

    def end_cell(self, message: dict[str, Any]) -> None:  # noqa: ARG002 - all are told alike
        """Open it again."""
        self._dry = False
        self._connections.flush()

    def _note_wanted(self, host: str, port: int) -> None:
        if len(self._wanted) < _MOST_WANTED and (host, port) not in self._wanted:
            self._wanted.append((host, port))

    # --- one sandbox

    def sandbox_ready(self, current: Current, generation: int) -> None:  # noqa: ARG002 - as told there
        """Serve this sandbox from here on."""
        if not current.preparation.plan.fenced:
            return
        self._current = current
        self._network, self._compared = None, current.preparation.profile.network
        self._granted = tuple(dict.fromkeys((*self._granted, *current.preparation.hosts)))
        listener, calls = current.sandbox.listener, current.handler.policy.architecture.syscalls
        self._connects = Connects(listener, calls, self._decide, self._refuse, self._connections)
        self._names = Names(self._decided.clear)
        datagrams, streams = (current.sandbox.sockets.get(name) for name in ("dns-udp", "dns-tcp"))
        if datagrams is not None:
            self._stub = NameStub(
                datagrams, streams, self._names, self.policy, self._refused_name, self._unknown_name
            )
        current.handler.way_out = self._connects

    def sandbox_gone(self, cause: dict[str, Any]) -> None:  # noqa: ARG002 - whatever it was
        """Let go of it."""
        if self._current is not None:
            self._current.handler.way_out = None
        for part in (self._connects, self._stub, self._names):
            if part is not None:
                part.close()
        self._connections.close()
        self._current = self._connects = self._stub = self._names = None
        self._decided.clear()

    def _decide(self, address: bytes, port: int) -> tuple[str, Decision]:
        """Return by which name ``address`` may be reached, or the last one that led there, and the decision."""
        policy = self.policy()
        now = time.monotonic()
        if policy is not self._decided_by or now >= self._decided_until:
            self._decided.clear()
            self._decided_by, self._decided_until = policy, now + _DECIDED_SECONDS
        known = self._decided.get((address, port))
        if known is None:
            known = self._decided_now(policy, address, port)
            if known[1].allowed and len(self._decided) < _MOST_DECIDED:
                self._decided[address, port] = known
        return known

    def _decided_now(self, policy: NetworkPolicy, address: bytes, port: int) -> tuple[str, Decision]:
        try:
            local = local_among((address,))
        except OSError:  # no descriptor is free: it may be this machine's
            local = frozenset({address})
        policy = replace(policy, own=policy.own | local)
        names = self._names.of(address) if self._names is not None else []
        decided = policy.decide("", address, port)
        for name in names:
            by_name = policy.decide(name, address, port)
            if by_name.allowed:
                return name, by_name
            if not decided.allowed:
                decided = by_name
        return names[0] if names else "", decided

    def _refuse(self, call: Call, host: str, decision: Decision) -> None:
        if self._current is None:
            return
        notification, target = call.notification, call.target
        numeric = show_address(target.address)
        if self._dry:  # what is refused for that alone is no violation
            self._note_wanted(host or numeric, target.port)
            self._current.sandbox.listener.refuse(notification.id, errno.ENETUNREACH)
            return
        self._current.handler.refuse(
            notification,
            call.request,
            errno.ENOBUFS if decision.reason in (FULL, UNWATCHED) else errno.ENETUNREACH,
            lambda made: as_host_refusal(made, host or numeric, target.port, decision.reason, numeric),
        )

    def _refused_name(self, name: str, reason: str) -> None:
        if self._current is None:
            return
        self._connections.refused(shown(name, 253), "", 0, reason)
        if self._dry:
            self._note_wanted(shown(name, 253), 0)
            return
        made = host_refusal(name, 0, reason, **stamp(self._current))
        self._ledger.record(self._with_asker(made))

    def _unknown_name(self, name: str) -> None:
        self._connections.unknown(shown(name, 253))

    def _with_asker(self, made: Violation) -> Violation:
        """Return the refusal of a name with who asked, as far as that is known: datagrams have no sender's id."""
        if self._current is None or self._connects is None or self._connects.asker is None:
            return made
        request, asked = self._connects.asker
        if time.monotonic() - asked > _ASKED_SECONDS or request.is_worker:
            return made  # the worker's own error tells where it came from
        process = Process(request.pid, shown(request.command, 100), is_worker=False)
        made = replace(made, process=process, confidence="likely")
        places = self._current.handler.places
        return made if places is None else places.described(made, request)

    # --- as a keeper

    def descriptors(self) -> Iterable[int]:
        """As told there."""
        if self._connects is not None:
            yield from self._connects.pending.descriptors()
            yield from self._connections.descriptors()
        if self._stub is not None:
            yield from self._stub.descriptors()
        if self._names is not None:
            yield from self._names.resolver.descriptors()

    def due_seconds(self) -> float | None:
        """As told there."""
        parts = (
            self._connects.pending if self._connects is not None else None,
            self._stub,
            self._names.resolver if self._names is not None else None,
            self._connections,
        )
        dues = [due for part in parts if part is not None and (due := part.due_seconds()) is not None]
        return min(dues, default=None)

    def serve(self, ready: dict[int, int]) -> None:
        """As told there."""
        if self._names is not None:
            self._names.resolver.serve(ready)
        if self._stub is not None:
            self._stub.serve(ready)
        if self._connects is not None and not ready.keys().isdisjoint(self._connects.pending.descriptors()):
            self._connects.pending.serve()
        if not ready.keys().isdisjoint(self._connections.descriptors()):
            self._connections.serve()

    def catch_up(self) -> dict[str, Any] | None:
        """As told there; a profile that gives less ends the connections that it would not allow."""
        current = self._current
        if current is None:
            return None
        network = current.preparation.profile.network
        if network is not self._compared:
            self._compared = network
            if self._end_unlisted(current):
                return {"kind": "connection"}
        for part in (
            self._connects.pending if self._connects is not None else None,
            self._stub,
            self._names.resolver if self._names is not None else None,
        ):
            if part is not None:
                part.catch_up()
        self._connections.flush()
        return None

    def _end_unlisted(self, current: Current) -> bool:
        """End what the hosts in force do not allow; True where a connection is left that nothing here ends.

        It is one that no program has: it lies in a message between two. Root ends those too.
        """
        if self._names is not None:
            self._names.forget()
        policy = self.policy()

        def is_unlisted(one: Connection) -> bool:
            family = socket.AF_INET6 if ":" in one.address else socket.AF_INET
            return not policy.decide(one.host, socket.inet_pton(family, one.address), one.port).allowed

        if self._connects is not None:
            self._connects.pending.end(
                lambda one: one.made is not None and is_unlisted(one.made), errno.ENETUNREACH
            )
        for _ in range(_PASSES):
            wanted = self._connections.inodes(is_unlisted)
            if not wanted:
                return False
            ended: dict[int, bytes] = {}
            for pid in processes_below(current.sandbox.pid):
                with contextlib.suppress(OSError):
                    _shut(pid, wanted, ended)
            self._connections.shut(ended)
        try:
            for one in self._connections.still_held(is_unlisted):
                with contextlib.suppress(FileNotFoundError):
                    end_socket(one)
        except OSError:
            return True
        return False

    def interrupt(self) -> None:
        """Fail what is held: the person has interrupted the cell."""
        if self._connects is not None:
            self._connects.interrupt()

    def close(self) -> None:
        """As told there."""
        self.sandbox_gone({})


def _shut(pid: int, inodes: dict[int, Connection], ended: dict[int, bytes]) -> None:
    """Shut down the sockets of a process that have these inodes, and add them to ``ended`` (``struct tcp_info``).

    Raises:
        OSError: the process is gone.

    """
    folder = f"/proc/{pid}/fd"
    names = {f"socket:[{inode}]" for inode in inodes}
    for number in os.listdir(folder):
        if os.readlink(f"{folder}/{number}") in names:
            pidfd = open_thread(pid, pid)
            try:
                with held(socket.socket(fileno=take_file(pidfd, int(number)))) as taken:
                    with contextlib.suppress(OSError):  # the other side may have ended it
                        taken.shutdown(socket.SHUT_RDWR)
                    info = taken.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 512)
                    ended[os.fstat(taken.fileno()).st_ino] = info
            finally:
                os.close(pidfd)
