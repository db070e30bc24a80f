"""The processes of a sandbox, seen from outside: which there are, what each holds, what they have used."""

from __future__ import annotations

import contextlib
import os
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    Who = tuple[int, int] | None

_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_TICKS = os.sysconf("SC_CLK_TCK")
_SCHEDULED = 2  # CPUCLOCK_SCHED of <linux/posix-timers.h>: to the nanosecond
_TEXT_BYTES = 512
_MAPS_BYTES = 4096
"""The heap comes right after the program itself."""

_GENERATIONS = 10_000
"""A chain of processes as long as a limit of processes allows."""

_KEPT_OPEN = 32
"""Files of so many processes stay open: reading one anew costs five times as much."""


def processes_below(first: int) -> Iterator[int]:
    """Yield ``first`` and every process below it, in the host's numbers (proc_pid_children(5)).

    One that is born meanwhile may be missed; it takes after its parent, and the next call finds it.
    """
    waiting = [first]
    while waiting:
        pid = waiting.pop()
        yield pid
        waiting += children_of(pid)


def children_of(pid: int) -> list[int]:
    """Return the children of a process, as above."""
    found: list[int] = []
    with contextlib.suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):
            with contextlib.suppress(OSError), open(f"/proc/{pid}/task/{thread}/children", "rb") as file:
                found += map(int, file.read().split())
    return found


def same_sandbox(pid: int, first: int) -> bool:
    """Tell whether a process is in the sandbox whose init is ``first``: in its process namespace, or else below it."""
    try:
        its = os.stat(f"/proc/{first}/ns/pid")
        if not os.path.samestat(its, os.stat("/proc/self/ns/pid")):
            return os.path.samestat(os.stat(f"/proc/{pid}/ns/pid"), os.stat(f"/proc/{first}/ns/pid"))
    except PermissionError:
        pass  # init is closed to its own user: there is no user namespace
    except OSError:
        return False
    return descends(pid, first)


def descends(pid: int, first: int) -> bool:
    """Tell whether a process is ``first`` or one below it; with a pidfd open, that one can't be another by then."""
    for _ in range(_GENERATIONS):
        if pid == first:
            return True
        try:
            with open(f"/proc/{pid}/stat", "rb") as file:
                pid = int(file.read().rpartition(b")")[2].split()[1])
        except (OSError, IndexError, ValueError):
            return False
        if pid <= 1:
            return pid == first
    return False


def process_seconds(pid: int) -> float | None:
    """Return the processor time of a process, its threads included; None where it is gone."""
    try:
        return time.clock_gettime(~pid << 3 | _SCHEDULED)
    except OSError:
        return None


def told_of_memory(pid: int, name: str, who: Who = None) -> bytes:
    """Return what a file of /proc/PID tells of its memory; where its first thread has ended, what another's does.

    What is closed to us is read as ``who``, the user and group that the process has. Nothing where it has ended.

    Raises:
        OSError: EACCES, it is closed to its own user too, as it is not dumpable; ENOENT, it is gone.

    """
    text = _told(f"/proc/{pid}/{name}", who)
    if not text:
        for thread in os.listdir(f"/proc/{pid}/task"):
            with contextlib.suppress(FileNotFoundError):
                text = text or _told(f"/proc/{pid}/task/{thread}/{name}", who)
    return text


def status_of_memory(pid: int) -> bytes:
    """Return the status of a process's first thread, of another one where that has no memory any more; open to all.

    Raises:
        OSError: it is gone.

    """
    text = b""
    for thread in _threads(pid):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            with open(f"/proc/{pid}/task/{thread}/status", "rb") as file:
                text = file.read()
            if b"\nVmPTE:" in text:
                break
    return text


def _threads(pid: int) -> Iterator[int | str]:
    """Yield a process's first thread, and then all; they are listed only where that one does not do."""
    yield pid
    yield from os.listdir(f"/proc/{pid}/task")


def _told(path: str, who: Who) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except ProcessLookupError:
        return b""  # the thread has no memory any more
    except PermissionError:
        if who is None:
            raise
    from sentinel_kernel.linux.acting import acting_as  # noqa: PLC0415 - for few machines

    try:
        with acting_as(who), open(path, "rb") as file:
            return file.read()
    except ProcessLookupError:
        return b""


