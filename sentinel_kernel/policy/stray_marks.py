"""The mark by which processes of a sandbox without a process namespace are found; pure.

It is the hard limit RLIMIT_LOCKS (abi/resource.py), which the sandbox may not set.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

MARK_BYTES: Final = 5
"""Of a mark are its sandbox's own."""

_SHOWN_AS = b"\nMax file locks"
_TAG = 0x5E271
_OF_WARDEN = 1


def mark_of(own: bytes) -> int:
    """Return the mark of the sandbox that is told from others by ``own`` (MARK_BYTES bytes)."""
    return (_TAG << 8 * MARK_BYTES | int.from_bytes(own, "little")) << 1


def warden_mark(mark: int) -> int:
    """Return the mark of the warden of a sandbox: one more, so that what it becomes parent of can lower it."""
    return mark | _OF_WARDEN


def mark_in(limits: bytes) -> int:
    """Return the mark that the text of /proc/PID/limits holds; 0 where there is none."""
    fields = limits.partition(_SHOWN_AS)[2].split(None, 2)
    if len(fields) < 2 or not fields[1].isdigit():
        return 0
    mark = int(fields[1])
    return mark if mark >> 1 + 8 * MARK_BYTES == _TAG else 0


def is_of_sandbox(mark: int) -> bool:
    """Tell whether a mark is a sandbox's, as opposed to none or a warden's."""
    return mark != 0 and not mark & _OF_WARDEN
