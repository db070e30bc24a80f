"""Registrations in epoll(7): a socket that takes the place of another is watched as that one was.

A registration is of an open file and a number. Who puts another file under the number loses it; some programs (Go's)
register before they connect.
"""

from __future__ import annotations

import os

from sentinel_kernel.linux.epoll import add
from sentinel_kernel.linux.process import open_thread, take_file
from sentinel_kernel.record import Record

_MOST_FILES = 1024
_EPOLL = "anon_inode:[eventpoll]"


class Registration(Record):
    """That an epoll set, under ``epoll`` in its program, watches a number for ``events`` and says ``data`` then."""

    epoll: int
    events: int
    data: int


def registrations(thread: int, number: int) -> list[Registration]:
    """Return where a program has registered its descriptor ``number``."""
    found = []
    folder = f"/proc/{thread}/fd"
    try:
        files = os.listdir(folder)
        for file in files[:_MOST_FILES]:
            if os.readlink(f"{folder}/{file}") == _EPOLL:
                found += _of(thread, int(file), number)
    except OSError:
        pass  # it is gone, or has closed one meanwhile
    return found


def _of(thread: int, epoll: int, number: int) -> list[Registration]:
    found = []
    with open(f"/proc/{thread}/fdinfo/{epoll}", encoding="ascii") as file:
        for line in file:
            words = line.split()
            if len(words) >= 6 and words[0] == "tfd:" and words[1] == str(number):
                found.append(Registration(epoll, int(words[3], 16), int(words[5], 16)))
    return found


def move_registrations(thread: int, number: int, descriptor: int, watching: list[Registration]) -> None:
    """Register ``descriptor`` as ``number`` in the epoll sets of a held thread; the old registrations are gone.

    The number is that of the process that registers: one of its own does it, in which it is free to be taken.
    """
    pid = os.fork()
    if pid == 0:
        try:
            pidfd = open_thread(thread, thread)
            for one in watching:
                _register(pidfd, number, descriptor, one)
        finally:
            os._exit(0)
    os.waitpid(pid, 0)


def _register(pidfd: int, number: int, descriptor: int, one: Registration) -> None:
    epoll = take_file(pidfd, one.epoll)
    own = os.dup(descriptor)
    if number in (epoll, own, pidfd):
        epoll, own, pidfd = os.dup(epoll), os.dup(own), os.dup(pidfd)
    os.dup2(own, number)
    add(epoll, number, one.events, one.data)
