"""Files that the sandbox has, or had: the supervisor's copy is let go of without waiting, whatever they are set to.

The copy may be the last one by then, and closing the last one of a socket with SO_LINGER waits until its data is
sent, for as long as the program said. No check before helps, the option may be set after it. A signal ends that wait,
and the data is sent all the same.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket

from sentinel_kernel.linux.process import open_thread, take_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

_LONGEST_SECONDS = 0.002
"""A close takes no longer; the timer goes on, as its first signal may come before the close has begun to wait."""

_ready = False


def _ring(_number: int, _frame: object) -> None:
    """Do nothing: that there is a handler makes the signal end a wait, and not the process."""


def take(thread: int, process: int, number: int) -> int:
    """Return a duplicate of what a thread of ``process`` has open as ``number``.

    Raises:
        OSError: there is nothing of that number, or the thread is gone.

    """
    pidfd = open_thread(thread, process)
    try:
        return take_file(pidfd, number)
    finally:
        os.close(pidfd)


def take_socket(thread: int, process: int, number: int) -> socket.SocketType | None:
    """Return the socket that a thread has open as ``number``; None where that is something else. Raises as above."""
    taken = take(thread, process, number)
    try:
        return socket.SocketType(fileno=taken)  # whose family and type are numbers as they are
    except OSError:
        close_file(taken)
        return None


def close_file(*descriptors: int) -> None:
    """Close descriptors."""
    global _ready  # noqa: PLW0603 - a signal's handler is the whole process's
    if not _ready:
        signal.signal(signal.SIGALRM, _ring)
        _ready = True
    signal.setitimer(signal.ITIMER_REAL, _LONGEST_SECONDS, _LONGEST_SECONDS)
    try:
        for descriptor in descriptors:
            os.close(descriptor)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def let_go(*socks: socket.SocketType) -> None:
    """Close sockets; one that is closed already stays so."""
    descriptors = [descriptor for sock in socks if (descriptor := sock.detach()) >= 0]
    if descriptors:
        close_file(*descriptors)


@contextlib.contextmanager
def held(sock: socket.SocketType) -> Iterator[socket.SocketType]:
    """Have a socket, and let go of it."""
    try:
        yield sock
    finally:
        let_go(sock)
