"""Children that have ended and that nobody waited for: each counts as a task until the worker takes note of it.

Asked for by the supervisor, between cells, where a cell has used up all tasks: the next ones could start nothing else.
"""

from __future__ import annotations

import contextlib
import gc
import os
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator


def reap_children() -> None:
    """Take note of every child that has ended: by whom it belongs to, so that its status is known there, else here."""
    subprocess: Any = sys.modules.get("subprocess")
    owned = set()
    if subprocess is not None and any(_ended()):
        for one in gc.get_objects():
            if issubclass(type(one), subprocess.Popen) and getattr(one, "returncode", 0) is None:
                with contextlib.suppress(Exception):
                    one.poll()
                    owned.add(one.pid)
    multiprocessing: Any = sys.modules.get("multiprocessing.process")
    if multiprocessing is not None:
        with contextlib.suppress(Exception):
            multiprocessing.active_children()
    for pid in set(_ended()) - owned:
        with contextlib.suppress(ChildProcessError):
            os.waitpid(pid, os.WNOHANG)


def _ended() -> Iterator[int]:
    """Yield the children of this process, of any of its threads, that have ended (proc_pid_children(5))."""
    with contextlib.suppress(OSError):
        for thread in os.listdir("/proc/self/task"):
            with contextlib.suppress(OSError), open(f"/proc/self/task/{thread}/children", "rb") as file:
                yield from (int(pid) for pid in file.read().split() if _is_ended(int(pid)))


def _is_ended(pid: int) -> bool:
    with contextlib.suppress(OSError), open(f"/proc/{pid}/stat", "rb") as file:
        return file.read().rpartition(b")")[2].split()[0] in (b"Z", b"X")
    return False
