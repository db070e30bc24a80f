"""Who maps a file in memory and ends by SIGBUS, as the file can't grow any more: Linux tells its parent alone.

A large shared mapping of a file is held (policy/measured.py) until it is noted: whose it is, which line has started
that, in which file system it lies. How the process ends is read before its parent has waited for it, or from its pidfd
(Linux 6.15). SIGBUS has other causes, as a file that was cut: it counts only where the file system is full, or was
too small for the mapping from the start, and is never more than likely.
"""

from __future__ import annotations

import contextlib
import os
import signal

from sentinel_kernel.linux.process import reaped_status
from sentinel_kernel.record import MutableRecord
from sentinel_kernel.supervisor import protocol
from sentinel_kernel.supervisor.keeper import Keeper
from sentinel_kernel.supervisor.last_words import place_fields
from sentinel_kernel.supervisor.limit_watch import file_systems, fullness
from sentinel_kernel.supervisor.processor_time import ENDED, STATE, stat_fields
from sentinel_kernel.supervisor.reached import reached
from sentinel_kernel.supervisor.starter import find_starter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    from sentinel_kernel.linux.seccomp import Notification
    from sentinel_kernel.policy.stack_dump import Place
    from sentinel_kernel.supervisor.current import Current

_MOST = 64
"""So many processes are watched; the first ones are forgotten."""

_STATUS_BYTES = 8192
_EXIT_CODE = 49  # of the fields behind the name in proc_pid_stat(5), from 0


class _Watched(MutableRecord):
    """A process that has mapped a file."""

    pid: int
    systems: dict[str, bool]
    """Folder of the file system -> whether it has always had room for what was mapped."""
    place: Place | None = None


class MappedFiles(Keeper):
    """Watches the processes of the sandbox in use that have mapped files. ``tell`` sends an event to the host."""

    def __init__(self, tell: Callable[[str, dict[str, Any]], None]) -> None:
        self._tell = tell
        self._current: Current | None = None
        self._generation = 0
        self._mounts: dict[int, str] = {}
        """Number of a mount -> folder inside."""
        self._watched: dict[int, _Watched] = {}
        """By pidfd."""

    def sandbox_ready(self, current: Current, generation: int) -> None:
        """Watch in this sandbox from here on."""
        self.close()
        self._current, self._generation = current, generation

    def sandbox_gone(self, cause: dict[str, Any]) -> None:  # noqa: ARG002 - its processes went with it
        """Watch nothing."""
        self.close()
        self._current = None

    def note(self, notification: Notification, go_on: Callable[[], object]) -> None:
        """Watch the process that maps a file by a call that is held; ``go_on`` answers that, now or very soon."""
        current = self._current
        process = _number_in(f"/proc/{notification.thread}/status", b"Tgid:")
        folder = self._folder(notification) if current is not None else None
        # Of the worker's own end more is known.
        if current is None or process is None or folder is None or process == current.worker_pid:
            go_on()
            return
        room = next(
            (status.f_bfree * status.f_frsize for _, at, status in file_systems(current) if at == folder), 0
        )
        fits = notification.arguments[1] <= room
        known = next((one for one in self._watched.values() if one.pid == process), None)
        if known is not None:
            known.systems[folder] = known.systems.get(folder, True) and fits
            go_on()
            return
        watched = _Watched(process, {folder: fits})
        try:
            self._watched[os.pidfd_open(process)] = watched
        except OSError:  # it was killed
            go_on()
            return
        while len(self._watched) > _MOST:
            self._forget(next(iter(self._watched)))

        def found(place: Place | None) -> None:
            watched.place = place

        find_starter(current, process, found, go_on)

    def _folder(self, notification: Notification) -> str | None:
        """Return which file system in memory the file is in that is to be mapped."""
        if not self._mounts and self._current is not None:
            self._mounts = _mounts(self._current)
        descriptor = notification.arguments[4] & 0xFFFFFFFF
        mount = _number_in(f"/proc/{notification.thread}/fdinfo/{descriptor}", b"mnt_id:")
        return None if mount is None else self._mounts.get(mount)

    def descriptors(self) -> Iterable[int]:
        """Return the pidfds: readable once the process has ended."""
        return self._watched.keys()

    def serve(self, ready: dict[int, int]) -> None:
        """Look how those have ended that have."""
        for pidfd in self._watched.keys() & ready.keys():
            watched = self._watched[pidfd]
            status = _wait_status(pidfd, watched.pid)
            self._forget(pidfd)
            if status is not None and os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGBUS:
                self._ended(watched)

    def _ended(self, watched: _Watched) -> None:
        """Tell of the limit that a process met which has ended by SIGBUS."""
        current = self._current
        if current is None:
            return
        for name, folder, status in file_systems(current):
            fitted = watched.systems.get(folder)
            if fitted is None or (fitted and fullness(current, name, folder, status) is None):
                continue
            size = status.f_blocks * status.f_frsize
            used = (status.f_blocks - status.f_bfree) * status.f_frsize
            fields = place_fields(watched.place) or {"line": None, "function": None, "library": None}
            limit = {
                **reached(current, name, "kill", used, size, "bytes"),
                "place": folder,
                "place_of": {**fields, "confidence": "likely"},
            }
            self._tell(protocol.EVENT_LIMIT, {"generation": self._generation, "limit": limit})
            return

    def _forget(self, pidfd: int) -> None:
        del self._watched[pidfd]
        os.close(pidfd)

    def close(self) -> None:
        """Close all."""
        for pidfd in list(self._watched):
            self._forget(pidfd)
        self._mounts.clear()


def _wait_status(pidfd: int, pid: int) -> int | None:
    """Return how a process has ended: it waits for its parent, or was waited for; None where nobody knows any more."""
    status = reaped_status(pidfd)
    if status is None:
        fields = stat_fields(pid)
        with contextlib.suppress(IndexError, ValueError, OSError):
            signal.pidfd_send_signal(pidfd, 0)  # else that number may be another's by now
            if fields[STATE] in ENDED:
                return int(fields[_EXIT_CODE])
        status = reaped_status(pidfd)
    return status


def _mounts(current: Current) -> dict[int, str]:
    """Return the mounts that hold files in memory, and where they are inside."""
    found = {}
    for _, folder, _ in file_systems(current):
        with contextlib.suppress(OSError):
            flags = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC
            opened = os.open(f"/proc/{current.sandbox.pid}/root{folder}", flags)
            try:
                number = _number_in(f"/proc/self/fdinfo/{opened}", b"mnt_id:")
            finally:
                os.close(opened)
            if number is not None:
                found[number] = folder
    return found


def _number_in(path: str, name: bytes) -> int | None:
    """Return the number behind ``name`` in a file of /proc; None where that is gone."""
    with contextlib.suppress(OSError, ValueError, IndexError), open(path, "rb") as file:
        return int((b"\n" + file.read(_STATUS_BYTES)).partition(b"\n" + name)[2].split(None, 1)[0])
    return None
