"""How much memory a sandbox uses, added up from outside: of processes, of files in memory, of shared mappings.

Where no cgroup counts, three sums stand in for it. Private memory: statm(5) of each process, less what was seen to be
shared by fork(2) the last time that it was measured exactly and can't have been copied since. Files: statfs(2) of each
file system in memory, exact. Shared anonymous memory, which lies in no file system that can be asked: the sizes that
were asked for, touched or not, as RLIMIT_DATA counts private ones, until the last mapping of each is gone.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time

from sentinel_kernel.supervisor.shared_mappings import SharedMappings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from sentinel_kernel.policy.plan import Sizes
    from sentinel_kernel.supervisor.current import Current
    from sentinel_kernel.supervisor.processes import Process, Processes

_HIDDEN_SECONDS = 1.0
_HIDDEN_LOOKS = 20
"""Where fork(2) may hide more than would be allowed, it is measured exactly so often, in a twentieth of the time."""

_MAPPED_BYTES = 16 << 30
"""With so much mapped page tables can take 32 MiB."""

_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_FULL = 0.9
_ONE_LOOK_SECONDS = 0.005
"""What is asked again within one sample is not read again."""

MEMORY_FLOOR = 0.2
"""The share of the machine's memory that stays available to everything else."""


class MemoryUse:
    """Adds up one sandbox's memory; owns the descriptors that it asks."""

    def __init__(self, current: Current, processes: Processes, machine: Machine) -> None:
        """Ask about ``current``, whose ``processes`` someone else refreshes."""
        self._processes = processes
        self.machine = machine
        self._files: dict[str, int] = {}
        root = f"/proc/{current.sandbox.pid}/root"
        # By name of the size that bounds it. /tmp and HOME have the same one.
        places = (("tmp_bytes", "/tmp"), ("home", current.preparation.plan.home), ("shm_bytes", "/dev/shm"))
        # On the landlock rung what lies there is on the machine's disks.
        for name, place in places if current.preparation.plan.lists is None else ():
            with contextlib.suppress(OSError):
                self._files[name] = os.open(root + place, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        if current.sandbox.workspace_upper >= 0:
            self._files["disk_bytes"] = os.dup(current.sandbox.workspace_upper)
        self._exact_base: int | None = None
        """Private memory when it was last measured exactly."""
        self._known: dict[int, tuple[int, int]] = {}
        """Process -> (what it held of its own, its faults) at that time."""
        self._exact_at = self._exact_took = 0.0
        self.who: tuple[int, int] | None = None
        """Whose the processes are, where another's are closed to us: to root without CAP_SYS_PTRACE."""
        if current.preparation.plan.lists is not None and current.preparation.plan.started_by_root:
            identity = current.preparation.plan.identity
            self.who = identity.host_uid, identity.host_gid
        self._mappings = SharedMappings(processes, self.who)
        self.asked = self._mappings.asked
        self.look_again = self._mappings.again
        self.private_bytes = 0
        self.held_bytes: dict[str, int] = {}
        """Bytes in each file system in memory, by the name of the size that bounds it."""

        self._held_peaks = current.held_peaks
        self.segment_bytes = 0
        """Segments of System V that were ever made: more than there are, if some were removed."""

        self._backend = current.backend
        self._counted: int | None = None
        self.exact = False
        """Whether the last sum of private memory was measured, not estimated."""

    @property
    def total_bytes(self) -> int:
        """All of it, as of the last :meth:`measure`; shared mappings as if they were touched.

        Never less than what a control group counts: beyond its limit the Linux kernel kills.
        """
        added = self.private_bytes + self.shared_bytes + sum(self.held_bytes.values())
        return max(added, self._counted or 0)

    @property
    def shown_bytes(self) -> int:
        """What is in use: as a control group counts it, where there is one."""
        return self.total_bytes if self._counted is None else self._counted

    @property
    def disk_bytes(self) -> int:
        """What files in memory hold."""
        return sum(self.held_bytes.values())

    @property
    def shared_bytes(self) -> int:
        """The size of shared anonymous mappings."""
        return self._mappings.total_bytes + self.segment_bytes

    def measure(self, *, exactly_above: int | None = None) -> int:
        """Add up what the refreshed processes and the file systems hold; return the total.

        Where the estimate is more than ``exactly_above`` and processes may share much of it, it is measured exactly.
        """
        counted = self._backend.usage()
        self._counted = None if counted is None else counted.memory_bytes
        self.held_bytes = {name: _used(descriptor) for name, descriptor in self._files.items()}
        for name, held in self.held_bytes.items():
            self._held_peaks[name] = max(held, self._held_peaks.get(name, 0))
        self._mappings.look()
        self._look_at_tables()
        estimate = sum(process.anonymous_bytes for process in self._processes)
        self.private_bytes = min(estimate, self._at_most())
        self.exact = False
        if exactly_above is not None:
            hidden = estimate - self.private_bytes
            if self.total_bytes > exactly_above or (
                self.total_bytes + hidden > exactly_above
                and time.monotonic() - self._exact_at > max(_HIDDEN_SECONDS, self._exact_took * _HIDDEN_LOOKS)
            ):
                self.measure_exactly()
        return self.total_bytes

    def _at_most(self) -> int:
        """Return how much private memory there can be by now, from what there was when it was measured exactly.

        A page that fork(2) has shared becomes two without a sign in statm, but not without a fault.
        """
        if self._exact_base is None:
            return sys.maxsize
        most = self._exact_base
        for process in self._processes:
            held, faults = self._known.get(process.pid, (0, 0))
            most += max(0, process.anonymous_bytes - held)
            most += max(0, process.faults - faults) * _PAGE_BYTES
        return most

    def _look_at_tables(self) -> None:
        """Have page tables counted where so much is mapped that they could matter: a page of them for each 2 MiB."""
        mapped = sum(process.virtual_bytes for process in self._processes)
        for process in self._processes:
            if process.table_bytes or (mapped > _MAPPED_BYTES and process.virtual_bytes > _MAPPED_BYTES >> 5):
                process.measure_tables()

    def measure_exactly(self) -> int:
        """Measure private memory, what processes share counted once; returns the total. 12 ms for a GiB."""
        began = time.monotonic()
        exact = 0
        known = {}
        for process in list(self._processes):
            with contextlib.suppress(OSError):
                # Before: what is touched while it is measured counts twice rather than never.
                before = process.anonymous_bytes, process.faults
                exact += process.exact_bytes(self.who)
                known[process.pid] = before
        self._exact_base, self._known = exact, known
        self._exact_at = time.monotonic()
        self._exact_took = self._exact_at - began
        self.private_bytes = exact
        self.exact = True
        return self.total_bytes

    def largest(self, count: int) -> list[tuple[Process, int]]:
        """Return the processes that hold most private memory, the largest first."""
        ordered = sorted(self._processes, key=lambda process: process.anonymous_bytes, reverse=True)
        return [(process, process.anonymous_bytes) for process in ordered[:count]]

    def fullest(self, sizes: Sizes) -> tuple[str, int, int] | None:
        """Return (name, used, size) of a file system in memory that is full now or was at the last sample, if any."""
        now = {name: _used(descriptor) for name, descriptor in self._files.items()}
        for name, used in now.items():
            size: int = getattr(sizes, "tmp_bytes" if name == "home" else name)
            most = max(used, self.held_bytes.get(name, 0))
            if most >= size * _FULL:
                return name, most, size
        return None

    def as_seen(self, limit: int | None) -> tuple[int, int]:
        """Return (all, available) bytes of memory as programs inside should see them."""
        total = self.machine.total_bytes if limit is None else min(limit, self.machine.total_bytes)
        left = max(0, total - self.total_bytes)
        return total, min(left, max(0, self.machine.spare_bytes()))

    def close(self) -> None:
        """Close the descriptors."""
        for descriptor in self._files.values():
            os.close(descriptor)
        self._files = {}


def _used(descriptor: int) -> int:
    status = os.fstatvfs(descriptor)
    return (status.f_blocks - status.f_bfree) * status.f_frsize


class Machine:
    """The memory of the machine that is available to everything on it."""

    def __init__(self) -> None:
        """Open /proc/meminfo, which stays open: it is read at each sample."""
        self._file = os.open("/proc/meminfo", os.O_RDONLY | os.O_CLOEXEC)
        self.total_bytes, self._available = self._read()
        self._read_at = time.monotonic()

    def spare_bytes(self) -> int:
        """Return how much may still be taken before less than MEMORY_FLOOR is left; negative where it is too late."""
        now = time.monotonic()
        if now - self._read_at > _ONE_LOOK_SECONDS:
            self.total_bytes, self._available = self._read()
            self._read_at = now
        return self._available - int(self.total_bytes * MEMORY_FLOOR)

    def _read(self) -> tuple[int, int]:
        text = os.pread(self._file, 512, 0)
        total = int(text.partition(b"MemTotal:")[2].split(None, 1)[0]) * 1024
        return total, int(text.partition(b"MemAvailable:")[2].split(None, 1)[0]) * 1024

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)