class Process:
    """One process; its sizes are those of the last :meth:`measure`."""

    __slots__ = (
        "_stat",
        "_statm",
        "anonymous_bytes",
        "data_bytes",
        "faults",
        "mapped_bytes",
        "pid",
        "table_bytes",
        "tasks",
        "virtual_bytes",
    )

    def __init__(self, pid: int, *, keep_open: bool) -> None:
        """Know the process ``pid``; with ``keep_open`` its files stay open, which is cheaper and can't mix it up."""
        self.pid = pid
        self.anonymous_bytes = 0
        """Memory of its own: heap, stacks, private mappings that were touched. What fork(2) shares counts in each."""
        self.mapped_bytes = 0
        """Resident pages of files and of shared memory."""
        self.data_bytes = 0
        """What RLIMIT_DATA counts, and the stack: private memory that may be written, touched or not."""
        self.virtual_bytes = 0
        self.table_bytes = 0
        """Its page tables, where they were looked at: a part of what it holds of its own."""
        self.faults = 0
        """How often a page was put in place for it, as of the last :meth:`cpu_seconds` (minflt and majflt)."""
        self.tasks = 1
        """Its threads, as of the last :meth:`cpu_seconds`: each counts against the limit of processes."""
        self._statm = self._stat = -1
        if keep_open:
            with contextlib.suppress(OSError):
                self._statm = os.open(f"/proc/{pid}/statm", os.O_RDONLY | os.O_CLOEXEC)
                self._stat = os.open(f"/proc/{pid}/stat", os.O_RDONLY | os.O_CLOEXEC)

    def measure(self) -> bool:
        """Read the sizes (proc_pid_statm(5)); False where the process is gone.

        What could not be read for another reason stays as it was.
        """
        try:
            fields = self._read(self._statm, "statm").split()
            if fields[:1] == [b"0"]:
                # Its first thread has ended, and has no memory any more. If others go on, they do.
                fields = self._of_another_thread() or fields
        except (FileNotFoundError, ProcessLookupError):
            return False
        except OSError:
            return True
        if len(fields) < 6:
            return False
        self.virtual_bytes = int(fields[0]) * _PAGE_BYTES
        shared = int(fields[2])
        self.anonymous_bytes = (int(fields[1]) - shared) * _PAGE_BYTES + self.table_bytes
        self.mapped_bytes = shared * _PAGE_BYTES
        self.data_bytes = int(fields[5]) * _PAGE_BYTES
        return True

    def cpu_seconds(self) -> float:
        """Return its processor time and that of the children that it has waited for (proc_pid_stat(5), in ticks).

        Its own is exact, by its clock (clock_getcpuclockid(3)): a cell of 8 ms is less than a tick.
        """
        own = process_seconds(self.pid)
        try:
            # Behind the clock: what is still there now, was the one whose clock that is.
            fields = self._read(self._stat, "stat").rpartition(b")")[2].split()
            self.tasks = int(fields[17])
            self.faults = int(fields[7]) + int(fields[9])
            ticks = list(map(int, fields[11:15]))
            return (sum(ticks[:2]) / _TICKS if own is None else own) + sum(ticks[2:]) / _TICKS
        except (OSError, ValueError):
            return 0.0

    def _of_another_thread(self) -> list[bytes]:
        """Return the sizes as a thread tells them that has not ended, none where all have."""
        for thread in os.listdir(f"/proc/{self.pid}/task"):
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                fields = self._read(-1, f"task/{thread}/statm").split()
                if fields[:1] != [b"0"]:
                    return fields
        return []

    def exact_bytes(self, who: Who = None) -> int:
        """Return its share of private memory, what fork(2) shares counted by parts; 12 ms for a GiB.

        A process that is not dumpable (prctl(2), a program that may not be read) is closed to its own user, and to
        ``who`` it is (:func:`told_of_memory`): it counts with all that it holds, as its sizes are open to everyone.

        Raises:
            OSError: the process is gone.

        """
        try:
            text = told_of_memory(self.pid, "smaps_rollup", who)
        except OSError:
            if not self.measure():
                raise
            return self.anonymous_bytes
        found = text.partition(b"Pss_Anon:")[2].split(None, 1)
        return int(found[0]) * 1024 + self.table_bytes if found else self.anonymous_bytes

    def measure_tables(self) -> None:
        """Read the size of its page tables (VmPTE of proc_pid_status(5)), and add it to what it holds of its own."""
        try:
            found = status_of_memory(self.pid).partition(b"\nVmPTE:")[2].split(None, 1)
        except OSError:
            return  # it has ended
        size = int(found[0]) * 1024 if found else 0
        self.anonymous_bytes += size - self.table_bytes
        self.table_bytes = size

    def heap_bytes(self) -> int:
        """Return the size of its heap (brk(2)), free parts and all; it can't shrink below what was allocated last."""
        try:
            with open(f"/proc/{self.pid}/maps", "rb", buffering=0) as file:
                text = file.read(_MAPS_BYTES)
        except OSError:
            return 0
        lines = [line for line in text.splitlines() if line.endswith(b"[heap]")]
        if not lines:
            return 0
        return int(lines[-1].split()[0].partition(b"-")[2], 16) - int(lines[0].partition(b"-")[0], 16)

    def name(self) -> str:
        """Return the name of its program; what a process calls itself, to be shown and no more."""
        try:
            with open(f"/proc/{self.pid}/comm", "rb") as file:
                text = file.read(64).decode("utf-8", "replace").strip()
        except OSError:
            return ""
        return "".join(character for character in text if character.isprintable())

    def _read(self, descriptor: int, file: str) -> bytes:
        if descriptor >= 0:
            return os.pread(descriptor, _TEXT_BYTES, 0)
        opened = os.open(f"/proc/{self.pid}/{file}", os.O_RDONLY | os.O_CLOEXEC)
        try:
            return os.read(opened, _TEXT_BYTES)
        finally:
            os.close(opened)

    def close(self) -> None:
        """Close its files."""
        for descriptor in (self._statm, self._stat):
            if descriptor >= 0:
                os.close(descriptor)
        self._statm = self._stat = -1


