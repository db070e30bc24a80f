"""Makes folders that are shown live show what changed on the host, at each cell's begin, in a forked process.

A cell that has its changes brought to a disk (syncfs(2)) holds the folder's file system meanwhile, however long that
takes, and who reconfigures it waits in the Linux kernel. The process waits; a cell that begins does so a moment only.
"""

from __future__ import annotations

import errno
import os
import signal
import time

from sentinel_kernel.linux import mounts
from sentinel_kernel.linux.process import die_with_parent
from sentinel_kernel.supervisor.keeper import Keeper

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any, NoReturn

_WAIT_SECONDS = 1.0
"""How long a cell's begin waits: after it the cell may see an older state of a folder."""


class Refreshing(Keeper):
    """Refreshes the folders of the sandbox in use; one process at a time."""

    def __init__(self, note: Callable[[str, str, dict[str, Any]], None]) -> None:
        """``note`` records in the audit: kind, name, detail."""
        self._note = note
        self._pid = 0
        self._pidfd = -1
        self._until: float | None = None

    def start(self, contexts: Sequence[int]) -> None:
        """Refresh the file systems of ``contexts`` (fspick(2)); :attr:`busy` until that is done, or takes too long."""
        self._reap()
        if self._pid:
            self._note("mount_stale", "", {"code": "too_slow"})
            return
        try:
            pid = os.fork()
        except OSError as error:
            self._note("mount_stale", "", {"code": "failed", "detail": error.strerror or ""})
            return
        if pid == 0:
            _refresh(contexts)
        self._pid = pid
        try:
            self._pidfd = os.pidfd_open(pid)
        except OSError:  # it is looked after by the clock
            self._pidfd = -1
        self._until = time.monotonic() + _WAIT_SECONDS

    @property
    def busy(self) -> bool:
        """Whether a cell's begin waits for it."""
        return self._until is not None

    def descriptors(self) -> Sequence[int]:
        """Return what is readable at the process's end."""
        return (self._pidfd,) if self._pidfd >= 0 else ()

    def serve(self, ready: dict[int, int]) -> None:
        """Take note of the process's end."""
        if self._pidfd in ready:
            self._reap()

    def due_seconds(self) -> float | None:
        """Return when the cell begins all the same."""
        return None if self._until is None else max(0.0, self._until - time.monotonic())

    def catch_up(self) -> None:
        """Let the cell begin that has waited long enough."""
        if self._until is None:
            return
        self._reap()
        if self._pid and time.monotonic() >= self._until:
            self._until = None
            self._note("mount_stale", "", {"code": "too_slow"})

    def close(self) -> None:
        """Leave the process to itself: it ends with the supervisor, once the Linux kernel lets it."""
        self._reap()
        if self._pidfd >= 0:
            os.close(self._pidfd)
            self._pidfd = -1

    def _reap(self) -> None:
        if not self._pid:
            return
        try:
            pid, status = os.waitpid(self._pid, os.WNOHANG)
        except ChildProcessError:
            pid, status = self._pid, 0
        if pid == 0:
            return
        if status:
            self._note("mount_stale", "", {"code": "failed"})
        self._pid, self._until = 0, None
        if self._pidfd >= 0:
            os.close(self._pidfd)
            self._pidfd = -1


def _refresh(contexts: Sequence[int]) -> NoReturn:
    """Do it in the forked process; never returns."""
    status = 1
    try:
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)
        die_with_parent()
        from sentinel_kernel.supervisor.live_mounts import alone  # noqa: PLC0415 - imported where there are any

        first = alone(contexts)
        for place in range(first, first + len(contexts)):
            try:
                mounts.reconfigure(place)
            except OSError as error:
                # One that is read alone has no upper layer, and refuses to be as it was: nothing of it is kept either.
                if error.errno not in (errno.EROFS, errno.EBUSY):
                    raise
        status = 0
    finally:
        os._exit(status)
