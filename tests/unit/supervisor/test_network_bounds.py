"""The sandbox's way out under hostile numbers: bounded in what it keeps, and never the end of the supervisor."""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import struct
import time
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from waiting import wait_until

from sentinel_kernel.linux.network import end_socket, live_sockets
from sentinel_kernel.policy.network import NetworkPolicy, parse_rule
from sentinel_kernel.supervisor.network import connections, way_out
from sentinel_kernel.supervisor.network.connections import Connection, Connections
from sentinel_kernel.supervisor.network.connects import Connects
from sentinel_kernel.supervisor.network.name_stub import NameStub
from sentinel_kernel.supervisor.network.names import Names
from sentinel_kernel.supervisor.network.pending import Pending, UnderWay
from sentinel_kernel.supervisor.network.sockets import cookie_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sentinel_kernel.linux.network import LiveSocket

pytestmark = [pytest.mark.usefixtures("own_alarm"), pytest.mark.timeout(600, method="thread")]


_ADDRESS = bytes((93, 184, 216, 34))


def _question(number: int, kind: int) -> bytes:
    name = b"".join(bytes([len(label)]) + label for label in (b"a", b"example", b"org")) + b"\0"
    packet = struct.pack("!HHHHHH", number, 0x100, 1, 0, 0, 0) + name + struct.pack("!HH", kind, 1)
    return struct.pack("!H", len(packet)) + packet


def _way_out() -> Any:
    made: Any = way_out.WayOut(None, lambda _: None)  # type: ignore[arg-type]
    network = SimpleNamespace(allow=True, hosts=("pypi.org:443",), allow_dns=True)
    made._current = SimpleNamespace(preparation=SimpleNamespace(profile=SimpleNamespace(network=network)))
    return made


def test_without_the_machines_addresses_the_last_known_ones_count_or_nothing_is_allowed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answers: list[frozenset[bytes] | None] = [None, frozenset({_ADDRESS}), None]

    def asked() -> frozenset[bytes]:
        found = answers.pop(0)
        if found is None:
            raise OSError(errno.EMFILE, "Too many open files")
        return found

    monkeypatch.setattr(way_out, "own_addresses", asked)
    made = _way_out()
    assert made.policy() == NetworkPolicy()
    made._own_until = 0.0
    known = made.policy()
    assert known.own == {_ADDRESS}
    assert known.resolves("pypi.org")
    made._own_until = 0.0
    assert made.policy() == known
    assert answers == []