class Processes:
    """All processes of one sandbox."""

    def __init__(self, first: int) -> None:
        """Follow the sandbox whose pid 1 is ``first`` in the host's numbers."""
        self.first = first
        self._known: dict[int, Process] = {}
        self._names: frozenset[str] = frozenset()
        self._inside = -1
        with contextlib.suppress(OSError):
            # The sandbox's own /proc lists them in one call. Its numbers are other ones: it tells when to look again.
            flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
            self._inside = os.open(f"/proc/{first}/root/proc", flags)

    def __iter__(self) -> Iterator[Process]:
        """Iterate over those that were there at the last :meth:`refresh`."""
        return iter(self._known.values())

    def __len__(self) -> int:
        """Return how many there were at the last :meth:`refresh`."""
        return len(self._known)

    def __contains__(self, pid: int) -> bool:
        """Tell whether ``pid``, in the host's numbers, was there at the last :meth:`refresh`."""
        return pid in self._known

    def get(self, pid: int) -> Process | None:
        """Return the process ``pid`` as of the last :meth:`refresh`."""
        return self._known.get(pid)

    def refresh(self) -> None:
        """Find those that have come, forget those that have gone, and read the sizes of all."""
        if self._changed():
            self._look()
        for process in [process for process in self if not process.measure()]:
            self._forget(process)

    def cpu_seconds(self) -> float:
        """Return the processor time of all, of those too that ended and were waited for."""
        return sum(process.cpu_seconds() for process in self)

    @property
    def tasks(self) -> int:
        """How many threads there were at the last :meth:`cpu_seconds`: what RLIMIT_NPROC and pids.max count."""
        return sum(process.tasks for process in self)

    def _changed(self) -> bool:
        if self._inside < 0:
            return True
        try:
            names = frozenset(name for name in os.listdir(self._inside) if name[0] <= "9")
        except OSError:
            return True
        if names == self._names and len(self._known) == len(names):
            return False
        self._names = names
        return True

    def _look(self) -> None:
        present = set(processes_below(self.first))
        for process in [process for process in self if process.pid not in present]:
            self._forget(process)
        for pid in present - self._known.keys():
            self._known[pid] = Process(pid, keep_open=len(self._known) < _KEPT_OPEN)

    def _forget(self, process: Process) -> None:
        process.close()
        self._known.pop(process.pid, None)

    def close(self) -> None:
        """Close all files."""
        for process in list(self):
            self._forget(process)
        if self._inside >= 0:
            os.close(self._inside)
            self._inside = -1
