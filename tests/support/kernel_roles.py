"""Which of a kernel's processes is which. Of the standard library alone: drivers that run elsewhere take it along."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

_HELD = {"/history": "files", "/audit.db": "audit"}
"""What a fork of the supervisor has open -> its role; it forks others too, which pass."""


def children(pid: int) -> list[int]:
    """Return the children of a process, those that have ended and were not waited for included."""
    found: list[int] = []
    for task in os.listdir(f"/proc/{pid}/task"):
        found += map(int, Path(f"/proc/{pid}/task/{task}/children").read_text().split())
    return found


def roles(host: int) -> dict[str, int]:
    """Return role -> process of a kernel, of those that exist now."""
    found = {"host": host}
    with contextlib.suppress(OSError, StopIteration):
        found["supervisor"] = next(pid for pid in children(host) if _is_supervisor(pid))
        for pid in children(found["supervisor"]):
            with contextlib.suppress(OSError, StopIteration):
                found.setdefault("init" if _is_first(pid) else _role_by_files(pid), pid)
        # What an ended worker has left is init's too. Each worker begins a session.
        found["worker"] = next(pid for pid in children(found.get("init", 0)) if os.getsid(pid) == pid)
    return found


def _is_supervisor(pid: int) -> bool:
    return b"supervisor" in Path(f"/proc/{pid}/cmdline").read_bytes()


def _is_first(pid: int) -> bool:
    """Tell whether a process is the first one of a pid namespace below ours."""
    status = Path(f"/proc/{pid}/status").read_text()
    numbers = next(line for line in status.splitlines() if line.startswith("NSpid:")).split()[1:]
    return len(numbers) > 1 and numbers[-1] == "1"


def _role_by_files(pid: int) -> str:
    """Return the role of a fork of the supervisor; raises StopIteration where it has none."""
    links = (os.readlink(f"/proc/{pid}/fd/{name}") for name in os.listdir(f"/proc/{pid}/fd"))
    return next(role for link in links for end, role in _HELD.items() if link.endswith(end))
