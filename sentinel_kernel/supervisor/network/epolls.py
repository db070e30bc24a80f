"""Registrations in epoll(7): a socket that takes the place of another is watched as that one was.

A registration is of an open file and a number. Who puts another file under the number loses it; some programs (those
of Boost.Asio) register before they connect, and would wait for ever. So a connection is made only where it is known
what watches its socket: what can't be told within the bounds is refused, with its reason.
"""

from __future__ import annotations

import contextlib
import errno
import os
import resource
import signal
import time

from sentinel_kernel.linux.epoll import EVERY, add, sets_among, watches
from sentinel_kernel.linux.process import open_thread, take_file
from sentinel_kernel.record import Record
from sentinel_kernel.supervisor.by_number import process_of
from sentinel_kernel.supervisor.network.taken import close_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

_MOST_FILES = 16384
"""So many open files of a program are looked through."""
_MOST_FOUND = 32
_MOST_BYTES = 4 << 20
"""So much is read of one set: some 50,000 registrations."""
_WALK_SECONDS = 0.003
"""Work that it takes to go through one set, once: many times what that many registrations take."""
_WORK_SECONDS, _LOCKED_SECONDS = 0.25, 1.0
"""Work for one connection, and how long a set may be locked by somebody else; after more than that there is a pause."""
_PAUSE = 20
"""As many times as long as what it is for took."""
_EPOLL = "anon_inode:[eventpoll]"


class Unwatched(Exception):
    """It can't be told what watches a socket."""


class Registration(Record):
    """That an epoll set, under ``epoll`` in its program, watches a number for ``events`` and says ``data`` then."""

    epoll: int
    events: int
    data: int


class Watches:
    """Finds and moves the registrations of one sandbox's sockets, within bounds of work.

    A program decides how many sets it has, and how many descriptors they watch. How busy the machine is makes no
    difference: what is bounded is counted, or is this process's own work.
    """

    def __init__(self) -> None:
        """Begin with all bounds kept."""
        self._pause_until = 0.0
        """One set is gone through at once or not at all; after one that took far too long none is for a while."""

    def of(self, thread: int, number: int) -> list[Registration]:
        """Return where a program has registered its descriptor ``number``, and what is under it now.

        Raises:
            Unwatched: that can't be told.

        """
        if time.monotonic() < self._pause_until:
            raise Unwatched
        began = _spent()
        try:
            return _found(thread, number, began)
        finally:
            self._judge(began)

    def move(self, thread: int, number: int, descriptor: int, watching: list[Registration]) -> None:
        """Register ``descriptor`` as ``number`` in epoll sets of a held thread; the old registrations are gone.

        Raises:
            OSError: one could not be made; those before it have been.

        """
        began = _spent()
        try:
            with _known_as(descriptor, number):
                pidfd = open_thread(thread, process_of(thread))
                try:
                    for one in watching:
                        _register(pidfd, number, one)
                finally:
                    os.close(pidfd)
        finally:
            self._judge(began)

    def _judge(self, began: tuple[float, int, float]) -> None:
        if time.monotonic() - began[2] <= _WORK_SECONDS:
            return  # neither was longer than that
        work, waits, clock = (now - before for now, before in zip(_spent(), began, strict=True))
        locked = (
            clock - work if waits else 0.0
        )  # who only has to wait for a processor does not wait of its own accord
        if work > _WORK_SECONDS or locked > _LOCKED_SECONDS:
            self._pause_until = time.monotonic() + _PAUSE * (work + locked)


def _spent() -> tuple[float, int, float]:
    """Return this thread's processor time, how often it has waited for something, and the clock."""
    used = resource.getrusage(resource.RUSAGE_THREAD)
    return used.ru_utime + used.ru_stime, used.ru_nvcsw, time.monotonic()