def test_hosts_at_one_address_are_told_by_the_name_that_was_looked_up_last(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(way_out, "own_addresses", frozenset)
    monkeypatch.setattr(way_out, "_DECIDED_SECONDS", 3600.0)
    made: Any = way_out.WayOut(None, lambda _: None)  # type: ignore[arg-type]
    hosts = ("a.example.org:443", "b.example.org:443")
    network = SimpleNamespace(allow=True, hosts=hosts, allow_dns=True)
    preparation = SimpleNamespace(
        plan=SimpleNamespace(fenced=True), profile=SimpleNamespace(network=network), hosts=()
    )
    handler = SimpleNamespace(policy=SimpleNamespace(architecture=SimpleNamespace(syscalls={})))
    sandbox = SimpleNamespace(listener=None, sockets={})
    made.sandbox_ready(SimpleNamespace(preparation=preparation, handler=handler, sandbox=sandbox), 1)
    asked: list[str] = []

    def look_up(name: str, found: Any) -> None:
        asked.append(name)
        found((_ADDRESS,))

    monkeypatch.setattr(made._names.resolver, "look_up", look_up)

    def connected_after(name: str) -> list[str]:
        made._names.look_up(f"{name}.example.org", made.policy(), lambda _: None)
        return [made._decide(_ADDRESS, 443)[0] for _ in range(2)]

    told = [connected_after(name) for name in "aba"]
    assert told == [[f"{name}.example.org"] * 2 for name in "aba"]
    assert asked == ["a.example.org", "b.example.org"], "the third answer is one that was kept"
    made.close()


@contextlib.contextmanager
def _stub(
    policy: Any, addresses: tuple[bytes, ...] = (bytes((1, 2, 3, 4)),), unknown: Any = None
) -> Iterator[tuple[NameStub, socket.socket]]:
    class Known:
        def look_up(self, _name: str, _policy: object, done: Any) -> None:
            done(addresses)

    with (
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as datagrams,
        socket.create_server(("127.0.0.1", 0)) as listening,
        socket.create_connection(listening.getsockname(), timeout=30) as client,
    ):
        stub = NameStub(datagrams, listening, Known(), policy, lambda *_: None, unknown)  # type: ignore[arg-type]
        stub.serve({listening.fileno(): 1})
        yield stub, client
        stub.close()


def test_each_question_of_a_segment_is_answered() -> None:
    policy = NetworkPolicy((parse_rule("a.example.org:80"),))
    with _stub(lambda: policy) as (stub, client), client.makefile("rb") as said:
        client.sendall(_question(1, 1) + _question(2, 28) + _question(3, 1)[:5])
        stub.serve(dict.fromkeys(stub.descriptors(), 1))
        numbers = [said.read(int.from_bytes(said.read(2), "big"))[:2] for _ in range(2)]
        assert numbers == [b"\0\1", b"\0\2"]


def test_a_question_that_cannot_be_answered_ends_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    def broken() -> NetworkPolicy:
        raise OSError(errno.EMFILE, "Too many open files")

    with _stub(broken) as (stub, client):
        client.sendall(_question(1, 1))
        stub.serve(dict.fromkeys(stub.descriptors(), 1))
    assert "Too many open files" in capfd.readouterr().err


def test_a_listed_name_that_nobody_knows_is_told_once_and_counted() -> None:
    noted: list[Connection] = []
    told = Connections(noted.append)
    policy = NetworkPolicy((parse_rule("a.example.org:80"),))
    with _stub(lambda: policy, (), told.unknown) as (stub, client):
        client.sendall(_question(1, 1) + _question(2, 28))
        stub.serve(dict.fromkeys(stub.descriptors(), 1))
    assert [(one.host, one.port, one.verdict, one.error, one.count) for one in told.told] == [
        ("a.example.org", 0, "failed", 0, 2)
    ]
    told.close()
    assert sum(one.count for one in noted) == 2


def test_few_names_are_known_of_one_address_and_old_ones_are_dropped() -> None:
    names: Any = Names()
    now = time.monotonic()
    names._pin(_ADDRESS, "old.example.org", now - 4000)
    names._pin(_ADDRESS, "new.example.org", now)
    assert list(names._pins[_ADDRESS]) == ["new.example.org"]
    for number in range(3600):
        names._pin(_ADDRESS, f"x{number}.example.org", now)
    names._pin(_ADDRESS, "x3590.example.org", now)
    assert len(names._pins[_ADDRESS]) == 16
    assert "x3590.example.org" in names.of(_ADDRESS)
    assert "new.example.org" not in names.of(_ADDRESS)
    names.close()


def test_a_flood_of_refused_names_is_few_rows_that_add_up() -> None:
    noted: list[Connection] = []
    told = Connections(noted.append)
    told.refused("first.example", "", 0, "not-listed")
    for number in range(20000):
        told.refused(f"{number % 2}.example", "", 0, "not-listed")
    assert [one.host for one in noted[:3]] == ["first.example", "0.example", "1.example"]
    assert len(noted) < 100
    assert [(one.host, one.count) for one in told.told] == [
        ("first.example", 1),
        ("0.example", 10000),
        ("1.example", 10000),
    ]
    for number in range(20000):
        told.refused(f"n{number}.example", "", 0, "not-listed")
    assert len(noted) < 600
    told.close()
    assert len(noted) < 900
    assert sum(one.count for one in noted) == 40001


def test_failed_ones_and_the_first_of_a_kind_are_noted_at_once() -> None:
    noted: list[Connection] = []
    told = Connections(noted.append)
    for _ in range(1000):
        told.failed(told.begin("h.example", _ADDRESS, 80, "h.example:80"), errno.ECONNREFUSED)
    told.refused("other.example", "", 0, "not-listed")
    assert [one.verdict for one in (noted[0], noted[-1])] == ["failed", "refused"]
    assert len(noted) < 50
    told.close()
    assert sum(one.count for one in noted) == 1001


def test_ends_that_were_missed_are_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    noted: list[Connection] = []
    told = Connections(noted.append)
    with socket.create_server(("127.0.0.1", 0)) as server:
        kept, gone = (socket.create_connection(server.getsockname()) for _ in range(2))
        for host, sock in (("kept.example", kept), ("gone.example", gone)):
            told.established(told.begin(host, _ADDRESS, 80, ""), cookie_of(sock), 0)
        cookie = cookie_of(gone)
        assert cookie in live_sockets()
        gone.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        gone.close()
        assert cookie not in live_sockets()
        monkeypatch.setattr(connections, "read_ends", lambda _: iter([(b"", b"")]))
        told.serve()
        assert [one.host for one in noted] == ["gone.example"]
        assert told.has_open
        kept.close()
        told.close()


def test_ends_that_come_close_together_are_looked_at_together() -> None:
    noted: list[Connection] = []
    told = Connections(noted.append)
    with socket.create_server(("127.0.0.1", 0)) as server:
        socks = [socket.create_connection(server.getsockname()) for _ in range(2)]
        for number, sock in enumerate(socks):
            told.established(told.begin(f"{number}.example", _ADDRESS, 80, ""), cookie_of(sock), 0)
        watched = told.descriptors()
        assert len(watched) == 1
        told.serve()
        assert told.descriptors() == []
        due = told.due_seconds()
        assert due is not None
        assert 0 < due <= connections._ENDS_SECONDS
        for sock in socks:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            sock.close()
        wait_until(lambda: told.descriptors() == watched, "they may be looked at again")
        told.serve()
        assert [one.host for one in noted] == ["0.example", "1.example"]
        assert told.due_seconds() is None
    told.close()


def under_way(told: Connections, number: int) -> UnderWay:
    """Return a held call of that number, whose socket is connected to nobody."""
    row = told.begin(f"{number}.example", _ADDRESS, 80, "")
    call: Any = SimpleNamespace(notification=SimpleNamespace(id=number))
    return UnderWay(call, socket.socket(), None, row)


def test_pending_connections_of_callers_that_are_gone_are_let_go() -> None:
    noted: list[Connection] = []
    refused: list[tuple[int, int]] = []
    told = Connections(noted.append)
    valid = {1: True, 2: False, 3: True}
    listener: Any = SimpleNamespace(is_valid=valid.__getitem__, refuse=lambda *of: refused.append(of))
    made: Any = Pending(listener, told, lambda *_: None)
    for number in valid:
        made.add(under_way(told, number))
    assert made.due_seconds() <= 1.0
    made._look_at = 0.0
    made.catch_up()
    assert [one.host for one in noted] == ["2.example"]
    assert len(made._all) == 2
    made.end(lambda one: one.made.host == "3.example", errno.ENETUNREACH)
    assert [(one.host, one.verdict, one.error) for one in noted[1:]] == [
        ("3.example", "failed", errno.ENETUNREACH)
    ]
    assert refused == [(3, errno.ENETUNREACH)]
    valid[1] = False
    made._let_go()
    assert made._all == {}
    made.close()
    told.close()


def test_a_connection_that_can_not_be_given_is_let_go_of_whatever_went_wrong() -> None:
    def broken(*_: object, **__: object) -> bool:
        raise MemoryError

    told = Connections(lambda _: None)
    listener: Any = SimpleNamespace(put_file=broken)
    made: Any = Connects(listener, {}, lambda *_: ("", None), lambda *_: None, told)  # type: ignore[arg-type,return-value]
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket() as own:
        sock = socket.create_connection(server.getsockname())
        notification = SimpleNamespace(id=1, thread=os.getpid(), arguments=(own.fileno(),))
        call: Any = SimpleNamespace(notification=notification)
        with pytest.raises(MemoryError):
            made._finish(UnderWay(call, sock, None, told.begin("a.example", _ADDRESS, 80, "")), True)
        assert sock.fileno() == -1
    made.close()
    told.close()


def test_a_connection_that_no_program_has_is_found_and_ended() -> None:
    """It lies in a message from one program to another."""
    told = Connections(lambda _: None)
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_connection(server.getsockname()) as hidden,
        socket.create_connection(server.getsockname()) as closed,
    ):
        for host, sock in (("hidden.example", hidden), ("closed.example", closed)):
            inode = os.fstat(sock.fileno()).st_ino
            told.established(told.begin(host, _ADDRESS, 80, ""), cookie_of(sock), inode)
        cookie, inode = cookie_of(hidden), os.fstat(hidden.fileno()).st_ino
        closed.close()  # the other end is open still: it goes on by itself, and is nobody's
        ours, theirs = socket.socketpair()
        socket.send_fds(ours, [b"x"], [hidden.fileno()])
        hidden.close()
        [found] = told.still_held(lambda _: True)
        assert live_sockets()[cookie] == found
        assert found.inode == inode
        assert told.still_held(lambda one: one.host == "closed.example") == []
        if os.geteuid() == 0:
            end_socket(found)
            assert cookie not in live_sockets()
            _, [number], _, _ = socket.recv_fds(theirs, 1, 1)
            with socket.socket(fileno=number) as received, pytest.raises(ConnectionAbortedError):
                received.recv(1)
            with pytest.raises(FileNotFoundError):
                end_socket(found)
        ours.close()
        theirs.close()
    told.close()


