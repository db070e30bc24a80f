"""What a cell's error is made of, in figures and names: by it the supervisor can tell whether the sandbox caused it.

Nothing here decides anything: the report is read as hostile where it arrives. It is made for errors alone, and only
for kinds of errors that a sandbox can cause. A program's own words take no part in it: what tells a call that failed
from an error that was made by hand is the instruction that the innermost frame stands at.
"""

from __future__ import annotations

import errno
import importlib.util
import opcode
import os
import sys
import threading
from typing import TYPE_CHECKING, Any

from IPython.core.interactiveshell import InteractiveShell

from sentinel_kernel.worker.failed_call import (
    address_wanted,
    asked_bytes,
    errno_put_out,
    file_written,
    is_of_datagrams,
    largest_amount,
    opens_to_write,
    room_wanted,
    starts_process,
    system_call_number,
)
from sentinel_kernel.worker.named_path import database_not_opened, number_in_words, path_in_words
from sentinel_kernel.worker.started import has_large_stacks

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import CodeType, TracebackType

_CHAIN = 8
_LINES = 16
_FRAMES = 3000
_TEXT = 200
_PATH = 4096
_RUN_CODE = InteractiveShell.run_code.__code__
_RAISE = opcode.opmap["RAISE_VARARGS"]
_STANDARD = os.path.dirname(os.__file__) + os.sep
_SHUTIL = f"{_STANDARD}shutil.py"
_TIMED = frozenset({"<timed exec>", "<timed eval>", "<magic-timeit>"})
"""What is below %%time and %%timeit is compiled under such a name."""

_REMOTE = frozenset({"_RemoteTraceback", "RemoteTraceback"})
"""Causes by which process pools carry a traceback of another process."""

_SITES = {
    ("subprocess.py", ""): "program",
    ("threading.py", "start"): "thread",
    ("socket.py", "getaddrinfo"): "lookup",
    ("socket.py", "__init__"): "socket",
    **{
        (name, ""): "spawn"
        for name in ("popen_fork.py", "popen_forkserver.py", "popen_spawn_posix.py", "pty.py")
    },
}
"""(file, function or any) of the standard library -> what is done there."""

_ELSEWHERE = (
    ("subprocess", "CalledProcessError"),
    ("concurrent.futures.process", "BrokenProcessPool"),
    ("sqlite3", "OperationalError"),
    ("duckdb", "IOException"),
    ("psycopg", "OperationalError"),
    ("psycopg2", "OperationalError"),
    ("_socket", "gaierror"),
    ("asyncio.exceptions", "CancelledError"),
)
"""Bases that are looked for only where their module is loaded: else there is none of them."""

_OF_PATHS = (errno.ENOENT, errno.ENOTDIR, errno.EACCES, errno.EPERM, errno.EROFS, errno.EXDEV, errno.EBUSY)
_BASES = (OSError, MemoryError, ModuleNotFoundError, KeyboardInterrupt, RuntimeError)


def report_of(error: object, cell: str = "") -> dict[str, Any] | None:
    """Return the report on ``error``, or None where no sandbox causes such an error.

    ``cell`` is the file name of the running cell, where it is not on the error's own way: in a thread.
    """
    try:
        return _report(error, cell)
    except Exception:  # noqa: BLE001 - the error itself must be shown, whatever its class makes of being looked at
        return None


def _report(error: object, cell: str) -> dict[str, Any] | None:
    if not isinstance(error, BaseException):
        return None
    chain = list(_chain(error))
    if not any(base for _, base in chain):
        return None
    cell = cell or _running_cell(error.__traceback__)
    return {
        "thread": threading.get_native_id(),
        "chain": [_entry(one, base, cell) for one, base in chain],
    }


def _chain(error: BaseException) -> Iterator[tuple[BaseException, str]]:
    """Return the error and those that it was made from, with their bases, outermost first."""
    waiting, seen = [error], {id(error)}
    count = 0
    while waiting and count < _CHAIN:
        one = waiting.pop(0)
        count += 1
        yield one, _base(type(one))
        found: list[object] = [one.__cause__]
        if one.__cause__ is None and (_by(one) != "call" or _is_again(one, one.__context__)):
            # Raised on purpose while the other was handled; an error that came up by itself has its own reason.
            found.append(one.__context__)
        grouped = getattr(one, "exceptions", None)  # of an ExceptionGroup, Python 3.11
        found += grouped[:_CHAIN] if isinstance(grouped, tuple) else ()
        if not any(isinstance(other, BaseException) for other in found):
            found += [getattr(one, "reason", None), *one.args[:2]]
        for other in found:
            if isinstance(other, BaseException) and id(other) not in seen:
                seen.add(id(other))
                waiting.append(other)


def _is_again(error: BaseException, before: BaseException | None) -> bool:
    """Tell whether an error is the one before once more, as where a file that could not be written is closed."""
    return isinstance(error, OSError) and isinstance(before, OSError) and error.errno == before.errno


