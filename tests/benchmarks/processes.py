"""What a kernel's processes cost: memory and processor time, read from /proc."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")


class Tree:
    """A process and all its descendants, as they are now."""

    def __init__(self, root: int) -> None:
        children: dict[int, list[int]] = {}
        for entry in os.listdir("/proc"):
            if entry.isdigit():
                with suppress(OSError):
                    children.setdefault(_parent(int(entry)), []).append(int(entry))
        self.pids = [root]
        for pid in self.pids:  # grows while it is walked
            self.pids.extend(children.get(pid, ()))

    def cpu_seconds(self) -> float:
        """Return the processor time that they, and children that have ended, have used so far."""
        return sum(map(_cpu_seconds, self.pids))

    def pss_bytes(self) -> int:
        """Return their share of memory (PSS). Raises PermissionError where one of them may not be looked at."""
        return sum(map(_pss_bytes, self.pids))

    def split_by_namespace(self, namespace: str) -> tuple[Tree, Tree]:
        """Return those in this process namespace and the root's, and the others (a spare sandbox's)."""
        root = os.readlink(f"/proc/{self.pids[0]}/ns/pid")
        first, second = Tree(self.pids[0]), Tree(self.pids[0])
        first.pids, second.pids = [], []
        for pid in self.pids:
            with suppress(FileNotFoundError):
                ours = os.readlink(f"/proc/{pid}/ns/pid") in (namespace, root)
                (first if ours else second).pids.append(pid)
        return first, second


def _stat(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def _parent(pid: int) -> int:
    return int(_stat(pid)[1])


def _cpu_seconds(pid: int) -> float:
    try:
        fields = _stat(pid)
        # The live threads' time to the nanosecond; of ended children there are only ticks.
        threads = sum(
            int(Path(f"/proc/{pid}/task/{task}/schedstat").read_text().split()[0])
            for task in os.listdir(f"/proc/{pid}/task")
        )
    except (FileNotFoundError, ProcessLookupError):
        return 0.0
    return threads / 1e9 + (int(fields[13]) + int(fields[14])) / _TICKS


def _pss_bytes(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:")), 0)
