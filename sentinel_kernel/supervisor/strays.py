"""Ends what a sandbox without a process namespace has left, where its supervisor and its warden were both killed.

Its processes are told by their mark, which they can't change, and by their warden, which is above them as long as it
lives. Only processes of this user are looked at, or root's own sandboxes; for a forked process.
"""

from __future__ import annotations

import contextlib
import os
import resource
import select
import signal
import sys

from sentinel_kernel.policy.stray_marks import is_of_sandbox, mark_in, warden_mark
from sentinel_kernel.supervisor.by_number import limit_held
from sentinel_kernel.supervisor.identities import is_leased

_ROUNDS = 200
_PAUSE_MS = 20
"""In between: what was killed takes as long to end. It is four seconds in all, for a bomb that forks."""

_GENERATIONS = 10_000
_LIMITS_BYTES = 4096
_STATUS_BYTES = 4096


def end_strays() -> int:
    """End them, tell the server's log, and return how many there were."""
    ended: set[int] = set()
    for _ in range(_ROUNDS):
        found = [pid for pid in _of_user() if _is_stray(pid)]
        if not found:
            break
        for pid in found:
            if _end(pid):
                ended.add(pid)
        select.poll().poll(_PAUSE_MS)
    if ended:
        sys.stderr.write(
            f"sentinel-kernel: {len(ended)} process{'es' if len(ended) > 1 else ''} of a sandbox on the landlock rung "
            "had outlived its supervisor and its warden, which were both killed; now ended.\n"
        )
        sys.stderr.flush()
    return len(ended)


def any_marked() -> bool:
    """Tell whether a sandbox of this user's has processes on that rung, strays or not."""
    return bool(_of_user())


def _of_user() -> list[int]:
    """Return the processes of this user with a sandbox's mark."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError, ValueError, IndexError):
                pid = int(name)
                if is_of_sandbox(_mark(pid)) and _is_ours(pid):
                    found.append(pid)
    return found


def _is_ours(pid: int) -> bool:
    """Tell whether it runs as this user, or for root as one of root's sandboxes. Raises OSError, ValueError."""
    user = int(_read(pid, "status", _STATUS_BYTES).partition(b"\nUid:")[2].split(None, 2)[1])
    own = os.geteuid()
    return is_leased(user) if own == 0 else user == own


def _is_stray(pid: int) -> bool:
    """Tell whether no warden is above a process that has not ended; False where that can't be told just now.

    Asked twice: what ends between two steps can make the way up lead to another process.
    """
    try:
        return _has_no_warden(pid) and _has_no_warden(pid)
    except (OSError, ValueError, IndexError):
        return False


def _has_no_warden(pid: int) -> bool:
    mark = _mark(pid)
    state, above = _state_and_parent(pid)
    if not is_of_sandbox(mark) or state == b"X" or (state == b"Z" and not _has_threads(pid)):
        return False
    for _ in range(_GENERATIONS):
        if above <= 0:
            return True
        its = _mark(above)
        if its != mark:
            return its != warden_mark(mark)
        above = _state_and_parent(above)[1]
    return False


def _has_threads(pid: int) -> bool:
    """Tell whether other threads of a process run whose first one has ended."""
    return len(os.listdir(f"/proc/{pid}/task")) > 1


def _end(pid: int) -> bool:
    """Kill a process, if it is still one of those; it forks no more in between."""
    try:
        pidfd = os.pidfd_open(pid)
    except OSError:
        return False
    try:
        if not _is_stray(pid):
            return False
        with contextlib.suppress(OSError, ValueError):
            limit_held(pidfd, pid, resource.RLIMIT_NPROC, 0)
        signal.pidfd_send_signal(pidfd, signal.SIGKILL)
    except OSError:
        return False
    finally:
        os.close(pidfd)
    return True


def _mark(pid: int) -> int:
    return mark_in(_read(pid, "limits", _LIMITS_BYTES))


def _state_and_parent(pid: int) -> tuple[bytes, int]:
    state, parent = _read(pid, "stat", _STATUS_BYTES).rpartition(b")")[2].split(None, 2)[:2]
    return state, int(parent)


def _read(pid: int, name: str, size: int) -> bytes:
    """Raises OSError where the process is gone."""
    file = os.open(f"/proc/{pid}/{name}", os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(file, size)
    finally:
        os.close(file)
