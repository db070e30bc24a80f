"""What was taken from the sandbox keeps the supervisor waiting neither when it is let go of, nor when it is read."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import struct
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from waiting import wait_until

from sentinel_kernel.supervisor.network import epolls
from sentinel_kernel.supervisor.network.epolls import Watches
from sentinel_kernel.supervisor.network.taken import let_go

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


def test_what_a_program_watches_is_found_within_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    with contextlib.ExitStack() as stack:
        sock = stack.enter_context(socket.socket())
        epolls_made = [stack.enter_context(select.epoll()) for _ in range(40)]
        for one in epolls_made:
            one.register(sock.fileno(), select.EPOLLIN)
        watches = Watches()
        found = watches.of(os.getpid(), sock.fileno())
        assert {one.epoll for one in found} < {one.fileno() for one in epolls_made}
        assert 0 < len(found) <= 32  # fewer on a busy machine: the time is bounded too
        assert {one.data & 0xFFFFFFFF for one in found} == {sock.fileno()}
        # The time that it takes is bounded as well, by sets; and after one that took far too long none is read.
        monkeypatch.setattr(epolls, "_WORK_SECONDS", -1.0)
        assert len(watches.of(os.getpid(), sock.fileno())) == 1
        monkeypatch.setattr(epolls, "_FAR_TOO_LONG_SECONDS", -1.0)
        assert len(watches.of(os.getpid(), sock.fileno())) == 1
        assert watches.of(os.getpid(), sock.fileno()) == []
