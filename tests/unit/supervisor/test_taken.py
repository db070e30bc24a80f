"""What was taken from the sandbox keeps the supervisor waiting neither when it is let go of, nor when it is read."""

from __future__ import annotations

import contextlib
import errno
import os
import select
import signal
import socket
import struct
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from waiting import wait_until

from sentinel_kernel.supervisor.live_mounts import alone
from sentinel_kernel.supervisor.network import epolls
from sentinel_kernel.supervisor.network.epolls import Unwatched, Watches
from sentinel_kernel.supervisor.network.taken import close_file, let_go

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.usefixtures("own_alarm"), pytest.mark.timeout(600, method="thread")]


AN_HOUR = struct.pack("ii", 1, 3600)


@contextlib.contextmanager
def lingering() -> Iterator[tuple[socket.socket, socket.socket]]:
    """Return a socket whose last close waits an hour for data that nobody reads, and its other end."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        made = socket.create_connection(server.getsockname())
        other, _ = server.accept()
    with other, made:
        made.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            while True:
                made.send(bytes(65536))
        made.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, AN_HOUR)
        yield made, other
        made.detach()


def test_a_socket_that_lingers_is_let_go_of_at_once_and_its_data_is_sent_all_the_same() -> None:
    before = signal.getsignal(signal.SIGALRM)
    with lingering() as (made, other):
        let_go(made)
        assert made.fileno() == -1
        assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
        size = 0
        while data := other.recv(1 << 20):
            size += len(data)
        assert size > 65536
    let_go(made)  # once more: there is nothing left to close
    signal.signal(signal.SIGALRM, before if before is not None else signal.SIG_DFL)


def test_without_that_its_close_waits() -> None:
    with lingering() as (made, _):
        ours, theirs = socket.socketpair()
        pid = os.fork()
        if pid == 0:
            ours.close()
            theirs.recv(1)  # from there on the child's is the last one
            theirs.send(b"x")
            os.close(made.fileno())
            os._exit(0)
        os.close(made.detach())
        with ours, theirs:
            ours.send(b"x")
            assert ours.recv(1) == b"x"
            stat = Path(f"/proc/{pid}/stat")
            wait_until(lambda: stat.read_text().rpartition(")")[2].split()[0] == "S", "the close waits")
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


@pytest.mark.parametrize("by_itself", [True, False])
def test_an_alarm_ends_a_process_that_works_by_itself_though_such_a_file_was_closed(by_itself: bool) -> None:
    pid = os.fork()
    if pid == 0:
        try:
            close_file(os.dup(0))
            if by_itself:
                alone(())
            signal.raise_signal(signal.SIGALRM)
        finally:
            os._exit(0)
    # Positive control: with what the fork has taken over it goes on.
    assert os.waitpid(pid, 0)[1] == (signal.SIGALRM if by_itself else 0)


@contextlib.contextmanager
def watched(sets: int) -> Iterator[tuple[socket.socket, list[select.epoll]]]:
    """Return a socket that so many epoll sets watch, and those."""
    with contextlib.ExitStack() as stack:
        sock = stack.enter_context(socket.socket())
        made = [stack.enter_context(select.epoll()) for _ in range(sets)]
        for one in made:
            one.register(sock.fileno(), select.EPOLLIN)
        yield sock, made


def found(watches: Watches, sock: socket.socket) -> set[int]:
    """Return the sets that are found to watch a socket of this process."""
    told = watches.of(os.getpid(), sock.fileno())
    assert {one.data & 0xFFFFFFFF for one in told} <= {sock.fileno()}
    return {one.epoll for one in told}


def numbers(sets: list[select.epoll]) -> set[int]:
    return {one.fileno() for one in sets}


def test_all_that_watches_a_socket_is_found_or_it_is_said_that_it_can_not_be() -> None:
    with watched(32) as (sock, sets), socket.socket() as other:
        assert found(Watches(), sock) == numbers(sets)
        assert found(Watches(), other) == set()
        for one in sets:
            one.register(other.fileno(), select.EPOLLOUT)
        assert found(Watches(), other) == numbers(sets)
    with watched(33) as (sock, _), pytest.raises(Unwatched):
        found(Watches(), sock)


def test_a_number_that_another_file_had_before_is_not_taken_for_its_registration() -> None:
    with watched(1) as (sock, [old]), socket.socket() as fresh:
        kept = os.dup(sock.fileno())  # so that the set goes on watching the file that had the number
        os.dup2(fresh.fileno(), sock.fileno())
        assert found(Watches(), sock) == set()
        os.dup2(kept, sock.fileno())
        os.close(kept)
        assert found(Watches(), sock) == numbers([old])


def test_without_kcmp_a_set_is_read_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(*_: object) -> bool:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))

    monkeypatch.setattr(epolls, "watches", absent)
    with watched(3) as (sock, sets), socket.socket() as other:
        assert found(Watches(), sock) == numbers(sets)
        assert found(Watches(), other) == set()


@pytest.mark.parametrize("bound", ["_MOST_FILES", "_MOST_BYTES", "_MOST_FOUND", "_WALK_SECONDS"])
def test_beyond_each_bound_nothing_is_left_out_in_silence(
    monkeypatch: pytest.MonkeyPatch, bound: str
) -> None:
    with watched(2) as (sock, sets):
        watches = Watches()
        monkeypatch.setattr(epolls, bound, 1 if bound.startswith("_MOST") else -1.0)
        with pytest.raises(Unwatched):
            found(watches, sock)
        monkeypatch.undo()
        assert found(watches, sock) == numbers(sets), "the next one is looked for as ever"


def test_after_far_too_much_work_there_is_a_pause_and_then_it_is_looked_for_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = [1000.0]
    work = [0.0]
    monkeypatch.setattr(epolls, "_spent", lambda: (work[0], 0, clock[0]))
    monkeypatch.setattr(epolls.time, "monotonic", lambda: clock[0])

    def working(spent: float, busy: float) -> Watches:
        """Have the look-up take so much work, and so long besides on a busy machine."""
        reading = epolls._read

        def read(*of: int) -> list[epolls.Registration]:
            work[0] += spent
            clock[0] += spent + busy
            return reading(*of)

        watches = Watches()
        with monkeypatch.context() as patched:
            patched.setattr(epolls, "_read", read)
            if spent > epolls._WORK_SECONDS:
                with pytest.raises(Unwatched):
                    found(watches, sock)
            else:
                assert found(watches, sock) == numbers(sets)
        return watches

    with watched(1) as (sock, sets):
        assert found(working(0.2, busy=1000.0), sock) == numbers(sets), "a busy machine is no reason"
        watches = working(0.5, busy=0.0)
        with pytest.raises(Unwatched):
            found(watches, sock)
        clock[0] += 10.1
        assert found(watches, sock) == numbers(sets)


@pytest.mark.parametrize("bound", ["found", "work"])
def test_beyond_a_bound_no_further_set_is_gone_through(monkeypatch: pytest.MonkeyPatch, bound: str) -> None:
    looked: list[int] = []
    reading = epolls._read
    clock = [0.0]

    def read(*of: int) -> list[epolls.Registration]:
        looked.append(of[1])
        clock[0] += 0.6 * epolls._WORK_SECONDS if bound == "work" else 0.0
        return reading(*of)

    with watched(120) as (sock, _):
        monkeypatch.setattr(epolls, "_read", read)
        monkeypatch.setattr(epolls, "_spent", lambda: (clock[0], 0, clock[0]))
        monkeypatch.setattr(epolls.time, "monotonic", lambda: clock[0])
        with pytest.raises(Unwatched):
            found(Watches(), sock)
    assert len(looked) == (33 if bound == "found" else 2)


def test_a_descriptor_of_ones_own_that_cannot_be_kept_is_not_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> int:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    with socket.socket() as own, socket.socket() as other:
        status = os.fstat(own.fileno())
        with monkeypatch.context() as patched:
            patched.setattr(os, "dup", full)
            with (
                pytest.raises(OSError, match="Too many open files"),
                epolls._known_as(other.fileno(), own.fileno()),
            ):
                pass
        assert os.path.samestat(os.fstat(own.fileno()), status)


@pytest.mark.parametrize("taken", [False, True])
def test_a_socket_is_registered_under_the_programs_number_whoever_has_it_here(taken: bool) -> None:
    """``taken``: this process has something else of that number, which it has again afterwards."""
    ours, theirs = socket.socketpair()
    program = os.fork()
    if program == 0:
        try:
            ours.close()
            with select.epoll() as waits:
                theirs.send(b"%d" % waits.fileno())
                theirs.recv(1)
                theirs.send(b"%d %d" % waits.poll(60)[0])
                theirs.recv(1)
        finally:
            os._exit(0)
    theirs.close()
    with ours, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as replacing:
        epoll = int(ours.recv(9))
        replacing.bind(("127.0.0.1", 0))
        if taken:
            os.dup2(ours.fileno(), 700)
        before = os.fstat(700).st_ino if taken else None
        files = len(os.listdir("/proc/self/fd"))
        registration = epolls.Registration(epoll, select.EPOLLIN, 4711)
        Watches().move(program, 700, replacing.fileno(), [registration, registration])
        assert len(os.listdir("/proc/self/fd")) == files
        if taken:
            assert os.fstat(700).st_ino == before
            os.close(700)
        replacing.sendto(b"x", replacing.getsockname())
        ours.send(b"x")
        assert ours.recv(99) == b"4711 %d" % select.EPOLLIN
        ours.send(b"x")
    os.waitpid(program, 0)