def _found(thread: int, number: int, since: tuple[float, int, float]) -> list[Registration]:
    found: list[Registration] = []
    try:
        files = os.listdir(f"/proc/{thread}/fd")
    except OSError:
        return []  # the program is gone
    if len(files) > _MOST_FILES:
        raise Unwatched
    own = str(number)  # a socket, as was seen
    for file, told in sets_among(thread, [int(name) for name in files if name != own], number):
        try:
            if _may_watch(thread, file, number, told):
                inode = os.stat(f"/proc/{thread}/fd/{number}").st_ino
                found += _read(thread, file, number, inode)
        except OSError:
            continue  # it was closed meanwhile
        if len(found) > _MOST_FOUND or _worked(since) > _WORK_SECONDS:
            raise Unwatched  # at once: the rest is as much again
    if len(found) > _MOST_FOUND or (found and number >= resource.getrlimit(resource.RLIMIT_NOFILE)[1]):
        raise Unwatched
    return found


def _worked(since: tuple[float, int, float]) -> float:
    """Return the processor time since then; nothing where less time than is allowed has passed at all."""
    return _spent()[0] - since[0] if time.monotonic() - since[2] > _WORK_SECONDS else 0.0


def _may_watch(thread: int, file: int, number: int, told: bool | OSError) -> bool:
    """Tell whether an open file is a set that watches ``number``, as far as this Linux kernel has told.

    Raises:
        Unwatched: it is one, and too large to be read.

    """
    if told is False:
        return False
    try:
        if isinstance(told, OSError):
            raise told
        began = time.thread_time()
        watches(thread, file, number, EVERY)
    except OSError:
        return os.readlink(f"/proc/{thread}/fd/{file}") == _EPOLL
    if time.thread_time() - began > _WALK_SECONDS:
        raise Unwatched
    return True


def _read(thread: int, epoll: int, number: int, inode: int) -> list[Registration]:
    """Return the registrations of one set (proc_pid_fdinfo(5)) that are of that number and that file.

    Raises:
        OSError: it is gone.
        Unwatched: there are too many to be read.

    """
    with open(f"/proc/{thread}/fdinfo/{epoll}", "rb", buffering=0) as file:
        said = b""
        while chunk := file.read(_MOST_BYTES):
            said += chunk
            if len(said) >= _MOST_BYTES:
                raise Unwatched
    found = []
    begins = b"tfd:%9d " % number
    position = said.find(begins)
    while position >= 0:
        words = said[position : position + 200].partition(b"\n")[0].split()
        told = dict(zip(words[::2], words[1::2], strict=False))
        # tfd: N events: E data: D pos:P ino:I sdev:S, all but the first and P in hexadecimal; I since Linux 4.13
        of_file = next((word for word in words if word.startswith(b"ino:")), b"")
        if b"data:" in told and (not of_file or int(of_file[4:], 16) == inode):
            found.append(Registration(epoll, int(told[b"events:"], 16), int(told[b"data:"], 16)))
        position = said.find(begins, position + 1)
    return found


def _register(pidfd: int, number: int, one: Registration) -> None:
    epoll = take_file(pidfd, one.epoll)
    try:
        add(epoll, number, one.events, one.data)
    except FileExistsError:
        pass  # the program has done it by itself
    finally:
        close_file(epoll)


@contextlib.contextmanager
def _known_as(descriptor: int, number: int) -> Iterator[None]:
    """Have an open file under ``number`` here too: a registration keeps the number of who makes it.

    What has that number in this process has another one meanwhile. Nobody sees it: there is no other thread, and
    signals, whose arrival is written to a descriptor, wait.
    """
    if descriptor == number:
        yield
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    own = -1
    try:
        if soft <= number < hard:
            resource.setrlimit(resource.RLIMIT_NOFILE, (number + 1, hard))
        try:
            own = os.dup(number)
        except OSError as error:  # as a rule nothing has it; what can't be kept must not be lost
            if error.errno != errno.EBADF:
                raise
        inherited = own >= 0 and os.get_inheritable(number)
        os.dup2(descriptor, number, inheritable=False)
        try:
            yield
        finally:
            if own >= 0:
                os.dup2(own, number, inheritable=inherited)
            else:
                os.close(number)  # never the last one: ``descriptor`` is open
    finally:
        if own >= 0:
            os.close(own)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
