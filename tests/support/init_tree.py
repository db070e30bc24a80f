"""A few processes as a sandbox has them: an init that tells of a worker and of an older process, and all below it."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from sentinel_kernel.supervisor.processes import processes_below
from sentinel_kernel.supervisor.processor_time import has_ended, stat_fields

if TYPE_CHECKING:
    from collections.abc import Iterator

Tree = tuple[subprocess.Popen[str], Any]
"""The init, and what the supervisor knows of such a sandbox."""


def alive(first: int) -> list[int]:
    """Return ``first`` and all below it that have not ended."""
    return [pid for pid in processes_below(first) if not has_ended(stat_fields(pid))]


@contextlib.contextmanager
def init_of(program: str) -> Iterator[subprocess.Popen[str]]:
    """Run a program, and end it with all that is below it."""
    init = subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        yield init
    finally:
        # It goes last: the others would be nobody's. What has ended meanwhile has no number any more.
        while left := [pid for pid in alive(init.pid) if pid != init.pid]:
            for pid in left:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        init.kill()
        init.communicate()


@contextlib.contextmanager
def init_tree(program: str) -> Iterator[Tree]:
    """Run an init that prints the numbers of its worker and of an older process."""
    with init_of(program) as init:
        assert init.stdout is not None
        worker, older = map(int, init.stdout.readline().split())
        yield init, SimpleNamespace(sandbox=SimpleNamespace(pid=init.pid), worker_pid=worker, older=older)
