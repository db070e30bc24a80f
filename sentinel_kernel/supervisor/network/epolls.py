"""Registrations in epoll(7): a socket that takes the place of another is watched as that one was.

A registration is of an open file and a number. Who puts another file under the number loses it; some programs (Go's)
register before they connect.
"""

from __future__ import annotations

import itertools
import os
import time

from sentinel_kernel.linux.epoll import add
from sentinel_kernel.linux.process import open_thread, take_file
from sentinel_kernel.record import Record

_MOST_FILES = 1024
_MOST_SETS = 32
_MOST_FOUND = 32
_MOST_BYTES = 256 * 1024
"""So much is read of one set: some 3,500 registrations."""
_WORK_SECONDS, _SECONDS = 0.01, 0.1
"""Work and time for one connection; a set more is not begun after that."""
_FAR_TOO_LONG_SECONDS = 1.0
_EPOLL = "anon_inode:[eventpoll]"


class Registration(Record):
    """That an epoll set, under ``epoll`` in its program, watches a number for ``events`` and says ``data`` then."""

    epoll: int
    events: int
    data: int


class Watches:
    """Finds and moves the registrations of one sandbox's sockets, within bounds.

    A program decides how many sets it has, and how many descriptors they watch. Beyond the bounds a registration is
    not found, and the program not told of its socket.
    """

    def __init__(self) -> None:
        """Begin with all bounds kept."""
        self._given_up = False
        """One set, which is read at once or not at all, took too long: none is read from there on."""

    def of(self, thread: int, number: int) -> list[Registration]:
        """Return where a program has registered its descriptor ``number``."""
        found: list[Registration] = []
        if self._given_up:
            return found
        began, worked = time.monotonic(), time.thread_time()
        sets = 0
        folder = f"/proc/{thread}/fd"
        try:
            with os.scandir(folder) as files:
                for file in itertools.islice(files, _MOST_FILES):
                    if os.readlink(file.path) != _EPOLL:
                        continue
                    found += _of(thread, int(file.name), number)
                    sets += 1
                    if (
                        sets >= _MOST_SETS
                        or time.thread_time() - worked > _WORK_SECONDS
                        or time.monotonic() - began > _SECONDS
                    ):
                        break
        except OSError:
            pass  # it is gone, or has closed one meanwhile
        self._judge(began)
        return found[:_MOST_FOUND]

    def move(self, thread: int, number: int, descriptor: int, watching: list[Registration]) -> None:
        """Register ``descriptor`` as ``number`` in epoll sets of a held thread; the old registrations are gone.

        The number is that of the process that registers: one of its own does it, in which it is free to be taken.
        """
        began = time.monotonic()
        pid = os.fork()
        if pid == 0:
            try:
                pidfd = open_thread(thread, thread)
                for one in watching:
                    _register(pidfd, number, descriptor, one)
            finally:
                os._exit(0)
        os.waitpid(pid, 0)
        self._judge(began)

    def _judge(self, began: float) -> None:
        self._given_up = self._given_up or time.monotonic() - began > _FAR_TOO_LONG_SECONDS


def _of(thread: int, epoll: int, number: int) -> list[Registration]:
    found = []
    with open(f"/proc/{thread}/fdinfo/{epoll}", "rb", buffering=0) as file:
        said = file.read(_MOST_BYTES) or b""
    for line in said.split(b"\n")[:-1]:
        words = line.split()
        if len(words) >= 6 and words[0] == b"tfd:" and int(words[1]) == number:
            found.append(Registration(epoll, int(words[3], 16), int(words[5], 16)))
    return found


def _register(pidfd: int, number: int, descriptor: int, one: Registration) -> None:
    epoll = take_file(pidfd, one.epoll)
    own = os.dup(descriptor)
    if number in (epoll, own, pidfd):
        epoll, own, pidfd = os.dup(epoll), os.dup(own), os.dup(pidfd)
    os.dup2(own, number)
    add(epoll, number, one.events, one.data)
