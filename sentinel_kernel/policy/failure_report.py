"""The worker's report on an error, read strictly: bounded, typed, and nothing in it believed.

What it says decides where to look; whether the sandbox caused the error is decided by what is found there
(policy/attribution.py).
"""

from __future__ import annotations

import errno

from sentinel_kernel.errors import ProtocolError
from sentinel_kernel.record import Record, field_names, replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection
    from typing import Any

    from sentinel_kernel.policy.cell_lines import CellNames

METADATA_KEY = "sentinel_failure"
"""Where the worker puts its report into a message's metadata (worker/failure_key.py)."""

REPORT_BYTES = 64 * 1024
"""The longest report that is read, as JSON; eight errors of two paths each are shorter."""

_CHAIN = 8
_LINES = 16
_TEXT = 200
_PATH = 4096
_HIGHEST_LINE = 1_000_000
_HIGHEST = 1 << 62

BASES = (
    "",
    "OSError",
    "MemoryError",
    "ModuleNotFoundError",
    "KeyboardInterrupt",
    "RuntimeError",
    "CalledProcessError",
    "BrokenProcessPool",
    "OperationalError",
    "IOException",
    "gaierror",
    "CancelledError",
)
CALL, RAISE, LIBRARY, STANDARD, CTYPES, SOFT, REMOTE = (
    "call",
    "raise",
    "library",
    "standard",
    "ctypes",
    "soft",
    "remote",
)
_BY = (CALL, RAISE, LIBRARY, STANDARD, CTYPES, SOFT, REMOTE)
PROGRAM, THREAD, SPAWN, LOOKUP, SOCKET = "program", "thread", "spawn", "lookup", "socket"
UNWRITTEN = "unwritten"
"""Native code says that less was written than was asked for, without an errno."""
UNOPENED = "unopened"
"""The path is what the error's words, or the call's argument, name: there may be no errno."""
DATAGRAM = "datagram"
"""The call was made on a socket of datagrams."""
_SITES = ("", DATAGRAM, PROGRAM, THREAD, SPAWN, LOOKUP, SOCKET, UNWRITTEN, UNOPENED)


class Line(Record):
    """A line of the running cell, ``function`` and ``file`` of its code.

    ``number`` counts what IPython compiled under that file's name; once :func:`typed` the cell as it was typed: then
    ``sure`` tells whether that is no guess.
    """

    number: int
    function: str
    file: str
    sure: bool = True


class Entry(Record):
    """One error of the chain: the one that was shown, or one that it was made from.

    ``by`` and ``site`` are explained in worker/failure.py. ``lines`` are those of the running cell,
    innermost first. ``gone``: the file that was written has been closed and removed since. ``size`` is what the failed
    expression asked for, ``held`` what the process had then, in bytes; ``call`` the number of a system call; ``code``
    SQLite's, or of a program that failed the errno whose words it has put out.
    """

    ename: str
    base: str
    by: str
    site: str
    lines: tuple[Line, ...]
    library: tuple[str, int, str] | None
    errno: int | None
    path: str | None
    path2: str | None
    writes: bool
    gone: bool
    host: str | None
    name: str | None
    returncode: int | None
    code: int | None
    size: int | None
    held: int | None
    call: int | None


_PRINTED = {"space": errno.ENOSPC, "memory": errno.ENOMEM}
"""Suspect (kernel/limit_signs.py) -> the errno whose words the cell has printed."""


class Failure(Record):
    """A report: which thread showed the error, and its chain, outermost first."""

    thread: int
    chain: tuple[Entry, ...]

    @property
    def lines(self) -> frozenset[int]:
        """Every line of the running cell that the error passed through."""
        return frozenset(line.number for entry in self.chain for line in entry.lines)


def read_report(document: object) -> Failure:
    """Return the report in a JSON value.

    Raises:
        ProtocolError: it is none; unknown keys are left out, for other versions of the worker.

    """
    if not isinstance(document, dict):
        raise ProtocolError("A report on an error is no object.")
    chain = document.get("chain")
    if not isinstance(chain, list) or not 0 < len(chain) <= _CHAIN:
        raise ProtocolError("A report on an error has no short chain.")
    return Failure(_number(document.get("thread")) or 0, tuple(map(_entry, chain)))