@pytest.mark.parametrize("may", [True, False])
def test_where_such_a_connection_can_not_be_ended_the_worker_is(
    monkeypatch: pytest.MonkeyPatch, may: bool
) -> None:
    tried: list[int] = []

    def end(one: LiveSocket) -> None:
        tried.append(one.inode)
        if not may:
            raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(way_out, "end_socket", end)
    made = _way_out()
    before, after = SimpleNamespace(), SimpleNamespace()
    made._compared = before
    made._policy = NetworkPolicy((parse_rule("other.example"),))
    profile = SimpleNamespace(network=after)
    made._current = SimpleNamespace(
        preparation=SimpleNamespace(profile=profile),
        sandbox=SimpleNamespace(pid=os.getpid()),
        handler=SimpleNamespace(),
    )
    monkeypatch.setattr(way_out, "policy_of", lambda *_: made._policy)
    monkeypatch.setattr(way_out, "processes_below", lambda _: [os.getpid()])
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_connection(server.getsockname()) as held,
        socket.create_connection(server.getsockname()) as hidden,
    ):
        told = made._connections
        for sock in (held, hidden):
            inode = os.fstat(sock.fileno()).st_ino
            told.established(told.begin("host.example", _ADDRESS, 80, ""), cookie_of(sock), inode)
        hidden_inode = inode
        ours, theirs = socket.socketpair()
        socket.send_fds(ours, [b"x"], [hidden.fileno()])
        hidden.close()
        assert made.policy().rules, (
            "who asks for the hosts in force meanwhile, as look-ups do, makes no difference"
        )
        assert made.catch_up() == (None if may else {"kind": "connection"})
        assert tried == [hidden_inode]
        assert held.recv(1) == b"", "one that a program has is shut down there"
        assert made.catch_up() is None
        ours.close()
        theirs.close()
    made.close()
