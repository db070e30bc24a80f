"""The Linux kernel's own memory, as it is told for the whole machine."""

from __future__ import annotations

import contextlib
import fcntl
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_GIVES_BACK_SECONDS = 6
"""kfree_rcu takes 5 s."""


@contextlib.contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Keep out the other processes of the same run of tests, all of which have ``folder``: each hides another's."""
    with (folder / "kernel-memory.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


class Settled:
    """Whether the Linux kernel's memory has not fallen for a while: what others give back hides what is taken."""

    def __init__(self) -> None:
        self._least, self._since = self._bytes(), time.monotonic()

    def __call__(self) -> bool:
        now = self._bytes()
        if now < self._least - (2 << 20):
            self._least, self._since = now, time.monotonic()
        return time.monotonic() - self._since > _GIVES_BACK_SECONDS

    @staticmethod
    def _bytes() -> int:
        return int(Path("/proc/meminfo").read_text().partition("SUnreclaim:")[2].split()[0]) << 10
