"""Sets of epoll(7): what the standard library has no calls for, to register with other data and to look into one."""

from __future__ import annotations

import ctypes
import errno
import os

from sentinel_kernel.linux.libc import LIBC, NUMBERS, checked

_EPOLL_CTL_ADD = 1  # <linux/eventpoll.h>


class _Event(ctypes.Structure):
    """``struct epoll_event``, which is packed on x86_64 alone."""

    if os.uname().machine == "x86_64":
        _pack_ = 1
    _fields_ = (("events", ctypes.c_uint32), ("data", ctypes.c_uint64))


def add(epoll: int, descriptor: int, events: int, data: int) -> None:
    """Have ``epoll`` watch ``descriptor`` for ``events`` and say ``data`` then (epoll_ctl(2)).

    Raises:
        OSError: EEXIST, it does already.

    """
    event = _Event(events, data)
    checked(LIBC.epoll_ctl(epoll, _EPOLL_CTL_ADD, descriptor, ctypes.byref(event)), "epoll_ctl")


_KCMP_EPOLL_TFD = 7  # <linux/kcmp.h>
EVERY = 0xFFFFFFFF
"""A registration that no set has: to look for it is to go through all of them."""


class _Slot(ctypes.Structure):
    """``struct kcmp_epoll_slot`` of <linux/kcmp.h>."""

    _fields_ = (("epoll", ctypes.c_uint32), ("number", ctypes.c_uint32), ("which", ctypes.c_uint32))


_kcmp = LIBC[
    "syscall"
]  # a function of its own, whose arguments are converted at once: it is called for each open file
_kcmp.restype = ctypes.c_long
_kcmp.argtypes = [ctypes.c_long] * 5 + [ctypes.POINTER(_Slot)]
_slot = _Slot()


def watches(thread: int, epoll: int, number: int, which: int = 0) -> bool | None:
    """Tell whether the set ``epoll`` of a thread watches any file as ``number`` (kcmp(2)); None where it is no set.

    ``which``: the first of those of that number, or a later one. The Linux kernel goes through the set; it copies
    nothing.

    Raises:
        OSError: ENOSYS, it has no such call; EPERM; ESRCH, the thread is gone.

    """
    _slot.epoll, _slot.number, _slot.which = epoll, number, which
    result = _kcmp(NUMBERS["kcmp"], os.getpid(), thread, _KCMP_EPOLL_TFD, 0, _slot)
    if result >= 0:
        return True
    error = ctypes.get_errno()
    if error in (errno.EINVAL, errno.EBADF):
        return None  # another kind of file, or none any more
    if error == errno.ENOENT:
        return False
    raise OSError(error, os.strerror(error))
