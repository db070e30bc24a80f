"""How much shared anonymous memory a sandbox's processes map, told by their lists and by what they asked for.

It lies in no file system that can be asked. Where the list of a process is closed, as it is not dumpable (prctl(2), a
program that may not be read), nothing is let go that it may have got by fork(2), and what was asked for counts.
"""

from __future__ import annotations

import hashlib
import os
import re
import time

from sentinel_kernel.supervisor.processes import status_of_memory, told_of_memory

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from sentinel_kernel.supervisor.processes import Process, Processes, Who

# proc_pid_maps(5). Nobody inside can give a file one of these names: they would lie in folders that are sealed.
_SHARED = re.compile(
    rb"^([0-9a-f]+)-([0-9a-f]+) ..[-x]s ([0-9a-f]+) \S+ (\d+) +(?:/dev/zero \(deleted\)|/memfd:)",
    re.MULTILINE,
)
_LOOK_SECONDS = 1.0
_NOTICED_BYTES = 4 << 20
"""Mappings are looked up at once where so much more of shared pages is resident than at the last look."""

_ASKED_SECONDS = 1.0
"""After so long a mapping that was let go was made, or is not going to be."""

_REMEMBERED_FILES = 4096
_MANY_MAPPINGS = 1024
"""A process with more shared mappings is counted by their sum: 65,530 in each of many would fill our own memory."""

_CLOSED_LOOKS = 2
"""So many looks are taken to find a closed process again by the child that it has left what it held."""

_MOST_LOOK_SECONDS = 0.1
"""The mappings of processes that are not reached in this time are looked at next time, before the others."""

_Asked = tuple[int, float, int]
"""(thread, time, size)"""


