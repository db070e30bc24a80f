"""Looks paths and programs up on both sides, in a process of its own: a path may lead to a disk that does not answer.

The host's side is looked up with the rights of the user who started the kernel, and only on this machine's own file
systems: a name that a cell chose would else reach a server, or an automounter. The sandbox's side is looked up below
its own root, which no link that it planted can leave. Nothing is opened but by name (O_PATH).
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import stat
import sys
import time

from sentinel_kernel.linux.files import look_up_beneath
from sentinel_kernel.linux.local_files import look_up_local
from sentinel_kernel.linux.process import close_descriptors, die_with_parent
from sentinel_kernel.supervisor.killed_children import unreaped

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    Answers = list[dict[str, Any]]

SECONDS = 1.5
"""How long the disks may take; what is not known by then is not told."""

_ANSWER_BYTES = 256 * 1024
_MOST = 4
"""So many may be under way at a time; beyond that nothing is looked up."""

_PROC = "/proc"


class Lookups:
    """The look-ups that are under way. Each is one child; none is ever waited for."""

    def __init__(self) -> None:
        """Start without any."""
        self._pending: dict[int, tuple[int, float, bytearray, Callable[[Answers], None]]] = {}
        """Reading end -> process, deadline, what it has said, and whom to tell."""
        self._dying: list[int] = []

    def ask(
        self, root_pid: int, questions: Sequence[dict[str, Any]], done: Callable[[Answers], None]
    ) -> None:
        """Look ``questions`` up and call ``done`` with as many answers, or with none where it failed.

        A question is ``{"path": ...}``, ``{"program": ..., "inside": PATH, "outside": PATH}`` or
        ``{"module": ..., "folders": [...], "meant": ...}``; ``root_pid`` is a process whose root is the sandbox's, 0
        where that is our own.
        """
        self._reap()
        if len(self._pending) + len(self._dying) >= _MOST:
            done([])
            return
        ends: tuple[int, ...] = ()
        try:
            reader, writer = ends = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
            pid = os.fork()
        except OSError:  # no descriptor or no process is to be had
            for descriptor in ends:
                os.close(descriptor)
            done([])
            return
        if pid == 0:
            _answer(writer, root_pid, questions)
        os.close(writer)
        self._pending[reader] = (pid, time.monotonic() + SECONDS, bytearray(), done)

    def descriptors(self) -> Sequence[int]:
        """Return what is readable when there is an answer."""
        return tuple(self._pending)

    def due_seconds(self) -> float | None:
        """Return when the next one is given up."""
        now = time.monotonic()
        return min((max(0.0, until - now) for _, until, _, _ in self._pending.values()), default=None)

    def serve(self, ready: dict[int, int]) -> None:
        """Take what the children have said."""
        for reader in [reader for reader in self._pending if reader in ready]:
            said = self._pending[reader][2]
            try:
                chunk = os.read(reader, _ANSWER_BYTES)
            except BlockingIOError:
                continue
            said += chunk
            if not chunk or len(said) > _ANSWER_BYTES:
                self._end(reader)

    def catch_up(self) -> None:
        """Give up those that take too long."""
        now = time.monotonic()
        for reader in [reader for reader, entry in self._pending.items() if entry[1] <= now]:
            self._end(reader)
        self._reap()

    def close(self) -> None:
        """Give everything up, and tell nobody."""
        for reader, (pid, _, _, _) in self._pending.items():
            os.close(reader)
            os.kill(pid, signal.SIGKILL)
            self._dying.append(pid)
        self._pending.clear()
        self._reap()

    def _end(self, reader: int) -> None:
        pid, _, said, done = self._pending.pop(reader)
        os.close(reader)
        os.kill(pid, signal.SIGKILL)  # not reaped yet: the number is its own
        self._dying.append(pid)
        self._reap()
        answers: object = None
        with contextlib.suppress(ValueError, RecursionError):
            answers = json.loads(bytes(said))
        done(answers if isinstance(answers, list) else [])

    def _reap(self) -> None:
        """Reap those that have ended; one that hangs in a disk stays until that answers."""
        self._dying = unreaped(self._dying)


# --- in the child


def _answer(writer: int, root_pid: int, questions: Sequence[dict[str, Any]]) -> None:
    """Answer and end; it shares the supervisor's pages and nothing else."""
    try:
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)
        die_with_parent()
        os.dup2(writer, 3)
        close_descriptors(4, 0x7FFFFFFF)
        os.set_blocking(3, True)
        root = os.open(f"/proc/{root_pid or 'self'}/root", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        answers = [_one(root, question) for question in questions]
        os.write(3, json.dumps(answers).encode("ascii"))
    except BaseException:  # noqa: BLE001 - a fork must never go on with the supervisor's work
        os._exit(1)
    os._exit(0)


def _one(root: int, question: dict[str, Any]) -> dict[str, Any]:
    program = question.get("program")
    if program is not None:
        inside = any(
            _runs(root, f"{folder}/{program}", beneath=True) for folder in _folders(question["inside"])
        )
        outside = next(
            (
                True
                for folder in _folders(question["outside"])
                if _runs(root, f"{folder}/{program}", beneath=False)
            ),
            False,
        )
        return {"inside": inside, "outside": outside}
    module = question.get("module")
    if module is not None:
        return {
            "present": any(_has_module(folder, module) for folder in question["folders"]),
            "meant": _there(question.get("meant"), question["folders"]),
        }
    path = question["path"]
    folder = os.path.dirname(path)
    host = question.get("host") is True
    return {
        "inside": _look(root, path, beneath=True),
        "folder_inside": _look(root, folder, beneath=True),
        "outside": _look(root, path, beneath=False) if host else None,
        "folder_outside": _look(root, folder, beneath=False) if host else None,
    }


def _there(module: str | None, folders: Sequence[str]) -> str | None:
    """Return a module's name if it can be imported: it is Python's own, or lies in one of the folders."""
    if module is None or module in sys.stdlib_module_names:
        return module
    return module if any(_has_module(folder, module) for folder in folders) else None


def _has_module(folder: str, module: str) -> bool:
    """Tell whether a folder of the environment's packages has a module, or leads to one that is developed elsewhere."""
    try:
        names = os.listdir(folder)
    except OSError:  # an archive, or none any more
        return False
    return any(
        name == module
        or (name.startswith(f"{module}.") and name.endswith((".py", ".pyc", ".so")))
        or (name.startswith("__editable__") and module in name)
        for name in names
    )


def _folders(search: str) -> list[str]:
    return [folder for folder in search.split(":") if folder.startswith("/")]


def _runs(root: int, path: str, *, beneath: bool) -> bool:
    found = _look(root, path, beneath=beneath)
    return found is not None and stat.S_ISREG(found["mode"]) and bool(found["mode"] & 0o111)


def _look(root: int, path: str, *, beneath: bool) -> dict[str, Any] | None:
    try:
        descriptor = look_up_beneath(root, path) if beneath else look_up_local(path)
    except OSError:
        return None
    try:
        status = os.fstat(descriptor)
        real = ""
        readable = False
        if not beneath:
            real = os.readlink(f"/proc/self/fd/{descriptor}")
            if real == _PROC or real.startswith(_PROC + "/"):
                return None
            readable = os.access(f"/proc/self/fd/{descriptor}", os.R_OK, effective_ids=True)
        no_exec = bool(os.fstatvfs(descriptor).f_flag & os.ST_NOEXEC)
    except OSError:
        return None
    finally:
        os.close(descriptor)
    return {
        "mode": status.st_mode,
        "uid": status.st_uid,
        "gid": status.st_gid,
        "no_exec": no_exec,
        "readable": readable,
        "real": real,
    }
