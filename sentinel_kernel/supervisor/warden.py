"""Keeps the processes of a sandbox that has no process namespace: one that all of them descend from, and go with.

What a program leaves behind (fork, setsid, exit) is passed to init, and where that is gone to the warden, which ends
it. It is asked to end by the supervisor, or ends with it or with init; then everything below it is killed, and the
sandbox's own folders are removed.
"""

from __future__ import annotations

import contextlib
import os
import resource
import select
import signal
import socket

from sentinel_kernel.abi.prctl import PR_SET_PDEATHSIG
from sentinel_kernel.abi.resource import RLIMIT_LOCKS
from sentinel_kernel.linux.process import adopt_orphans, close_descriptors, control
from sentinel_kernel.policy.stray_marks import warden_mark
from sentinel_kernel.supervisor.by_number import limit_held
from sentinel_kernel.supervisor.processes import descends, processes_below

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

END = b"end"
_LAST = 0x7FFFFFFF
_PAUSE_MS, _LONGEST_PAUSE_MS = 2, 1000
"""Between looks at what does not die: it may be stuck in the Linux kernel for hours."""


def guard(
    word: socket.socket,
    supervisor: int,
    start: Callable[[], None],
    clean: Callable[[], None],
    kept: tuple[int, ...] = (),
    mark: int = 0,
) -> None:
    """Run as the warden of what ``start`` becomes, which never returns; for a fresh child; never returns.

    Over ``word`` the supervisor is given a pidfd of the sandbox's first process beside ``pid NUMBER``, and told
    ``exit STATUS`` (waitpid(2)) when nothing is left of the sandbox. ``clean`` is called after that; the
    descriptors ``kept`` are its. ``supervisor`` is the process id of who ends us; ``mark`` the sandbox's, by which
    its processes are found where we are gone as well.
    """
    try:
        if mark:
            resource.setrlimit(RLIMIT_LOCKS, (warden_mark(mark), warden_mark(mark)))
        adopt_orphans()
        os.setsid()
        signal.set_wakeup_fd(-1)
        first = os.fork()
        if first == 0:
            for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
                signal.signal(number, signal.SIG_DFL)
            start()
            os._exit(1)
        _Warden(word, supervisor, first).keep(kept)
        clean()
    finally:
        os._exit(0)


class _Warden:
    def __init__(self, word: socket.socket, supervisor: int, first: int) -> None:
        self._word = word
        self._supervisor = supervisor
        self._first = first
        self._status: int | None = None

    def keep(self, kept: tuple[int, ...]) -> None:
        """Wait until the sandbox is to end, end it, and say so."""
        ready, wake = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        for number in (signal.SIGTERM, signal.SIGCHLD, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, lambda _number, _frame: None)
        control(PR_SET_PDEATHSIG, signal.SIGTERM)
        pidfd = os.pidfd_open(self._first)
        self._word.setblocking(False)
        with contextlib.suppress(OSError):
            socket.send_fds(self._word, [b"pid %d" % self._first], [pidfd])
        os.close(pidfd)
        _close_all_but(self._word.fileno(), ready, wake, *kept)
        poll = select.poll()
        poll.register(self._word, select.POLLIN)
        poll.register(ready, select.POLLIN)
        while os.getppid() == self._supervisor and self._status is None:
            if any(descriptor != ready for descriptor, _ in poll.poll()):
                break
            with contextlib.suppress(BlockingIOError):
                os.read(ready, 4096)
            self._reap()
        poll.unregister(self._word)
        self._end_all(poll, ready)
        with contextlib.suppress(OSError):
            self._word.send(b"exit %d" % (self._status or 0))
        self._word.close()

    def _end_all(self, poll: select.poll, ready: int) -> None:
        """Kill until nothing is left; ``poll`` waits for ``ready``, which signals write to."""
        own, pause = os.getpid(), _PAUSE_MS
        while below := [pid for pid in processes_below(own) if pid != own]:
            for pid in below:
                _kill(pid, own)
            if self._reap():
                pause = _PAUSE_MS
                continue
            poll.poll(pause)
            pause = min(2 * pause, _LONGEST_PAUSE_MS)
            with contextlib.suppress(BlockingIOError):
                os.read(ready, 4096)

    def _reap(self) -> bool:
        reaped = False
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return True
            if pid == 0:
                return reaped
            reaped = True
            if pid == self._first:
                self._status = status


def _kill(pid: int, own: int) -> None:
    """Kill ``pid`` if it is one of ours: its number may be another one's by now. It forks no more in between."""
    try:
        pidfd = os.pidfd_open(pid)
    except OSError:
        return
    try:
        if descends(pid, own):
            with contextlib.suppress(OSError, ValueError):
                limit_held(pidfd, pid, resource.RLIMIT_NPROC, 0)
            signal.pidfd_send_signal(pidfd, signal.SIGKILL)
    except ProcessLookupError:
        pass  # it has ended by itself
    finally:
        os.close(pidfd)


def _close_all_but(*kept: int) -> None:
    """Close all that the supervisor has open: held here too, nobody would see it closed there."""
    after = 3
    for descriptor in sorted(kept):
        if descriptor > after:
            close_descriptors(after, descriptor - 1)
        after = descriptor + 1
    close_descriptors(after, _LAST)