class SharedMappings:
    """Adds them up for one sandbox."""

    def __init__(self, processes: Processes, who: Who) -> None:
        """Ask about ``processes``, which someone else refreshes, as ``who`` where they are closed to us."""
        self._processes = processes
        self._who = who
        self._mapped: dict[int, tuple[int, int]] = {}
        self._mappings: dict[int, Mapping[bytes, int]] = {}
        self._many: dict[int, tuple[bytes, int]] = {}
        """Process with many mappings -> (what tells those that share all of them, their size)."""
        self._many_bytes = 0
        """The most that those had, while there are any: unmapping a part of a file gives nothing back."""
        self._reached: dict[int, float] = {}
        """Process -> when its mappings were read."""
        self._asked: list[_Asked] = []
        """Shared mappings that were let go and not seen since."""
        self._file_sizes: dict[bytes, int] = {}
        """Number of a file -> what was asked for: unmapping a part of it gives nothing back."""
        self._closed: set[int] = set()
        """Processes whose mappings can't be read."""
        self._last_closed = 0.0
        """When the youngest of them was there: what others asked for later, it can't have from them."""
        self._came: dict[int, float] = {}
        """Process -> when it was there, at the first look."""
        self._closed_looks = 0
        """More than 0 as long as there may be some."""
        self._closed_bytes = 0
        """What was asked for meanwhile, and is in no other's list."""
        self._before: tuple[dict[bytes, int], dict[bytes, int]] = ({}, {})
        """What was there at the last two looks: what one look has missed, the next may find closed."""
        self._not_yet: dict[bytes, float] = {}
        """File -> when it was not there yet, of those."""
        self._last_look = 0.0
        self._looked = 0.0
        self.total_bytes = 0
        """All of them, as of the last :meth:`look`; as if they were touched."""

    def asked(self, thread: int, size: int) -> None:
        """Take note that ``thread`` is about to make a shared mapping; what it made before is in the lists by now."""
        whole = True
        if self._asked:
            self._processes.refresh()
            self.again()
            self.look()
            whole = self._looked > 0
        now = time.monotonic()
        self._wait_for(
            one for one in self._asked if (one[0] != thread or not whole) and now - one[1] < _ASKED_SECONDS
        )
        self._asked.append((thread, now, size))
        self.again()

    def again(self) -> None:
        """Have them looked up at the next :meth:`look`."""
        self._looked = 0.0

    def look(self) -> None:
        """Look them up where it is time, or sizes have changed."""
        now = time.monotonic()
        resident = {process.pid: process.mapped_bytes for process in self._processes}
        noticed = any(
            size > self._mapped.get(pid, (0, 0))[0] + _NOTICED_BYTES for pid, size in resident.items()
        )
        # Those that are known may go at any time; whose sizes are unchanged is not looked at again.
        if not noticed and not self.total_bytes and now - self._looked < _LOOK_SECONDS:
            return
        self._looked = now
        self._read_lists()
        present = self._present()
        there = {file: self._file_sizes[file] for file in present}
        closed = self._of_closed(there)
        self.total_bytes = sum(there.values()) + self._of_many() + closed
        if len(self._file_sizes) > _REMEMBERED_FILES:
            # Not at once: a process that was missed by one look has the same files at the next.
            self._file_sizes = {file: self._file_sizes[file] for file in present}

    def _present(self) -> dict[bytes, int]:
        """Return the files that are in the lists, and learn their sizes."""
        present: dict[bytes, int] = {}
        fresh: list[tuple[int, bytes, int]] = []
        for pid, mappings in self._mappings.items():
            for file, size in mappings.items():
                if file not in self._file_sizes and file not in present:
                    fresh.append((size, file, pid))
                present[file] = max(present.get(file, 0), size)
        for size, file, pid in sorted(fresh, reverse=True):
            self._file_sizes[file] = max(size, self._asked_for(pid))
        for file, size in present.items():
            self._file_sizes[file] = max(size, self._file_sizes.get(file, 0))
        return present

    def _of_many(self) -> int:
        many: dict[bytes, int] = {}
        for named, size in self._many.values():
            many[named] = max(size, many.get(named, 0))
        self._many_bytes = max(self._many_bytes, sum(many.values())) if many or self._closed_looks else 0
        return self._many_bytes

    def _of_closed(self, there: dict[bytes, int]) -> int:
        """Return what those that are closed have beside what is ``there`` in the lists of others; 0 where none is.

        The most that it can be: all that was asked for and that the others had, or all that is resident in them.
        """
        if self._closed:
            self._closed_looks = _CLOSED_LOOKS
            self._last_closed = max(self._last_closed, *(self._came[pid] for pid in self._closed))
        elif self._looked > 0 and self._closed_looks:
            self._closed_looks -= 1
        known = {**self._before[0], **self._before[1], **there}
        self._not_yet = {file: self._not_yet.get(file, self._last_look) for file in known}
        self._last_look = time.monotonic()
        if not self._closed_looks:
            self._closed_bytes = 0
            self._before = self._before[1], there
            return 0
        self._wait_for(one for one in self._asked if self._is_of(one[0], self._mappings))
        kept = {
            file: size
            for file, size in known.items()
            if file in there or self._not_yet[file] <= self._last_closed
        }
        inherited = sum(kept.values()) - sum(there.values())
        if len(kept) > _REMEMBERED_FILES:
            self._closed_bytes += inherited
            inherited, kept = 0, there
        self._before = self._before[1], kept
        resident = sum(_resident(process) for process in self._processes if process.pid in self._closed)
        return max(self._closed_bytes + inherited, resident)

    @staticmethod
    def _is_of(thread: int, processes: Iterable[int]) -> bool:
        return any(os.path.exists(f"/proc/{pid}/task/{thread}") for pid in processes)

    def _wait_for(self, asked: Iterable[_Asked]) -> None:
        """Keep these of what was asked for; the others were made by one that is closed now, or one that has them."""
        waiting = list(asked)
        if self._closed_looks:
            self._closed_bytes += sum(
                one[2]
                for one in set(self._asked).difference(waiting)
                if one[1] <= self._last_closed or self._is_of(one[0], self._closed)
            )
        self._asked = waiting

    def _read_lists(self) -> None:
        """Read the lists of the processes whose sizes have changed, of those first that were not reached last time."""
        seen = {process.pid: (process.mapped_bytes, process.virtual_bytes) for process in self._processes}
        for known in (self._mappings, self._many, self._mapped, self._reached):
            for pid in known.keys() - seen.keys():
                del known[pid]
        self._closed &= seen.keys()
        now = time.monotonic()
        self._came = {pid: self._came.get(pid, now) for pid in seen}
        alike = {(len(sizes), sum(sizes.values())): sizes for sizes in self._mappings.values()}
        until, reached_one = time.monotonic() + _MOST_LOOK_SECONDS, False
        for pid in sorted(seen, key=lambda pid: self._reached.get(pid, 0.0)):
            if not self._asked and self._mapped.get(pid) == seen[pid] and pid in self._mappings:
                continue
            if time.monotonic() > until and reached_one:
                self._looked = 0.0
                return
            reached_one = True
            sizes = _shared_mappings(pid, self._who)
            self._reached[pid] = time.monotonic()
            self._mapped[pid] = seen[pid]
            self._many.pop(pid, None)
            if sizes is None:
                self._mappings.pop(pid, None)
                self._closed |= {pid} - {self._processes.first}  # that one is ours, and has none
                continue
            self._closed.discard(pid)
            if len(sizes) > _MANY_MAPPINGS:
                named = hashlib.blake2b(b" ".join(sorted(sizes)), digest_size=16).digest()
                self._many[pid] = named, sum(sizes.values())
                sizes = {}
            same = alike.setdefault((len(sizes), sum(sizes.values())), sizes)
            self._mappings[pid] = same if same == sizes else sizes

    def _asked_for(self, pid: int) -> int:
        """Take out the largest size that was asked for and not seen yet, by a thread of ``pid`` if there is one."""
        own = [one for one in self._asked if os.path.exists(f"/proc/{pid}/task/{one[0]}")]
        most = max(own or self._asked, key=lambda one: one[2], default=None)
        if most is None:
            return 0
        self._asked.remove(most)
        return most[2]


def _resident(process: Process) -> int:
    """Return the shared memory that is resident in a process (RssShmem of proc_pid_status(5)), open to everyone."""
    try:
        found = status_of_memory(process.pid).partition(b"\nRssShmem:")[2].split(None, 1)
    except OSError:
        return 0  # it has ended
    return int(found[0]) * 1024 if found else process.mapped_bytes


def _shared_mappings(pid: int, who: Who) -> dict[bytes, int] | None:
    """Return the size of each shared anonymous mapping of a process, by the number of its file (proc_pid_maps(5)).

    None where they can't be read.
    """
    try:
        text = told_of_memory(pid, "maps", who)
    except FileNotFoundError:
        return {}
    except OSError:
        return None
    sizes: dict[bytes, int] = {}
    for start, end, offset, number in _SHARED.findall(text):
        size = int(offset, 16) + int(end, 16) - int(start, 16)
        sizes[number] = max(sizes.get(number, 0), size)
    return sizes