def _base(kind: type) -> str:
    ancestors = kind.__mro__
    for module, name in _ELSEWHERE:
        base = getattr(sys.modules.get(module), name, None)
        if base is not None and base in ancestors:
            return name
    return next((base.__name__ for base in _BASES if base in ancestors), "")


def _entry(error: BaseException, base: str, cell: str) -> dict[str, Any]:
    frames = list(_frames(error.__traceback__))
    lines = [
        [trace.tb_lineno, code.co_name[:100], code.co_filename]
        for trace in reversed(frames)
        if (code := trace.tb_frame.f_code).co_filename in _TIMED or (cell and code.co_filename == cell)
    ]
    kind = type(error)
    entry: dict[str, Any] = {
        "ename": f"{kind.__module__}.{kind.__qualname__}".removeprefix("builtins.")[:_TEXT],
        "base": base,
        "by": _by(error),
        "lines": lines[:_LINES],
    }
    if not base:
        return entry
    entry |= _facts(error, base, frames)
    if frames and frames[-1].tb_frame.f_code.co_filename != cell:
        code = frames[-1].tb_frame.f_code
        if not _is_cell(code):
            file = os.sep.join(code.co_filename.rsplit(os.sep, 2)[-2:])
            entry["library"] = [file[:_TEXT], frames[-1].tb_lineno, code.co_name[:100]]
    return entry


def _facts(error: BaseException, base: str, frames: list[TracebackType]) -> dict[str, Any]:
    """Return what an error of this base says of itself beyond its place."""
    inner = frames[-1] if frames else None
    facts: dict[str, Any] = {"site": _site(frames, _by(error))}
    if isinstance(error, OSError):
        facts |= _of_system(error, facts["site"], inner)
    elif base == "MemoryError":
        facts |= {"bytes": asked_bytes(error, inner), "held": _data_bytes()}
    elif isinstance(error, ModuleNotFoundError):
        name = error.name if isinstance(error.name, str) else ""
        if name.isidentifier() and _is_absent(name):
            facts["name"] = name[:_TEXT]
    elif base == "CalledProcessError":
        status = getattr(error, "returncode", None)
        facts["returncode"] = status if isinstance(status, int) else None
        facts["code"] = errno_put_out(getattr(error, "stderr", None), getattr(error, "output", None))
    elif base == "OperationalError":
        facts["code"] = getattr(error, "sqlite_errorcode", None)
        facts |= _unopened(*database_not_opened(facts["code"], inner))
    elif base == "IOException":
        facts |= {"errno": number_in_words(error), **_unopened(*path_in_words(error, inner))}
    return facts


def _unopened(path: str | None, writes: bool) -> dict[str, Any]:
    """Return what is said of a path that an error has no field for."""
    path = _path(path, program=False)
    return {} if path is None else {"site": "unopened", "path": path, "writes": writes}


