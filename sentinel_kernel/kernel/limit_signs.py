"""Signs of a limit in what a cell prints and raises; they only say where to look, as anybody can print such words."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from sentinel_kernel.errors import ProtocolError
from sentinel_kernel.kernel.wire import decode, text_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from sentinel_kernel.kernel.cells import Cell
    from sentinel_kernel.kernel.wire import Json, Part

_SIGNS = (
    (b"No space left on device", "space"),
    (b"disk is full", "space"),
    (b"disk full", "space"),
    (b"can't start new thread", "pids"),
    (b"Resource temporarily unavailable", "pids"),
    (b"File too large", "file_size"),
    (b"SIGXFSZ", "file_size"),
    (b"File size limit exceeded", "file_size"),
    (b"Too many open files", "open_files"),
    (b"MemoryError", "memory"),
    (b"Unable to allocate", "memory"),
    (b"Cannot allocate memory", "memory"),
    (b"std::bad_alloc", "memory"),
)
"""The words of strerror(3), strsignal(3), CPython, NumPy, SQLite and C++."""

_MOST_BYTES = 256 * 1024
_ERROR_BYTES = 4 * 1024 * 1024
_STARTS = re.compile(r"fork|clone|spawn|start_new_thread|can't start new thread|Popen|pthread_create")
_PATH = re.compile(r"\[Errno 28\][^'\"]{0,60}(?:'([^']{1,400})'|\"([^\"]{1,400})\")")


def note_signs(find_cell: Callable[[], Cell | None], msg_type: str, content: Part) -> None:
    """Keep in mind what limits the outputs of a cell speak of; they are looked at when it ends.

    An error that came with a report (failures.py) is not read: that says more than words.
    """
    found = signs(msg_type, content)
    cell = find_cell() if found else None
    if cell is None or (msg_type == "error" and cell.reports):
        return
    for sign in found:
        if sign["certain"] or sign["name"] not in cell.suspects:
            cell.suspects[sign["name"]] = sign


def signs(msg_type: str, content: Part) -> list[Json]:
    """Return which limits an error or a printed text speaks of: name, whether that is certain, and the path."""
    if len(content) > (_ERROR_BYTES if msg_type == "error" else _MOST_BYTES):
        return []
    text = bytes(content)
    names = dict.fromkeys(name for words, name in _SIGNS if words in text)
    if not names:
        return []
    if msg_type != "error":
        return [{"name": name, "certain": False, "path": ""} for name in names]
    try:
        return _of_error(decode(content, _ERROR_BYTES), list(names))
    except ProtocolError:
        return []


def _of_error(error: Json, names: list[str]) -> list[Json]:
    value = text_of(error, "evalue")
    lines = error.get("traceback")
    trace = "\n".join(line for line in lines if isinstance(line, str)) if isinstance(lines, list) else ""
    found = []
    for name in names:
        if name == "memory":
            continue  # by its class it is known better; a handler's line in the traceback names it too
        # A socket that has nothing to read says EAGAIN too: only what starts something is about pids.
        certain = name != "pids" or bool(_STARTS.search(value) or _STARTS.search(trace))
        path = _PATH.search(value) if name == "space" else None
        found.append(
            {"name": name, "certain": certain, "path": (path.group(1) or path.group(2))[:400] if path else ""}
        )
    return found
