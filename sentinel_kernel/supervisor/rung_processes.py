"""Held calls of a sandbox on the landlock rung about other processes: made on its own alone, told by descent.

A number can come to mean another process as soon as the one that had it was waited for, which is up to programs inside.
So nothing that goes by number is let go on but what is the caller's own; all else is made here, by pidfd.
"""

from __future__ import annotations

import contextlib
import errno
import os
import resource
import signal
import struct

from sentinel_kernel.abi.landlock import SCOPES_FROM
from sentinel_kernel.abi.resource import RLIMIT_LOCKS
from sentinel_kernel.linux.memory import write_memory
from sentinel_kernel.linux.process import open_thread, take_file
from sentinel_kernel.supervisor.by_number import process_of
from sentinel_kernel.supervisor.network.socket_calls import signed
from sentinel_kernel.supervisor.network.taken import close_file
from sentinel_kernel.supervisor.processes import descends, processes_below

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sentinel_kernel.linux.seccomp import Listener, Notification
    from sentinel_kernel.policy.request import Request

_LOW_32 = 0xFFFFFFFF
_LOW_64 = (1 << 64) - 1  # RLIM_INFINITY is -1 to Python
_LIMIT = struct.Struct("=QQ")  # struct rlimit64 of <linux/resource.h>
_GROUP_FIELD = 2
"""Of /proc/PID/stat behind the name: state, parent, process group."""


class RungProcesses:
    """Answers them for one sandbox."""

    def __init__(self, listener: Listener, first: int, abi: int) -> None:
        """Serve ``listener`` of the sandbox whose init is ``first``; Landlock's version is ``abi``."""
        self._listener = listener
        self._first = first
        self._abi = abi

    def calls(self) -> dict[str, Callable[[Notification, Request], bool]]:
        """Return what answers each call; True where it is answered, else the Linux kernel is to decide it.

        They raise OSError where the call is to fail.
        """
        signals: dict[str, Callable[[Notification, Request], bool]] = {
            "kill": self._kill,
            "tkill": self._kill_one_thread,
            "tgkill": self._kill_thread,
            "rt_sigqueueinfo": _within,
            "rt_tgsigqueueinfo": _within,
            "pidfd_send_signal": self._kill_open,
        }
        return {
            "pidfd_open": lambda held, _: self._open(held),
            "prlimit64": self._limit,
            "sched_setscheduler": _aim,
            "sched_setparam": _aim,
            "sched_setattr": _aim,
            "setpriority": lambda held, request: _aim(held, request, 1, processes=0),
            "ioprio_set": lambda held, request: _aim(held, request, 1, processes=1),
            **(signals if self._abi < SCOPES_FROM else {}),
        }

    def _is_own(self, wanted: int) -> bool:
        """Tell whether a process or thread is one of the sandbox's; its number can be another's right afterwards."""
        return descends(process_of(wanted), self._first)

    def _check(self, pidfd: int, wanted: int) -> None:
        """Raise OSError where the process of ``pidfd``, whose number was ``wanted``, is none of the sandbox's."""
        # One that had the number before the look and has it after it was the one looked at.
        if not self._is_own(wanted) or not _has_number(pidfd, wanted):
            raise OSError(errno.EPERM, "not one of the sandbox's")

    def _open(self, notification: Notification) -> bool:
        """Open a process of the sandbox's: the one that was looked at, whoever has its number by then."""
        wanted = signed(notification.arguments[0])
        if wanted <= 0:
            return False
        pidfd = os.pidfd_open(wanted, notification.arguments[1] & _LOW_32)
        try:
            self._check(pidfd, wanted)
            if self._listener.is_valid(notification.id):
                self._listener.answer_with_file(notification.id, pidfd, close_on_exec=True)
        finally:
            os.close(pidfd)
        return True

    def _limit(self, notification: Notification, request: Request) -> bool:
        """Let it set its own limits but the mark that it is found by, and read those of the sandbox's processes."""
        wanted = signed(notification.arguments[0])
        if notification.arguments[2] == 0:
            if wanted in (0, request.pid, notification.thread):
                return False
            return self._tell_limit(notification, wanted)
        if notification.arguments[1] & _LOW_32 == RLIMIT_LOCKS:
            raise OSError(errno.EPERM, "the sandbox's mark")
        return _aim(notification, request)

    def _tell_limit(self, notification: Notification, wanted: int) -> bool:
        """Tell a limit of another of the sandbox's processes: the one that was looked at, whoever has its number."""
        process = process_of(wanted)  # its threads share the limits
        pidfd = os.pidfd_open(process)
        try:
            self._check(pidfd, process)
            try:
                limits = resource.prlimit(process, notification.arguments[1] & _LOW_32)
            except (ValueError, OverflowError):
                raise OSError(errno.EINVAL, "no limit") from None
            self._check(pidfd, process)
        finally:
            os.close(pidfd)
        if self._listener.is_valid(notification.id):
            told = _LIMIT.pack(*(limit & _LOW_64 for limit in limits))
            old = notification.arguments[3]
            if old and not write_memory(notification.thread, old, told):
                raise OSError(errno.EFAULT, "nowhere to write")
            self._listener.answer(notification.id, 0)
        return True

    # --- signals, where Landlock does not keep them inside

    def _kill(self, notification: Notification, request: Request) -> bool:
        """Send a signal to a process, to a group, or to all; the caller's own number and group are sure to be its own.

        Of its group are processes of its session alone, which init began.
        """
        wanted, number = signed(notification.arguments[0]), signed(notification.arguments[1])
        if wanted in (0, request.pid):
            return False
        if not self._listener.is_valid(notification.id):
            return True
        if wanted > 0:
            self._send(wanted, number)
        elif not self._send_to_all(self._group(-wanted, request.pid), number):
            raise OSError(errno.ESRCH, "nobody")
        self._listener.answer(notification.id, 0)
        return True

    def _group(self, group: int, caller: int) -> Iterator[int]:
        """Yield the sandbox's processes of a group; with 1, as kill(2) has it, all but the caller."""
        for pid in list(processes_below(self._first)):
            if (pid != caller) if group == 1 else (_group_of(pid) == group):
                yield pid

    def _send_to_all(self, wanted: Iterator[int], number: int) -> bool:
        found = False
        for pid in wanted:
            with contextlib.suppress(ProcessLookupError):
                self._send(pid, number)
                found = True
        return found

    def _send(self, wanted: int, number: int) -> None:
        try:
            pidfd = os.pidfd_open(wanted)
        except OSError:
            raise ProcessLookupError(errno.ESRCH, "nobody, or a thread") from None
        try:
            self._check(pidfd, wanted)
            signal.pidfd_send_signal(pidfd, number)
        finally:
            os.close(pidfd)

    def _kill_thread(self, notification: Notification, request: Request) -> bool:
        """Send a signal to a thread of the caller's process; another process gets it as a whole."""
        wanted = signed(notification.arguments[0])
        if wanted == request.pid:
            return False
        if wanted <= 0:
            raise OSError(errno.EINVAL, "no process")
        if self._listener.is_valid(notification.id):
            self._send(wanted, signed(notification.arguments[2]))
            self._listener.answer(notification.id, 0)
        return True

    def _kill_one_thread(self, notification: Notification, _request: Request) -> bool:
        """Let a thread send a signal to itself: which process another one's number stands for is not sure."""
        if signed(notification.arguments[0]) != notification.thread:
            raise OSError(errno.EPERM, "another thread")
        return False

    def _kill_open(self, notification: Notification, request: Request) -> bool:
        """Send a signal by a pidfd of the caller's."""
        descriptor, number, information, flags = notification.arguments[:4]
        if information or flags & _LOW_32:
            raise OSError(errno.EPERM, "more than a signal")
        caller = open_thread(notification.thread, request.pid)
        try:
            pidfd = take_file(caller, signed(descriptor))
        finally:
            os.close(caller)
        try:
            wanted = _number_of(pidfd)
            if wanted <= 0:
                raise ProcessLookupError(errno.ESRCH, "nobody")
            self._check(pidfd, wanted)
            if self._listener.is_valid(notification.id):
                signal.pidfd_send_signal(pidfd, signed(number))
                self._listener.answer(notification.id, 0)
        finally:
            close_file(pidfd)
        return True


