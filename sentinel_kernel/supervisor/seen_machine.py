"""What programs inside see of the machine: /proc/meminfo and the processors that are online, as the profile has them.

Both are files of the sandbox's own, mounted over the machine's; they are written in place from outside.
"""

from __future__ import annotations

import contextlib
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

# proc_meminfo(5): what psutil, free(1) and the libraries that size themselves by it look for. No swap: what is over
# the limit is not moved out, it is refused.
_FIELDS = [
    *(
        "MemTotal",
        "MemFree",
        "MemAvailable",
        "Buffers",
        "Cached",
        "SwapCached",
        "Active",
        "Inactive",
        "SwapTotal",
    ),
    *("SwapFree", "Dirty", "Writeback", "AnonPages", "Mapped", "Shmem", "Slab", "SReclaimable", "SUnreclaim"),
]


def memory_text(total_bytes: int, available_bytes: int, shared_bytes: int = 0) -> bytes:
    """Return the text of /proc/meminfo; always of the same length, so that it can be rewritten under a reader."""
    values = {
        "MemTotal": total_bytes,
        "MemFree": available_bytes,
        "MemAvailable": available_bytes,
        "Active": total_bytes - available_bytes,
        "AnonPages": max(0, total_bytes - available_bytes - shared_bytes),
        "Shmem": shared_bytes,
    }
    return "".join(f"{name + ':':<15}{values.get(name, 0) // 1024:>12} kB\n" for name in _FIELDS).encode()


def processors_text(processors: Iterable[int]) -> bytes:
    """Return the text of /sys/devices/system/cpu/online: numbers and ranges (cpuset(7), list format)."""
    ranges: list[list[int]] = []
    for number in sorted(processors):
        if ranges and number == ranges[-1][1] + 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    return (
        ",".join(f"{first}-{last}" if last > first else str(first) for first, last in ranges) + "\n"
    ).encode()


class SeenMachine:
    """Writes the two files of one sandbox; the descriptors are the sandbox's."""

    def __init__(self, files: Mapping[str, int]) -> None:
        """Write to ``files``, by name: meminfo and online; what is not there is not written."""
        self._files = files
        self._written: dict[str, bytes] = {}

    def show_memory(self, total_bytes: int, available_bytes: int, shared_bytes: int) -> None:
        """Show this much memory."""
        self._write("meminfo", memory_text(total_bytes, available_bytes, shared_bytes))

    def show_processors(self, processors: Iterable[int]) -> None:
        """Show these processors as online."""
        self._write("online", processors_text(processors))

    def _write(self, name: str, text: bytes) -> None:
        descriptor = self._files.get(name, -1)
        before = self._written.get(name, b"")
        if descriptor < 0 or before == text:
            return
        with contextlib.suppress(OSError):  # the layer is full: the old text stays
            os.pwrite(descriptor, text, 0)
            if len(before) != len(text):
                os.ftruncate(descriptor, len(text))
            self._written[name] = text
