"""Registering in epoll(7) with data of one's own; the standard library always gives the number."""

from __future__ import annotations

import ctypes
import os

from sentinel_kernel.linux.libc import LIBC, checked

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
