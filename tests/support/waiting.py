"""Waiting for a condition instead of for a time."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

from sentinel_kernel.abi.architecture import architecture_of

if TYPE_CHECKING:
    from collections.abc import Callable


def wait_until(condition: Callable[[], object], what: str, seconds: float = 20) -> None:
    """Return when ``condition`` holds; fail with ``what`` when it does not within ``seconds``."""
    deadline = time.monotonic() + seconds
    pause = 0.002
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {seconds} s: {what}")
        time.sleep(pause)
        pause = min(pause * 1.5, 0.1)


def waits_in(call: str, pid: int) -> bool:
    """Tell whether a process sleeps in a system call: one that goes on is "running" (proc_pid_syscall(5)).

    Raises:
        PermissionError: nobody but root is told (Yama's ptrace_scope 2), or this process is closed to its user.

    """
    try:
        number = Path(f"/proc/{pid}/syscall").read_text(encoding="ascii").split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False  # it is no more
    return number == str(architecture_of(os.uname().machine).syscalls[call])