def _aim(notification: Notification, request: Request, target: int = 0, processes: int | None = None) -> bool:
    """Refuse what is aimed at another than the caller, whose number alone is sure to be the same afterwards."""
    wanted = signed(notification.arguments[target])
    if wanted == 0:
        return False
    if processes is not None and signed(notification.arguments[0]) != processes:
        raise OSError(errno.EPERM, "a group")
    if wanted not in (request.pid, notification.thread):
        raise OSError(errno.EPERM, "another than the caller")
    return False


def _within(notification: Notification, request: Request) -> bool:
    """Let a process send signals with values to itself."""
    if signed(notification.arguments[0]) != request.pid:
        raise OSError(errno.EPERM, "another process")
    return False


def _group_of(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return int(file.read().rpartition(b")")[2].split()[_GROUP_FIELD])
    except (OSError, ValueError, IndexError):
        return -1  # it has ended


def _number_of(pidfd: int) -> int:
    """Return the number of a pidfd's process (proc_pid_fdinfo(5)), -1 once it was waited for.

    Raises:
        OSError: EBADF, it is no pidfd.

    """
    with open(f"/proc/self/fdinfo/{pidfd}", "rb") as file:
        found = file.read().partition(b"\nPid:")[2].split(None, 1)
    if not found:
        raise OSError(errno.EBADF, "no pidfd")
    return int(found[0])


def _has_number(pidfd: int, number: int) -> bool:
    """Tell whether a process still has its number: until it is waited for."""
    return _number_of(pidfd) == number