def typed(failure: Failure, names: CellNames) -> Failure:
    """Return a report with its lines as they were typed; of a file that ``names`` does not know they stay, unsure."""
    return replace(
        failure, chain=tuple(replace(one, lines=_typed(one.lines, names)) for one in failure.chain)
    )


def with_printed(failure: Failure, suspects: Collection[str]) -> Failure:
    """Return a report in which what the cell has printed counts as a failed program's words: it may have been."""
    code = next((_PRINTED[name] for name in _PRINTED if name in suspects), None)
    return replace(
        failure,
        chain=tuple(
            replace(one, code=code) if one.base == "CalledProcessError" and one.code is None else one
            for one in failure.chain
        ),
    )


def _typed(lines: tuple[Line, ...], names: CellNames) -> tuple[Line, ...]:
    found = [(line, names.find(line.file, line.number)) for line in lines]
    return tuple(
        replace(line, sure=False) if at is None else replace(line, number=at.line, sure=at.sure)
        for line, at in found
        if at is None or at.running
    )


def _entry(value: object) -> Entry:
    if not isinstance(value, dict):
        raise ProtocolError("An error of a report is no object.")
    lines = value.get("lines")
    if not isinstance(lines, list) or len(lines) > _LINES:
        raise ProtocolError("An error of a report has no short list of lines.")
    library = value.get("library")
    return Entry(
        ename=_text(value.get("ename"), _TEXT) or "",
        base=_choice(value.get("base"), BASES),
        by=_choice(value.get("by"), _BY),
        site=_choice(value.get("site", ""), _SITES),
        lines=tuple(map(_line, lines)),
        library=None if library is None else _library(library),
        errno=_number(value.get("errno")),
        path=_path(value.get("path")),
        path2=_path(value.get("path2")),
        writes=value.get("writes") is True,
        gone=value.get("gone") is True,
        host=_text(value.get("host"), _TEXT),
        name=_text(value.get("name"), _TEXT),
        returncode=_number(value.get("returncode")),
        code=_number(value.get("code")),
        size=_number(value.get("bytes")),
        held=_number(value.get("held")),
        call=_number(value.get("call")),
    )


def to_json(failure: Failure) -> dict[str, Any]:
    """Return a report that was read, for :func:`read_report` on the other side of the control socket."""
    return {
        "thread": failure.thread,
        "chain": [
            {
                **{
                    name: getattr(entry, name)
                    for name in field_names(Entry)
                    if name not in ("size", "lines", "library")
                },
                "bytes": entry.size,
                "lines": [[line.number, line.function, line.file] for line in entry.lines],
                "library": None if entry.library is None else list(entry.library),
            }
            for entry in failure.chain
        ],
    }


def _line(value: object) -> Line:
    if not isinstance(value, list) or len(value) != 3:
        raise ProtocolError("A line of a report is none.")
    number, function, file = value
    return Line(_line_number(number), _text(function, _TEXT) or "?", _text(file, _PATH) or "")


def _line_number(number: object) -> int:
    if isinstance(number, bool) or not isinstance(number, int) or not 0 < number <= _HIGHEST_LINE:
        raise ProtocolError("A line's number in a report is none.")
    return number


def _library(value: object) -> tuple[str, int, str]:
    if not isinstance(value, list) or len(value) != 3:
        raise ProtocolError("A frame of a report is none.")
    file, number, function = value
    return _text(file, _TEXT) or "?", _line_number(number), _text(function, _TEXT) or "?"


def _text(value: object, most: int) -> str | None:
    if value is None:
        return None
    if not isinstance(value, str):
        raise ProtocolError("A text of a report is none.")
    return value[:most].encode("utf-8", "replace").decode("utf-8")


def _path(value: object) -> str | None:
    """Return a path that may be looked up; one that is too long, or holds what no path can, is left out."""
    if value is None:
        return None
    if not isinstance(value, str):
        raise ProtocolError("A path of a report is none.")
    if not value or len(value) > _PATH or "\0" in value:
        return None
    try:
        return value if len(value.encode("utf-8", "surrogateescape")) <= _PATH else None
    except UnicodeEncodeError:
        return None


def _number(value: object) -> int | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or not -_HIGHEST <= value <= _HIGHEST:
        raise ProtocolError("A number of a report is none.")
    return value


def _choice(value: object, choices: tuple[str, ...]) -> str:
    if not isinstance(value, str) or value not in choices:
        raise ProtocolError("A word of a report is unknown.")
    return value
