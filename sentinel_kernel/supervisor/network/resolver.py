"""Looks names up outside, in processes of their own: the C library's look-up may wait for a server for long."""

from __future__ import annotations

import json
import os
import resource
import signal
import socket
import time

from sentinel_kernel.linux.process import close_descriptors, die_with_parent
from sentinel_kernel.policy.network import plain_address
from sentinel_kernel.record import MutableRecord
from sentinel_kernel.supervisor.killed_children import unreaped

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import NoReturn

    Done = Callable[["tuple[bytes, ...] | None"], None]

ANSWER_SECONDS = 5.0
"""So long a look-up may take; programs inside wait a little longer."""

_PROCESSES = 4
_WAITING = 64
_IDLE_SECONDS = 30.0
_ANSWER_BYTES = 8192
_MOST_ADDRESSES = 32
_MEMORY_BYTES = 256 << 20


class _Process(MutableRecord):
    """One forked resolver; ``done`` is whom its answer is for, None while it has nothing to do."""

    pid: int
    sock: socket.socket
    done: Done | None = None
    until: float = 0.0


class Resolver:
    """Up to four processes that look names up, made when they are needed, ended when they idle."""

    def __init__(self) -> None:
        """Start without any."""
        self._processes: list[_Process] = []
        self._waiting: list[tuple[str, float, Done]] = []
        self._dying: list[int] = []

    def look_up(self, name: str, done: Done) -> None:
        """Call ``done`` with the addresses of ``name``, 4 or 16 bytes each; with None where nobody can tell now."""
        if len(self._waiting) >= _WAITING:
            done(None)
            return
        self._waiting.append((name, time.monotonic() + ANSWER_SECONDS, done))
        self._hand_out()

    def _hand_out(self) -> None:
        while self._waiting:
            free = next((one for one in self._processes if one.done is None), None)
            if free is None and len(self._processes) < _PROCESSES:
                free = self._start()
            if free is None:
                break
            name, until, done = self._waiting.pop(0)
            try:
                free.sock.send(name.encode("ascii"))
            except OSError:
                self._end(free)
                done(None)
                continue
            free.done, free.until = done, until
        if self._waiting and not self._processes:  # none can be made: nobody can tell
            waiting, self._waiting = self._waiting, []
            for _, _, done in waiting:
                done(None)

    def _start(self) -> _Process | None:
        try:
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        except OSError:
            return None
        try:
            pid = os.fork()
        except OSError:
            ours.close()
            theirs.close()
            return None
        if pid == 0:
            _serve(theirs.fileno())
        theirs.close()
        ours.setblocking(False)
        made = _Process(pid, ours, None, time.monotonic() + _IDLE_SECONDS)
        self._processes.append(made)
        return made

    def descriptors(self) -> Iterable[int]:
        """Return what is readable when there is an answer."""
        return [one.sock.fileno() for one in self._processes]

    def due_seconds(self) -> float | None:
        """Return when something is to be given up."""
        dues = [one.until for one in self._processes] + [until for _, until, _ in self._waiting]
        return max(0.0, min(dues) - time.monotonic()) if dues else None

    def serve(self, ready: dict[int, int]) -> None:
        """Take the answers."""
        for one in [one for one in self._processes if one.sock.fileno() in ready]:
            try:
                packet = one.sock.recv(_ANSWER_BYTES)
            except BlockingIOError:
                continue
            except OSError:
                packet = b""
            done, one.done = one.done, None
            one.until = time.monotonic() + _IDLE_SECONDS
            if not packet or done is None:
                self._end(one)
            if done is not None:
                done(_read_answer(packet))
        self._hand_out()

    def catch_up(self) -> None:
        """Give up what takes too long, and what idles."""
        now = time.monotonic()
        late = [done for _, until, done in self._waiting if until <= now]
        self._waiting = [entry for entry in self._waiting if entry[1] > now]
        for one in [one for one in self._processes if one.until <= now]:
            done = one.done
            self._end(one)
            if done is not None:
                late.append(done)
        for done in late:
            done(None)
        if late:
            self._hand_out()
        self._dying = unreaped(self._dying)

    def close(self) -> None:
        """End them all, and tell nobody."""
        for one in list(self._processes):
            self._end(one)
        self._waiting.clear()

    def _end(self, one: _Process) -> None:
        self._processes.remove(one)
        one.sock.close()
        os.kill(one.pid, signal.SIGKILL)  # not reaped yet: the number is its own
        self._dying.append(one.pid)
        self._dying = unreaped(self._dying)


def _read_answer(packet: bytes) -> tuple[bytes, ...] | None:
    """Return the addresses of an answer, () for a name that has none, None where the look-up failed."""
    try:
        told = json.loads(packet)
        return None if told is None else tuple(bytes.fromhex(text) for text in told)
    except (ValueError, TypeError, RecursionError):
        return None


# --- in the child


def _serve(descriptor: int) -> NoReturn:
    """Look up what is asked for until the supervisor is gone; it shares that one's pages and nothing else."""
    try:
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)
        die_with_parent()
        os.dup2(descriptor, 3)
        close_descriptors(4, 0x7FFFFFFF)
        resource.setrlimit(resource.RLIMIT_DATA, (_MEMORY_BYTES, _MEMORY_BYTES))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        sock = socket.socket(fileno=3)
        while packet := sock.recv(512):
            sock.send(json.dumps(_look_up(packet.decode("ascii"))).encode("ascii"))
    except BaseException:  # noqa: BLE001 - a fork must never go on with the supervisor's work
        os._exit(1)
    os._exit(0)


def _look_up(name: str) -> list[str] | None:
    try:
        # With the dot at its end: no domain of this machine's own is tried behind it.
        found = socket.getaddrinfo(f"{name}.", None, type=socket.SOCK_STREAM)
    except socket.gaierror as error:
        if error.errno not in (socket.EAI_NONAME, socket.EAI_NODATA):
            return None
        try:
            found = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)  # /etc/hosts knows no such dot
        except socket.gaierror as again:
            return [] if again.errno in (socket.EAI_NONAME, socket.EAI_NODATA) else None
    except (OSError, UnicodeError):
        return None
    addresses = {}
    for family, _, _, _, where in found:
        host = str(where[0]).partition("%")[0]
        if family in (socket.AF_INET, socket.AF_INET6):
            addresses[plain_address(socket.inet_pton(family, host)).hex()] = True
    return list(addresses)[:_MOST_ADDRESSES]
