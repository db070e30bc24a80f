"""Giving the heap's free pages back to the Linux kernel (malloc_trim(3))."""

from __future__ import annotations

import ctypes


def trim_heap() -> None:
    """Give back what is free within the heap, where the C library can; what is mapped by itself has gone already."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
