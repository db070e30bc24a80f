"""The C library and raw system calls, with every failure turned into OSError in one place."""

from __future__ import annotations

import ctypes
import os

from sentinel_kernel.abi.numbers import own_calls

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

# PyDLL keeps the interpreter lock held during the call: a raw clone(2) through CDLL, which releases it, leaves
# the child waiting for a lock whose owner does not exist there.
LIBC: Final = ctypes.PyDLL(None, use_errno=True)
NUMBERS: Final = own_calls()

LIBC.syscall.restype = ctypes.c_long
LIBC.prctl.restype = ctypes.c_int
LIBC.prctl.argtypes = [ctypes.c_int, ctypes.c_ulong, ctypes.c_ulong, ctypes.c_ulong, ctypes.c_ulong]
LIBC.mount.restype = ctypes.c_int
LIBC.mount.argtypes = [ctypes.c_char_p, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_ulong, ctypes.c_char_p]
LIBC.umount2.restype = ctypes.c_int
LIBC.umount2.argtypes = [ctypes.c_char_p, ctypes.c_int]


_NUMBERED: Final = LIBC["syscall"]  # a function of its own, whose arguments are converted at once
_NUMBERED.restype = ctypes.c_long
_NUMBERED.argtypes = [ctypes.c_long] * 7
_UNUSED: Final = (0,) * 6


def call_by_number(number: int, *arguments: int) -> int:
    """Make a system call (syscall(2)) of integers, for callers of many; negative where ctypes has an errno."""
    result: int = _NUMBERED(number, *arguments, *_UNUSED[len(arguments) :])
    return result


def checked(result: int, what: str) -> int:
    """Return ``result``, or raise OSError with errno and ``what`` when it is negative."""
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return result


def system_call(name: str, *arguments: int | bytes | ctypes.Array[ctypes.c_char] | None) -> int:
    """Make the system call ``name`` (syscall(2)); integers are passed at full width.

    Raises:
        OSError: the call failed; the message names it.

    """
    if all(type(value) is int for value in arguments):
        return checked(call_by_number(NUMBERS[name], *arguments), name)  # type: ignore[arg-type]
    converted = [ctypes.c_long(value) if isinstance(value, int) else value for value in arguments]
    result: int = LIBC.syscall(ctypes.c_long(NUMBERS[name]), *converted)
    return checked(result, name)
