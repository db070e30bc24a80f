"""One look at what a sandbox's processes have watched for events (epoll(7)), taken in pieces.

How long it takes they decide: it costs a call for each descriptor of each process, and reading each set. So it stops
after a while and goes on later. What several descriptors stand for is read once, as far as kcmp(2) tells them apart.
To tell that takes some calls for each set, and many small ones would be a long look, in which as much again can come:
so it is told of the first some thousand alone, and what sets cost is bounded. Those beyond count as what can't be seen.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import os
import time

from sentinel_kernel.linux.acting import acting_as
from sentinel_kernel.linux.epoll import sets_among
from sentinel_kernel.linux.same_file import compare_files, shares_table

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Iterator, Sequence

    from sentinel_kernel.supervisor.processes import Who

    _Files = os._ScandirIterator[str]  # noqa: SLF001 - it has no other name

_PIECE_SECONDS, _MOST_PIECE_SECONDS = 0.05, 0.1
"""A piece takes so much of this thread's own time, and no longer than that where others use the processors.

But for what one set tells, which the Linux kernel makes as a whole: 2 ms for each thousand of its watches; and, until
the first long one was read, for looking at a batch of its descriptors: 3 ms for each thousand.
"""

_BATCH = 64
"""So many descriptors are looked at before the clock is: 0.2 ms."""

_MOST_CALLS, _MOST_CALLS_EACH = 1 << 19, 1 << 8
"""So many calls, of 4 us, is asked about sets in one look: two seconds; and so many more for each process.

