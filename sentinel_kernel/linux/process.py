"""What a process may do: capabilities, securebits, dumpable, death signal, descriptors, signals to threads."""

from __future__ import annotations

import ctypes
import errno
import os
import select
import signal

from sentinel_kernel.abi.pidfd import PROCESS_GROUP
from sentinel_kernel.abi.prctl import (
    LINUX_CAPABILITY_VERSION_3,
    PR_CAP_AMBIENT,
    PR_CAP_AMBIENT_CLEAR_ALL,
    PR_CAPBSET_DROP,
    PR_SET_CHILD_SUBREAPER,
    PR_SET_DUMPABLE,
    PR_SET_NO_NEW_PRIVS,
    PR_SET_PDEATHSIG,
    PR_SET_SECUREBITS,
    SecureBits,
)
from sentinel_kernel.linux.libc import LIBC, NUMBERS, checked, system_call

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

_IOPRIO_WHO_PROCESS = 1  # <linux/ioprio.h>
_ASK_PERSONALITY = 0xFFFFFFFF


def control(option: int, value: int = 0, third: int = 0) -> int:
    """Call prctl(2) with unused arguments zero."""
    return checked(LIBC.prctl(option, value, third, 0, 0), f"prctl({option}, {value})")


def die_with_parent() -> None:
    """Ask for SIGKILL when the parent's thread dies; not retroactive, and cleared by setuid (PR_SET_PDEATHSIG)."""
    control(PR_SET_PDEATHSIG, signal.SIGKILL)


def set_dumpable(*, dumpable: bool) -> None:
    """Set or clear whether others of the same user may trace this process; execve(2) sets it again."""
    control(PR_SET_DUMPABLE, int(dumpable))


def set_personality(persona: int) -> None:
    """Set how programs that are executed from now on are laid out in memory (personality(2))."""
    system_call("personality", persona)


def may_set_personality(persona: int) -> bool:
    """Tell whether this process may set ``persona``, by doing so and taking it back; Docker's filter refuses most."""
    try:
        before = system_call("personality", _ASK_PERSONALITY)
        set_personality(persona)
        set_personality(before)
    except OSError:
        return False
    return True


def adopt_orphans() -> None:
    """Become the parent of what this process's descendants leave behind (PR_SET_CHILD_SUBREAPER); exec keeps it."""
    control(PR_SET_CHILD_SUBREAPER, 1)


def set_no_new_privileges() -> None:
    """Give up gaining privileges by execve(2), for good."""
    control(PR_SET_NO_NEW_PRIVS, 1)


def set_secure_bits(bits: SecureBits) -> None:
    """Set the securebits of this thread; needs CAP_SETPCAP."""
    control(PR_SET_SECUREBITS, int(bits))


def empty_bounding_set() -> None:
    """Drop every capability that the Linux kernel knows from the bounding set; needs CAP_SETPCAP."""
    for capability in range(64):
        try:
            control(PR_CAPBSET_DROP, capability)
        except OSError as error:
            if error.errno == errno.EINVAL:  # past the last capability
                return
            raise


def clear_capabilities() -> None:
    """Empty the ambient, effective, permitted and inheritable sets (capset(2), version 3)."""
    control(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL)
    header = (ctypes.c_uint32 * 2)(LINUX_CAPABILITY_VERSION_3, 0)
    data = (ctypes.c_uint32 * 6)()
    result: int = LIBC.syscall(ctypes.c_long(NUMBERS["capset"]), ctypes.byref(header), ctypes.byref(data))
    checked(result, "capset")


def close_descriptors(first: int, last: int) -> None:
    """Close every descriptor from ``first`` to ``last`` (close_range(2), Linux 5.9)."""
    system_call("close_range", first, last, 0)


def signal_thread(process: int, thread: int, number: int, is_meant: Callable[[], bool]) -> None:
    """Send a signal to one thread, if it ``is_meant``: that is asked once its number can't come to mean another.

    Where the Linux kernel is older than 6.9 it is sent by the numbers, right behind the question (tgkill(2)).

    Raises:
        OSError: ESRCH, it is gone, or not the one that is meant; EPERM.

    """
    try:
        pidfd = os.pidfd_open(thread, os.O_EXCL)  # as in open_thread
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
        pidfd = -1
    try:
        if not is_meant():
            raise ProcessLookupError(errno.ESRCH, os.strerror(errno.ESRCH))
        if pidfd >= 0:
            signal.pidfd_send_signal(pidfd, number)
        else:
            system_call("tgkill", process, thread, number)
    finally:
        if pidfd >= 0:
            os.close(pidfd)


def interrupt_group(pidfd: int, leader: int) -> bool:
    """Send SIGINT to the process group whose leader ``pidfd`` means; False where that has ended.

    What is stopped goes on (SIGCONT), and finds the interrupt first: else nothing would ever come of it.
    """
    return all(_signal_group(pidfd, leader, number) for number in (signal.SIGINT, signal.SIGCONT))


def _signal_group(pidfd: int, leader: int, number: int) -> bool:
    """Send a signal; before Linux 6.9 by the leader's number, right behind the look (kill(2))."""
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    if poll.poll(0):
        return False
    try:
        signal.pidfd_send_signal(pidfd, number, None, PROCESS_GROUP)
    except ProcessLookupError:
        pass
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
        os.killpg(leader, number)
    return True


def is_there(pidfd: int) -> bool:
    """Tell whether nobody has waited for a process yet: until then its number is its own."""
    try:
        signal.pidfd_send_signal(pidfd, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def open_thread(thread: int, process: int) -> int:
    """Return a pidfd of ``thread``; of its ``process`` where the Linux kernel is older than 6.9.

    Raises:
        OSError: it is gone (ESRCH).

    """
    try:
        return os.pidfd_open(thread, os.O_EXCL)  # PIDFD_THREAD of <linux/pidfd.h>
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
    return os.pidfd_open(process)


def take_file(pidfd: int, number: int) -> int:
    """Return a duplicate, close-on-exec, of the file that a process has open as ``number`` (pidfd_getfd(2)).

    Raises:
        OSError: EBADF, there is none of that number; ESRCH, the process is gone; EPERM.

    """
    return system_call("pidfd_getfd", pidfd, number, 0)


def io_priority(pid: int) -> int:
    """Return the priority of a process's input and output, class and all (ioprio_get(2)).

    Raises:
        OSError: there is no such process.

    """
    return system_call("ioprio_get", _IOPRIO_WHO_PROCESS, pid)
