"""Runs the body of a dry run in a forked copy of the worker, whose variables nobody keeps.

What holds files and network back is outside (supervisor/files.py, supervisor/network/way_out.py): nothing there
depends on what happens here. A fork copies the calling thread alone. Where threads of others run, whose locks would
stay held in the copy for ever, the body runs in the worker itself, and says so before.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import select
import signal
import sys
import threading
import time
import warnings
from typing import TYPE_CHECKING, Any

from sentinel_kernel.worker.language import is_chinese
from sentinel_kernel.worker.prctl import adopt_orphans

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator, Sequence

_OWN_PACKAGES = ("ipykernel", "IPython", "sentinel_kernel")
"""Whose threads wait for work while a cell runs, and hold no lock that the copy would need."""

_OWN_NATIVE = ("ZMQbg/", "jemalloc_bg_thd")
"""How threads of libzmq and jemalloc (pyarrow has it) are named, which both begin anew behind a fork."""

_LENGTH_BYTES = 8
_MOST_BYTES = 64 << 20
"""So much of output is shown; a message that is longer, or comes on top, is left out."""

_CHUNK_BYTES = 1 << 16
_GRACE_SECONDS = 5.0
"""How long the copy may take to end once it was interrupted."""

_KILLS = 100
_NAMED = 5
_FILES_ONLY = (
    (
        "Dry run of files alone: {count} other {threads} here ({named}), so that the worker can't be copied safely. "
        "The cell runs in the worker itself: variables DO change; files are taken back, and no host is reached.\n"
    ),
    (
        "仅试运行文件：此处有 {count} 个其他线程（{named}），无法安全地复制工作进程。"
        "单元格在工作进程中运行：变量会改变；文件更改会撤回，也不会连接任何主机。\n"
    ),
)
_MONITOR_SECONDS = 1.0


def run_dry(kernel: Any, shell: Any, body: str) -> None:  # noqa: ANN401 - ipykernel's
    """Run ``body`` and show what it puts out; an error of it is raised here, with the traceback it had there."""
    foreign = foreign_threads()
    if foreign:
        _say_why(foreign)
        asks = kernel._allow_stdin  # noqa: SLF001 - ipykernel has no other way
        kernel._allow_stdin = False  # noqa: SLF001 - nobody is asked in a dry run
        try:
            _raise_of(_run_body(shell, body))
        finally:
            kernel._allow_stdin = asks  # noqa: SLF001 - as above
        return
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    reader, writer = os.pipe2(os.O_CLOEXEC)
    began = time.clock_gettime(time.CLOCK_BOOTTIME)
    with contextlib.suppress(OSError):
        adopt_orphans(adopts=True)
    try:
        pid = _fork()
        if pid == 0:
            os.close(reader)
            _be_copy(kernel, shell, body, writer)
        os.close(writer)
        ended = _forward(kernel, reader, pid)
    finally:
        os.close(reader)
        _end_all(began)
        with contextlib.suppress(OSError):
            adopt_orphans(adopts=False)
    _raise_of(ended)


# --- whether a fork is safe


def foreign_threads() -> list[str]:
    """Return the names of threads that are neither ipykernel's nor libzmq's; the last look is behind a fork.

    Libraries that care (OpenBLAS) end their threads for a fork, and start them again when they are needed.
    """
    if not _foreign():
        return []
    _end_monitors()
    if all(map(_is_own, threading.enumerate())):
        pid = _fork()
        if pid == 0:
            os._exit(0)
        os.waitpid(pid, 0)
    return _foreign()


def _end_monitors() -> None:
    """End the threads that tqdm has beside its bars: they sleep and look, and it starts another for its next bar."""
    monitor: Any = getattr(sys.modules.get("tqdm._monitor"), "TMonitor", None)
    running: list[Any] = threading.enumerate()
    for thread in running:
        if type(thread) is monitor:
            thread.was_killed.set()
            thread.join(_MONITOR_SECONDS)


def _foreign() -> list[str]:
    own = {thread.native_id for thread in threading.enumerate() if _is_own(thread)}
    own.add(os.getpid())  # Python goes on calling the main thread by its number before the worker's own fork
    found = []
    for task in os.listdir("/proc/self/task"):
        if int(task) in own:
            continue
        with contextlib.suppress(OSError), open(f"/proc/self/task/{task}/comm") as file:
            name = file.read().strip()
            if not name.startswith(_OWN_NATIVE):
                found.append(name)
    return found


def _is_own(thread: threading.Thread) -> bool:
    if thread is threading.main_thread():
        return True
    modules = (type(thread).__module__, getattr(getattr(thread, "_target", None), "__module__", None) or "")
    return any(module.partition(".")[0] in _OWN_PACKAGES for module in modules)


def _say_why(foreign: Sequence[str]) -> None:
    named = ", ".join(sorted(set(foreign))[:_NAMED])
    threads = "thread runs" if len(foreign) == 1 else "threads run"
    words = _FILES_ONLY[is_chinese()]
    sys.stderr.write(words.format(count=len(foreign), threads=threads, named=named))
    sys.stderr.flush()


def _fork() -> int:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of threads: they were looked at
        return os.fork()


# --- the copy


def _be_copy(kernel: Any, shell: Any, body: str, writer: int) -> None:  # noqa: ANN401 - ipykernel's
    """Run the body in this process, which is the copy, and end it."""
    status = 1
    try:
        kernel.own_pid = os.getpid()
        # What is put out goes to the worker, which has the sockets; in one stream, so that it stays in order.
        kernel.iopub_thread.send_multipart = _sender(writer)
        kernel.session.check_pid = False
        kernel._allow_stdin = False  # noqa: SLF001 - a question of a copy has nobody to be answered by
        ended = _run_body(shell, body)
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        _write(writer, "ended", json.dumps(ended).encode())
        status = 0
    finally:
        os._exit(status)


def _sender(writer: int) -> Callable[..., None]:
    lock = threading.Lock()

    def send(message: Sequence[Any], *_options: object, **_named: object) -> None:
        with lock:
            _write(writer, "said", *message)

    return send


def _write(writer: int, kind: str, *parts: Any) -> None:  # noqa: ANN401 - whatever holds bytes
    given = [bytes(part) for part in parts]
    head = json.dumps([kind, *map(len, given)]).encode()
    data = b"".join([head, b"\n", *given])
    rest = memoryview(len(data).to_bytes(_LENGTH_BYTES, "little") + data)
    while rest:
        rest = rest[os.write(writer, rest) :]


def _read(data: bytes) -> tuple[str, list[bytes]]:
    head, _, rest = data.partition(b"\n")
    kind, *lengths = json.loads(head)
    parts, start = [], 0
    for length in lengths:
        parts.append(rest[start : start + length])
        start += length
    return kind, parts


def _run_body(shell: Any, body: str) -> tuple[str, str, list[str]] | None:  # noqa: ANN401 - IPython's
    """Run the body as a cell; return its error: class, text, traceback."""
    shown: list[tuple[str, str, list[str]]] = []

    def show(etype: type[BaseException], evalue: BaseException, lines: list[str]) -> None:
        shown.append((etype.__name__, str(evalue), list(lines)))

    shell._showtraceback = show  # noqa: SLF001 - raised by run_dry, so that it is the cell's own error
    # The worker's loop stands while a magic runs: what the body awaits has a loop of its own.
    loop, runner = asyncio._get_running_loop(), shell.loop_runner  # noqa: SLF001 - for who nests loops
    asyncio._set_running_loop(None)  # noqa: SLF001 - as above
    shell.loop_runner = _run_apart
    try:
        result = shell.run_cell(body, store_history=False, silent=False)
    finally:
        asyncio._set_running_loop(loop)  # noqa: SLF001 - as above
        shell.loop_runner = runner
        del shell._showtraceback  # noqa: SLF001 - as above
    error = result.error_before_exec or result.error_in_exec
    if error is None:
        return None
    return shown[-1] if shown else (type(error).__name__, str(error), [])


def _run_apart(coroutine: Coroutine[Any, Any, object]) -> object:
    loop = asyncio.new_event_loop()
    try:
        return loop.run_until_complete(coroutine)
    finally:
        loop.close()


def _raise_of(ended: tuple[str, str, list[str]] | None) -> None:
    """Raise the error that the body ended with, if any, with the traceback that it had there."""
    if ended is None:
        return
    name, text, lines = ended
    made = type(name, (Exception,), {"_render_traceback_": lambda _self, *_: lines or [f"{name}: {text}"]})
    raise made(text)


# --- the worker meanwhile


def _forward(kernel: Any, reader: int, pid: int) -> tuple[str, str, list[str]] | None:  # noqa: ANN401 - ipykernel's
    """Show what the copy puts out until it ends; return its error."""
    copy, interrupted, taken = _Copy(reader), False, 0
    ended: list[bytes] = []
    while True:
        try:
            for kind, parts in copy.messages():
                if kind == "ended":
                    ended = parts
                    break
                taken += sum(map(len, parts))
                if taken <= _MOST_BYTES:
                    kernel.iopub_thread.send_multipart(parts)
        except KeyboardInterrupt:  # the copy got it as well, and ends by it
            interrupted, copy.until = True, time.monotonic() + _GRACE_SECONDS
            continue
        break
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
    _, status = os.waitpid(pid, 0)
    if ended:
        error = json.loads(ended[0])
        return None if error is None else (error[0], error[1], error[2])
    if interrupted:
        return "KeyboardInterrupt", "", []
    how = f"by signal {os.WTERMSIG(status)}" if os.WIFSIGNALED(status) else "by itself"
    return "DryRunDied", f"The copy of the worker that ran the cell was ended {how}.", []


class _Copy:
    """What the copy writes; what was read stays where an interrupt comes between."""

    def __init__(self, reader: int) -> None:
        self._reader = reader
        self._held = bytearray()
        self.until = float("inf")
        """When it is not waited for any more (monotonic seconds)."""

    def messages(self) -> Iterator[tuple[str, list[bytes]]]:
        """Yield messages until the copy closes its end or it is too late."""
        poll = select.poll()
        poll.register(self._reader, select.POLLIN)
        held = self._held
        while True:
            length = int.from_bytes(held[:_LENGTH_BYTES], "little")
            if len(held) >= _LENGTH_BYTES + length > _LENGTH_BYTES:
                data = bytes(held[_LENGTH_BYTES : _LENGTH_BYTES + length])
                del held[: _LENGTH_BYTES + length]
                yield _read(data)
                continue
            left = self.until - time.monotonic()
            if left <= 0:
                return
            if not poll.poll(None if left == float("inf") else left * 1000):
                continue
            chunk = os.read(self._reader, _CHUNK_BYTES)
            if not chunk:
                return
            held += chunk


def _end_all(began: float) -> None:
    """Kill what the copy has started and left: its orphans are this process's children by now."""
    ticks = os.sysconf("SC_CLK_TCK")
    for _ in range(_KILLS):
        found = [pid for pid in _children() if _started(pid) / ticks >= began - 2 / ticks]
        if not found:
            return
        for pid in found:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, 0)


def _children() -> list[int]:
    found: list[int] = []
    for task in os.listdir("/proc/self/task"):
        with contextlib.suppress(OSError), open(f"/proc/self/task/{task}/children") as file:
            found += map(int, file.read().split())
    return found


def _started(pid: int) -> float:
    """Return when a process started, in ticks since the machine did (proc(5), stat)."""
    with contextlib.suppress(OSError, ValueError, IndexError), open(f"/proc/{pid}/stat") as file:
        return float(file.read().rpartition(")")[2].split()[19])
    return 0.0