That is enough for 100,000 sets, several times what one process can have open as event loops, and for sixteen sets that
each of thousands of processes has of its parent.
"""
_TOLD_APART = 1 << 12
"""So many sets are told apart for sure: that takes as many calls for each as this has bits. Further ones are not."""

_READ_CALLS, _WATCHES_A_CALL = 4, 2
"""To read a set takes as long as so many calls, and one more for so many of its watches."""

_LONG = 64
"""A set with so many watches is known as one sooner by its link: kcmp(2) goes through them (50 ns each)."""

_READ_BYTES = 1 << 20
_TOLD_BYTES = 2048
_SET = "anon_inode:[eventpoll]"
_SMALLEST_TABLE = 64
"""FDSize of a process that never had a descriptor above 63 (Linux, NR_OPEN_DEFAULT)."""

_One = tuple[int, int]
"""(thread, descriptor)"""


class _Known:
    """A set that was read, and two descriptors that stand for it: the first may be gone when it is asked for.

    ``pid`` is who it was counted for last: several descriptors of one process are not more.
    """

    __slots__ = ("first", "last", "pid", "size")

    def __init__(self, pid: int, one: _One, size: int) -> None:
        self.first = self.last = one
        self.pid = pid
        self.size = size


class Look:
    """Goes through the processes that there were at its beginning."""

    def __init__(self, pids: Sequence[int], first: int, who: Who, most: int) -> None:
        """Look at ``pids`` in that order, as ``who`` where they are closed to us; ``first`` is ours and has no sets.

        Nothing else is looked at once one has more than ``most`` watched.
        """
        self._first = first
        self._who = who
        self._most = most
        self._calls = _MOST_CALLS + _MOST_CALLS_EACH * len(pids)
        """So many are left."""
        self._long = False
        """Whether a set with many watches was read."""
        self._known: list[_Known] = []
        """In kcmp's order."""
        self._texts: set[bytes] = set()
        """What was read of each set, to tell some apart where kcmp can't, or would take too long."""
        self._tables: list[tuple[int, int, Who]] = []
        """(process, a thread that has the table, as whom it was seen)"""
        self._steps = self._walk(pids)
        self.asked_sockets = False
        """Whether it has been asked for what lies in messages."""
        self.total = self._before = 0
        """How much is watched; by those that were looked at before the one that is."""
        self.unsure = 0
        """So much more it is at most where sets of the same content are not one, as can't be told."""
        self.of: dict[int, int] = {}
        """How much each process has watched, alone or with others."""
        self.closed: dict[int, int] = {}
        """Processes whose descriptors can't be seen -> how many those are, or may be."""
        self.unread: dict[int, int] = {}
        """How many of each process's descriptors are sets that were too many to be read."""
        self.held: dict[int, int] = {}
        """How many open files wait to be received in each process's sockets (SCM_RIGHTS)."""

    def piece(self) -> bool:
        """Go on for a while; tell whether all has been seen."""
        until, work = time.monotonic() + _MOST_PIECE_SECONDS, time.thread_time() + _PIECE_SECONDS
        return all(time.monotonic() < until and time.thread_time() < work for _ in self._steps)

    def ask_sockets(self) -> None:
        """Go on, after all else, with the messages that wait in sockets."""
        self.asked_sockets = True
        self._steps = self._messages()

    def _walk(self, pids: Iterable[int]) -> Iterator[None]:
        for pid in pids:
            table: int | None = None
            self._before = self.total
            for thread in _threads(pid):
                if table is None or not shares_table(table, thread):
                    opened = yield from self._descriptors(pid, thread)
                    table = thread if opened and table is None else table
                if self._enough():
                    return
                yield

    def _enough(self) -> bool:
        """Tell whether the one that is looked at has too much by itself: no other changes that, and more comes."""
        return self.total - self._before > self._most

    def _descriptors(self, pid: int, thread: int) -> Generator[None, None, bool]:
        """Go through one table of open files; return whether it is to be seen."""
        folder = f"/proc/{pid}/task/{thread}/fd"
        try:
            who, files = self._opened(f"/proc/{pid}/task/{thread}")
            with files:
                while numbers := _some(files):
                    with acting_as(who):
                        sets = _sets_of(thread, folder, numbers, by_link=self._long)
                    yield
                    for read, number in enumerate(sets):
                        if self._calls <= 0:
                            self.unread[pid] = self.unread.get(pid, 0) + len(sets) - read
                            break
                        self._add(pid, (thread, number), who)
                        if self._enough():
                            return True
                        yield
        except PermissionError:
            if pid != self._first:
                self.closed[pid] = max(self.closed.get(pid, 0), _open_files(pid, thread))
            return False
        except OSError:
            return False  # it has ended
        self._tables.append((pid, thread, who))
        return True

    def _opened(self, thread: str) -> tuple[Who, _Files]:
        """Return as whom the descriptors of a thread can be seen, and what lists them.

        Raises:
            OSError: EACCES, they are closed to its own user too, or it is ending; ENOENT, it is gone.

        """
        for who in (None, self._who):
            try:
                with acting_as(who):
                    with contextlib.suppress(FileNotFoundError):
                        os.readlink(f"{thread}/exe")  # root may list what it may not read
                    return who, os.scandir(f"{thread}/fd")
            except PermissionError:
                if who is self._who:
                    raise
        raise ProcessLookupError

    def _add(self, pid: int, one: _One, who: Who) -> None:
        """Count a set for the process ``pid``, and for all where it is not known yet."""
        known: _Known | None = None
        place: int | None = None
        if len(self._known) < _TOLD_APART:
            with contextlib.suppress(OSError):
                place, known = self._place(one)
                if place < 0:
                    return  # it was closed meanwhile
        if known is not None:
            known.last = one
            if known.pid != pid:
                known.pid = pid
                self.of[pid] = self.of.get(pid, 0) + known.size
            return
        with acting_as(who):
            size, text = _read(pid, one)
        self._calls -= _READ_CALLS + size // _WATCHES_A_CALL
        self._long |= size >= _LONG
        if not size:
            return
        self.of[pid] = self.of.get(pid, 0) + size
        if place is None and text in self._texts:
            self.unsure += size
            return
        self._texts.add(text)
        self.total += size
        if place is not None:
            self._known.insert(place, _Known(pid, one, size))

    def _place(self, one: _One) -> tuple[int, _Known | None]:
        """Return where a set belongs among those that are known, and which of them it is; less than 0: it is gone.

        Raises:
            OSError: it can't be told.

        """
        low, high = 0, len(self._known)
        while low < high:
            middle = (low + high) // 2
            known = self._known[middle]
            self._calls -= 1
            order = compare_files(known.first, one)
            if order is None:
                if compare_files(one, one) is None:
                    return -1, None
                if known.first != known.last:
                    known.first = known.last
                    continue
                # All that had it are gone as far as is known; who else has it is asked by the next look.
                self.total -= known.size
                del self._known[middle]
                high -= 1
            elif order == 0:
                return middle, known
            elif order < 0:
                low = middle + 1
            else:
                high = middle
        return low, None

    def _messages(self) -> Iterator[None]:
        for pid, thread, who in self._tables:
            folder = f"/proc/{pid}/task/{thread}/fd"
            with contextlib.suppress(OSError):  # it has ended, or closed itself: the next look tells
                with acting_as(who):
                    files = os.scandir(folder)
                with files:
                    while numbers := _some(files):
                        with acting_as(who):
                            links = _links(folder, numbers)
                            sockets = [number for number, link in links if link.startswith("socket:")]
                            held = sum(_waiting(pid, thread, number) for number in sockets)
                        if held:
                            self.held[pid] = self.held.get(pid, 0) + held
                        yield


