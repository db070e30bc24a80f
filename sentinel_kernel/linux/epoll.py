"""Sets of epoll(7): what the standard library has no calls for, to register with other data and to look into one."""

from __future__ import annotations

import ctypes
import errno
import os

from sentinel_kernel.linux.libc import LIBC, NUMBERS, call_by_number, checked

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

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


_slot = _Slot()
_SLOT_ADDRESS = ctypes.addressof(_slot)
_KCMP = NUMBERS["kcmp"]
_NO_SET = frozenset((errno.EINVAL, errno.EBADF))


def watches(thread: int, epoll: int, number: int, which: int = 0) -> bool | None:
    """Tell whether the set ``epoll`` of a thread watches any file as ``number`` (kcmp(2)); None where it is no set.

    ``which``: the first of those of that number, or a later one. The Linux kernel goes through the set; it copies
    nothing.

    Raises:
        OSError: ENOSYS, it has no such call; EPERM; ESRCH, the thread is gone.

    """
    _slot.epoll, _slot.number, _slot.which = epoll, number, which
    return _asked(os.getpid(), thread)


def sets_among(thread: int, files: Iterable[int], number: int) -> Iterator[tuple[int, bool | OSError]]:
    """Yield those open files of a thread that are sets, and whether each watches ``number``; or why that is not told.

    As :func:`watches`, for many files of which few are sets. Others may ask meanwhile.
    """
    own = os.getpid()
    for file in files:
        _slot.epoll, _slot.number, _slot.which = file, number, 0
        try:
            watching = _asked(own, thread)
        except OSError as error:
            yield file, error
            continue
        if watching is not None:
            yield file, watching


def _asked(own: int, thread: int) -> bool | None:
    if call_by_number(_KCMP, own, thread, _KCMP_EPOLL_TFD, 0, _SLOT_ADDRESS) >= 0:
        return True
    error = ctypes.get_errno()
    if error in _NO_SET:
        return None  # another kind of file, or none any more
    if error == errno.ENOENT:
        return False
    raise OSError(error, os.strerror(error))
