"""Signs that a cell failed for want of memory; pure, and without imports, as the meter has them from the start on."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

_ERRORS_OF_MEMORY = ("Process", "Worker", "RuntimeError", "OSError", "ImportError", "SystemError")
"""Parts of names of errors that lack of memory comes out as, in pools and libraries."""


def may_be_memory(message: Mapping[str, Any], grown: int, limit: int) -> bool:
    """Tell whether a cell that failed is to be looked at for memory: by its error's name, and by how it has grown."""
    if message.get("explained") is True:
        return False
    name = str(message.get("ename") or "")
    threads = any(one.get("name") == "pids" for one in message.get("suspects") or ())
    grew = grown >= limit >> 4 and any(word in name for word in _ERRORS_OF_MEMORY)
    return name.endswith("MemoryError") or threads or grew


def prints_memory(message: Mapping[str, Any]) -> bool:
    """Tell whether a cell has printed that memory was refused, as children do, and who catches a MemoryError."""
    return any(one.get("name") == "memory" for one in message.get("suspects") or ())


def size_tells(size: int | None, left: int, machine: int) -> bool:
    """Tell whether ``size`` bytes were refused by a limit that left ``left``: not if no ``machine`` has so many."""
    return size is not None and left < size <= machine
