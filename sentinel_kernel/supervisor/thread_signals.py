"""Which signals a thread catches, blocks and has yet to get, as /proc tells."""

from __future__ import annotations

import os

_STATUS_BYTES = 8192
_STATUS_READS = 128
"""65,536 supplementary groups of ten digits fit; the signals come after them."""


def catches(thread: int, number: int) -> bool:
    """Tell whether a thread has a handler for a signal and does not block it (proc_pid_status(5))."""
    caught, blocked = _signals(thread, b"SigCgt", b"SigBlk")
    bit = 1 << (number - 1)
    return bool(caught & bit) and not blocked & bit


def is_pending(thread: int, number: int) -> bool:
    """Tell whether a thread has yet to get a signal that was sent to it."""
    return bool(_signals(thread, b"SigPnd")[0] & 1 << (number - 1))


def _signals(thread: int, *names: bytes) -> list[int]:
    """Return sets of a thread's signals; each is empty where there is no such thread, or all are blocked by then."""
    try:
        status = os.open(f"/proc/{thread}/status", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return [0 for _ in names]
    text = b""
    try:
        for _ in range(_STATUS_READS):
            chunk = os.read(status, _STATUS_BYTES)
            text += chunk
            if not chunk or b"\n" in text.partition(b"\nSigCgt:")[2]:
                break
    except OSError:
        return [0 for _ in names]
    finally:
        os.close(status)
    found = [text.partition(b"\n" + name + b":")[2].split(None, 1)[:1] for name in names]
    return [int(digits[0], 16) for digits in found] if all(found) else [0 for _ in names]
