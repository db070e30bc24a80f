"""Looks at the control groups of supervisors from outside of them, as their user can."""

from __future__ import annotations

import os
from pathlib import Path

TOP = Path("/sys/fs/cgroup")


def supervisors() -> list[int]:
    """Return the processes that are supervisors."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                command = (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if b"/supervisor/__main__.py" in command:
                found.append(int(entry.name))
    return sorted(found)


def leaves(pid: int | None = None) -> list[Path]:
    """Return the groups of sandboxes, all or those of one supervisor."""
    names = "sentinel-[0-9]*" if pid is None else f"sentinel-{pid}-*"
    return sorted(path for path in TOP.rglob(names) if path.is_dir())


def left() -> list[str]:
    """Return every group that is of ours."""
    return sorted(str(path) for path in TOP.rglob("*sentinel-*") if path.is_dir())


def number(leaf: Path, name: str, key: str) -> int:
    """Return one number of a file of lines ``NAME NUMBER``."""
    words = (leaf / name).read_text().split()
    return int(dict(zip(words[::2], words[1::2], strict=True))[key])


def in_use(leaf: Path) -> int:
    """Return the memory in a group without the pages of files that can be dropped."""
    files = number(leaf, "memory.stat", "active_file") + number(leaf, "memory.stat", "inactive_file")
    return int((leaf / "memory.current").read_text()) - files


def of_process(pid: int | str) -> Path:
    """Return the group that a process is in."""
    own = Path(f"/proc/{pid}/cgroup").read_text().strip().partition("::")[2]
    return Path(os.path.normpath(f"{TOP}/{own}"))