def _data_bytes() -> int | None:
    """Return how much data the process has, while the frames of an error for want of memory still hold theirs."""
    try:
        with open("/proc/self/statm", "rb") as file:
            return int(file.read().split()[5]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return None


def _of_system(error: OSError, site: str, inner: TracebackType | None) -> dict[str, Any]:
    facts: dict[str, Any] = {"errno": _number(error)}
    path: object = error.filename
    if inner is not None and inner.tb_frame.f_code.co_filename == _SHUTIL:
        # It removes trees by descriptors of their folders: the error has the last name alone.
        path = inner.tb_frame.f_locals.get("fullname", path)
    for key, value in (("path", path), ("path2", error.filename2)):
        text = _path(value, program=site == "program")
        if text is not None:
            facts[key] = text
    facts["host"] = _host(error, facts["errno"], site, inner)
    if facts["errno"] == errno.ENETUNREACH and is_of_datagrams(inner):
        facts["site"] = "datagram"
    if facts["errno"] == errno.ENOSYS:
        facts["call"] = system_call_number(inner)
    elif facts["errno"] in (errno.EFBIG, errno.ENOSPC):
        facts["bytes"] = largest_amount(inner)
        written, facts["gone"] = file_written(inner)
        if (path := _path(written, program=False)) is not None:
            facts.setdefault("path", path)
    elif "path" in facts:
        facts["writes"] = opens_to_write(inner)
    elif facts["errno"] in (None, *_OF_PATHS):
        facts |= _in_words(error, facts["errno"], inner)
    return facts


def _number(error: OSError) -> int | None:
    if error.errno is None and _by(error) == "call":
        return number_in_words(error)
    return error.errno if isinstance(error.errno, int) else None


def _host(error: OSError, number: int | None, site: str, inner: TracebackType | None) -> str | None:
    """Return the name that was looked up, or the address that was not reached."""
    if number == errno.ENETUNREACH and site != "lookup":
        return address_wanted(inner)
    if inner is None or (site != "lookup" and number is not None):
        return None
    # A library's own error, as aiohttp's, has no errno: what it was asked for stands in it, or where it was raised.
    for host in (inner.tb_frame.f_locals.get("host"), getattr(error, "host", None)):
        if isinstance(host, str):
            return host[:_TEXT]
    return None


def _in_words(error: OSError, number: int | None, inner: TracebackType | None) -> dict[str, Any]:
    """Return what the words of an error tell that has neither field for it."""
    if number is None and (wanted := room_wanted(error)) is not None:
        return {"site": "unwritten", "bytes": wanted or None}
    return _unopened(*path_in_words(error, inner))


def _path(value: object, *, program: bool) -> str | None:
    """Return a path as an absolute one; a program that is looked for in PATH stays as it is."""
    if isinstance(value, bytes | os.PathLike):
        value = os.fsdecode(value)
    if not isinstance(value, str) or not value or len(value) > _PATH:
        return None
    if program and os.sep not in value:
        return value
    try:
        return os.path.join(os.getcwd(), value)[:_PATH]
    except OSError:  # the current folder is gone
        return value if value.startswith(os.sep) else None


def _by(error: BaseException) -> str:
    """Return what the error came from: a call into native code, or a statement, and whose.

    ``call``: of the interpreter or native code; ``raise``: by a cell or a program; ``library``: by a package;
    ``standard``: by the standard library; ``ctypes``: for a call that has just failed with the same errno; ``soft``: by
    the handler of the soft memory limit; ``remote``: in another process, by no statement of a program's.
    """
    if type(error.__cause__).__name__ in _REMOTE:
        return "raise" if _raises(getattr(error.__cause__, "tb", "")) else "remote"
    inner = None
    for inner in _frames(error.__traceback__):  # noqa: B007 - the last one is wanted
        pass
    if inner is None:
        return "raise"
    code = inner.tb_frame.f_code
    instructions = code.co_code
    if not 0 <= inner.tb_lasti < len(instructions) or instructions[inner.tb_lasti] != _RAISE:
        return "call"
    number = error.errno if isinstance(error, OSError) else None
    ctypes: Any = sys.modules.get("ctypes")
    # The last errno belongs to a thread, which may be another one: then it is enough that the code asks for it.
    if number and ctypes is not None and (ctypes.get_errno() == number or "get_errno" in code.co_names):
        return "ctypes"
    return _whose(code)


def _raises(told: object) -> bool:
    """Tell whether a traceback that another process has written ends in a statement that made the error up."""
    if not isinstance(told, str):
        return False
    file, _, statement = told.rpartition('\n  File "')[2].partition("\n")
    statement = statement.partition("\n")[0]
    asks = "/subprocess.py" in file or "get_errno" in statement
    return statement.split(None, 1)[:1] == ["raise"] and not asks


def _whose(code: CodeType) -> str:
    """Return whose statement it is that raised."""
    file = code.co_filename
    if file.endswith("sentinel_kernel/worker/soft_memory.py"):
        return "soft"
    if "-packages" in file:
        return "library"
    return "standard" if file.startswith(("<frozen ", _STANDARD)) else "raise"


def _site(frames: list[TracebackType], by: str) -> str:
    """Return what was being done, where the innermost frame is a function of the standard library that tells it."""
    if not frames:
        return ""
    code = frames[-1].tb_frame.f_code
    if not code.co_filename.startswith(_STANDARD):
        return "spawn" if by == "call" and starts_process(frames[-1]) else ""
    file, name = os.path.basename(code.co_filename), code.co_name
    if (file, name) == ("threading.py", "start") and has_large_stacks():
        return ""  # a size of its own may be too large by itself
    if file == "os.py":
        return "program" if name.startswith(("exec", "_exec", "_spawn")) else ""
    if (file, name, by) == ("subprocess.py", "_execute_child", "call"):
        return "spawn"
    return _SITES.get((file, name)) or _SITES.get((file, ""), "")


_NOTES = "sentinel_kernel/worker/started.py"
_OPENS = "_modified_open"
"""Ours is between subprocess and the call that it makes, IPython's own between a cell and ``open``."""


def _frames(trace: TracebackType | None) -> Iterator[TracebackType]:
    count = 0
    while trace is not None and count < _FRAMES:
        code = trace.tb_frame.f_code
        if code.co_name != _OPENS and not code.co_filename.endswith(_NOTES):
            yield trace
        trace = trace.tb_next
        count += 1


def _running_cell(trace: TracebackType | None) -> str:
    """Return the file name of the cell that IPython has run: the frame above its own."""
    before = None
    for one in _frames(trace):
        if before is _RUN_CODE:
            return one.tb_frame.f_code.co_filename
        before = one.tb_frame.f_code
    return ""


def _is_cell(code: CodeType) -> bool:
    return f"{os.sep}ipykernel_" in code.co_filename


def _is_absent(name: str) -> bool:
    """Tell whether no finder knows a module of this name, and it is none of the standard library's."""
    if name in sys.modules or name in sys.stdlib_module_names:
        return False
    try:
        return importlib.util.find_spec(name) is None
    except (ImportError, ValueError, AttributeError):
        return False