def _some(files: _Files) -> list[int]:
    """Return the next ones that are listed: each is made ready as it is, so to list all could take seconds."""
    return [int(file.name) for file in itertools.islice(files, _BATCH)]


def _sets_of(thread: int, folder: str, numbers: list[int], *, by_link: bool) -> list[int]:
    """Return those descriptors that are sets: by kcmp(2), which takes less than a link, where it is allowed.

    It takes more where sets have many watches: then ``by_link``.

    Raises:
        OSError: as :func:`_links`.

    """
    sets: list[int] = []
    untold: list[int] = numbers if by_link else []
    for number, told in sets_among(thread, () if by_link else numbers, 0):
        (untold if isinstance(told, OSError) else sets).append(number)
    return sets + [number for number, link in _links(folder, untold) if link == _SET] if untold else sets


def _links(folder: str, numbers: Iterable[int]) -> list[tuple[int, str]]:
    """Return what each descriptor is.

    Raises:
        OSError: EACCES, they are closed to us; ENOENT, their thread has ended.

    """
    links = []
    opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for number in numbers:
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                links.append((number, os.readlink(str(number), dir_fd=opened)))
    finally:
        os.close(opened)
    return links


def _threads(pid: int) -> list[int]:
    try:
        return sorted(map(int, os.listdir(f"/proc/{pid}/task")))
    except OSError:
        return []


def _open_files(pid: int, thread: int) -> int:
    """Return how many descriptors a closed thread has, or may have; 0 where it is ending (proc_pid_status(5), FDSize).

    Linux 6.2 tells the number to everyone, as the size of the folder.
    """
    try:
        with open(f"/proc/{pid}/task/{thread}/status", "rb", buffering=0) as file:
            slots = int(file.read(_TOLD_BYTES).partition(b"\nFDSize:")[2].split(None, 1)[0])
        told = os.stat(f"/proc/{pid}/task/{thread}/fd").st_size
    except (OSError, ValueError, IndexError):
        return 0
    return told or (slots if slots > _SMALLEST_TABLE else 0)


def _read(pid: int, one: _One) -> tuple[int, bytes]:
    """Return how much a set watches, and what tells it from others (proc_pid_fdinfo(5): a line for each).

    Raises:
        PermissionError: it is closed to us.

    """
    count, text, begun = 0, hashlib.blake2b(digest_size=16), False
    with (
        contextlib.suppress(FileNotFoundError, ProcessLookupError),
        open(f"/proc/{pid}/task/{one[0]}/fdinfo/{one[1]}", "rb", buffering=0) as file,
    ):
        while said := file.read(_READ_BYTES):
            count += said.count(b"tfd:")
            # What comes before is of the descriptor.
            text.update(said if begun else said[said.find(b"tfd:") :])
            begun = True
    return count, text.digest()


def _waiting(pid: int, thread: int, number: int) -> int:
    """Return how many open files wait in a socket to be received (proc_pid_fdinfo(5), scm_fds)."""
    try:
        with open(f"/proc/{pid}/task/{thread}/fdinfo/{number}", "rb", buffering=0) as told:
            return int(told.read(_TOLD_BYTES).partition(b"scm_fds:")[2].split(None, 1)[0])
    except (OSError, ValueError, IndexError):
        return 0
