"""How much processor time everything in a sandbox has used, the processes that are gone included.

A child's time is added to its parent's when that waits for it (proc_pid_stat(5), cutime), but is lost where the parent
ignores SIGCHLD: so what each process had used when it was last seen is kept too, and the larger sum counts. What it
used after that is missed, so that one has to look more often where many come and go.
"""

from __future__ import annotations

import itertools
import os

from sentinel_kernel.supervisor.processes import processes_below

TYPE_CHECKING = False
if TYPE_CHECKING:
    from sentinel_kernel.supervisor.current import Current

_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
# Fields behind the command's name, counted from 0 (proc_pid_stat(5) counts from 1, with pid and name before these).
STATE, _UTIME, _STIME, _CUTIME, _CSTIME, THREADS, START = 0, 11, 12, 13, 14, 17, 19
ENDED = ("Z", "X")
RUNS = ("R", "D")
_MOST_TASKS = 300
_FEW = 2
"""So few new processes between two looks are no sign of more to come."""


class ProcessorTime:
    """Adds up one sandbox's processor time; a new one is needed for another sandbox."""

    def __init__(self) -> None:
        self._own: dict[tuple[int, str], int] = {}
        """(pid, start time) -> ticks that it had used itself when it was last seen, of those that are there."""
        self._gone = 0
        """The ticks of those that were seen and are gone."""
        self._most = 0
        self._last_pid = 0
        self.counts_all = False
        """Whether a control group counts, and nothing is missed."""
        self.churns = False
        """Whether processes have come since the look before: in the sandbox, or anywhere on the machine."""

    def seconds(self, current: Current) -> float:
        """Return the seconds used so far; never less than at the last call."""
        counted = current.backend.usage()
        self.counts_all = counted is not None
        if counted is not None:
            return counted.cpu_seconds
        last_pid = _last_pid()
        self.churns, self._last_pid = last_pid - self._last_pid not in range(_FEW), last_pid
        with_children = 0
        present: dict[tuple[int, str], int] = {}
        for pid in processes_below(current.sandbox.pid):
            fields = stat_fields(pid)
            if fields:
                own = int(fields[_UTIME]) + int(fields[_STIME])
                with_children += own + int(fields[_CUTIME]) + int(fields[_CSTIME])
                present[pid, fields[START]] = own
        self._gone += sum(own for key, own in self._own.items() if key not in present)
        self._own = present
        self._most = max(self._most, with_children, self._gone + sum(present.values()))
        return self._most / _TICKS_PER_SECOND


def _last_pid() -> int:
    """Return the number of the machine's newest process (proc_loadavg(5)): one in a sandbox has one outside too."""
    with open("/proc/loadavg", "rb") as file:
        return int(file.read().split()[-1])


def own_seconds(fields: list[str]) -> float:
    """Return what a process has used itself, its children not included; ``fields`` are those of :func:`stat_fields`."""
    return (int(fields[_UTIME]) + int(fields[_STIME])) / _TICKS_PER_SECOND


def count_tasks(current: Current) -> int:
    """Return how many processes and threads there are in the sandbox, as RLIMIT_NPROC counts them."""
    return sum(
        int(fields[THREADS]) for pid in processes_below(current.sandbox.pid) if (fields := stat_fields(pid))
    )


def has_runnable(current: Current) -> bool:
    """Tell whether a thread of the sandbox runs or waits for a processor; of very many the first are looked at."""
    tasks = itertools.chain.from_iterable(_tasks(pid) for pid in processes_below(current.sandbox.pid))
    return any(
        fields[STATE] == "R" for path in itertools.islice(tasks, _MOST_TASKS) if (fields := _fields(path))
    )


def _tasks(pid: int) -> list[str]:
    try:
        return [f"/proc/{pid}/task/{name}/stat" for name in os.listdir(f"/proc/{pid}/task")]
    except OSError:
        return []


def is_running(pid: int) -> bool:
    """Tell whether the process is there and has not ended."""
    fields = stat_fields(pid)
    return bool(fields) and fields[STATE] not in ENDED


def has_ended(fields: list[str]) -> bool:
    """Tell whether a process has ended, by its :func:`stat_fields`; its first thread may have, and others go on."""
    return not fields or (fields[STATE] in ENDED and int(fields[THREADS]) <= 1)


def stat_fields(pid: int) -> list[str]:
    """Return the fields of /proc/PID/stat behind the command's name; none where there is no such process."""
    return _fields(f"/proc/{pid}/stat")


def _fields(path: str) -> list[str]:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read().rpartition(")")[2].split()
    except OSError:
        return []
