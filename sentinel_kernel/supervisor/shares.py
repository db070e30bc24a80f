"""Held calls that take from what all share: counted against the profile's sizes, and answered by what is left.

Each is decided on its registers, or carried out here in the caller's stead; nothing in memory is read twice.
"""

from __future__ import annotations

import errno
import os
import resource
import struct
import time
from functools import partial

from sentinel_kernel.linux.memory import read_memory, write_memory
from sentinel_kernel.supervisor.by_number import set_processors, set_soft_limit

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from sentinel_kernel.linux.seccomp import Listener, Notification
    from sentinel_kernel.supervisor.child_threads import ChildThreads
    from sentinel_kernel.supervisor.current import Current
    from sentinel_kernel.supervisor.memory_use import MemoryUse
    from sentinel_kernel.supervisor.processes import Processes
    from sentinel_kernel.supervisor.refused_memory import RefusedMemory

_MAP_PRIVATE, _MAP_ANONYMOUS = 0x02, 0x20  # <asm-generic/mman-common.h>
_CLONE_THREAD = 0x00010000  # <linux/sched.h>

_MFD_CLOEXEC, _MFD_HUGETLB = 1, 4  # <linux/memfd.h>
_IPC_CREAT = 0o1000  # <linux/ipc.h>; IPC_PRIVATE is the key 0
_QUEUES = 64
"""Message queues that a sandbox may make in its life."""

_QUEUE_BYTES = 1 << 20
"""16 KiB of text, and as many messages without any: each of those takes 64 bytes."""

_SET_BYTES = 512
_MANY_PROCESSES = 4096

_MASK_BYTES = 512
# struct sysinfo { long uptime; ulong loads[3], totalram, freeram, sharedram, bufferram, totalswap, freeswap;
#                  u16 procs, pad; ulong totalhigh, freehigh; u32 mem_unit; } of <linux/sysinfo.h>, 64 bits
_SYSINFO = struct.Struct("=q3Q6QHH4xQQI4x")
_LOAD_ONE = 1 << 16
_RLIMIT = struct.Struct("=QQ")  # struct rlimit64: soft, hard
_INFINITE = (1 << 64) - 1
_FORGOTTEN_SECONDS = 0.005
"""A call that was let go so long ago is in the list of mappings, if it has not ended."""

_SHARE = 0.9


class Shares:
    """Answers the calls of policy/measured.py for one sandbox."""

    def __init__(self, current: Current, use: MemoryUse, processes: Processes) -> None:
        """Count by ``use``, whose ``processes`` are those of ``current``."""
        self._current = current
        self._use = use
        self._processes = processes
        self._granted: list[tuple[float, int]] = []
        self._segments = 0
        self._queues = 0
        # Each semaphore takes 64 bytes, and two more in each process that undoes what it did at its end (SEM_UNDO).
        sizes = current.preparation.plan.sizes
        self._semaphore_bytes = 64 + 2 * (sizes.pids or _MANY_PROCESSES)
        self.refused = False
        """Memory was refused since somebody last took note."""
        self.refusals: RefusedMemory | None = None
        """Answers private mappings, which a process's own limit counts."""
        self.threads: ChildThreads | None = None
        """Counts as programs of the cell start threads, once one has."""

        calls: dict[str, Callable[[Listener, Notification], bool]] = {
            "mmap": self._map,
            "memfd_create": self._make_file,
            "shmget": self._make_segment,
            "semget": self._make_semaphores,
            "msgget": self._make_queue,
            "sched_setaffinity": self._place,
            "sysinfo": self._tell,
            "prlimit64": self._limit,
            "setrlimit": self._limit_own,
        }
        numbers = current.handler.policy.architecture.syscalls
        self._clone = numbers["clone"]
        self._calls = {numbers[name]: answer for name, answer in calls.items() if name in numbers}
        self._memory_files = -1
        try:
            flags = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC
            rung = current.sandbox.calls
            if rung is None:
                self._memory_files = os.open(f"/proc/{current.sandbox.pid}/root/dev/shm", flags)
            else:
                self._memory_files = os.dup(rung.tmp)  # the sandbox may be gone, and its name another's
        except OSError:
            pass  # then there are none

    def answer(self, listener: Listener, notification: Notification) -> bool:
        """Answer ``notification``, which the policy lets go on; False where it is not one of these."""
        call = self._calls.get(notification.number)
        return call is not None and call(listener, notification)

    def _map(self, listener: Listener, notification: Notification) -> bool:
        length, flags = notification.arguments[1], notification.arguments[3]
        if not flags & _MAP_ANONYMOUS:
            listener.proceed(notification.id)
            return True
        if flags & _MAP_PRIVATE and self.refusals is not None:
            self.refused |= self.refusals.answer(listener, notification)
            return True
        allowed = self._current.preparation.plan.sizes.memory_bytes
        if allowed is not None and not self._fits(length, int(allowed * _SHARE)):
            self.refused = True
            listener.refuse(notification.id, errno.ENOMEM)
            return True
        self._granted.append((time.monotonic(), length))
        self._use.asked(notification.thread, length)
        listener.proceed(notification.id)
        return True

    def starts_thread(self, notification: Notification) -> bool:
        """Tell whether a call would start a thread, by its number and flags; whether it may is not said."""
        return notification.number == self._clone and bool(notification.arguments[0] & _CLONE_THREAD)

    def start_thread(self, listener: Listener, notification: Notification) -> None:
        """Let a thread start, and count."""
        if self.threads is None:
            from sentinel_kernel.supervisor.child_threads import ChildThreads  # noqa: PLC0415 - for few programs

            self.threads = ChildThreads(self._current, self._processes)
        self.threads.note(notification.thread, partial(listener.proceed, notification.id))

    def _fits(self, length: int, allowed: int) -> bool:
        """Tell whether so much more may be mapped; what was let go and can't be seen yet counts."""
        if self._use.total_bytes + length + sum(size for _, size in self._granted) <= allowed:
            return True
        now = time.monotonic()
        self._granted = [(at, size) for at, size in self._granted if now - at < _FORGOTTEN_SECONDS]
        self._processes.refresh()
        self._use.look_again()
        used = self._use.measure(exactly_above=allowed - length)
        return used + length + sum(size for _, size in self._granted) <= allowed

    def seen(self) -> None:
        """Take note that the mappings were just looked up."""
        now = time.monotonic()
        self._granted = [(at, size) for at, size in self._granted if now - at < _FORGOTTEN_SECONDS]

    def _make_file(self, listener: Listener, notification: Notification) -> bool:
        """Give the caller a file of /dev/shm without a name: its size counts there, whoever holds it and wherever.

        Unlike memfd_create(2)'s it takes no seals and can't be executed.
        """
        flags = notification.arguments[1]
        if flags & _MFD_HUGETLB or self._memory_files < 0:
            listener.refuse(notification.id, errno.ENOSYS)
            return True
        try:
            descriptor = self._open_file()
        except OSError as error:
            listener.refuse(notification.id, error.errno or errno.ENOMEM)
            return True
        try:
            if listener.is_valid(notification.id):
                listener.answer_with_file(
                    notification.id, descriptor, close_on_exec=bool(flags & _MFD_CLOEXEC)
                )
        except OSError as error:
            listener.refuse(notification.id, error.errno or errno.EMFILE)
        finally:
            os.close(descriptor)
        return True

    def _open_file(self) -> int:
        identity = self._current.preparation.plan.identity
        flags = os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC
        if os.geteuid() == identity.host_uid:
            return os.open(".", flags, 0o777, dir_fd=self._memory_files)
        # Root's own ids mean nothing in the sandbox's file systems: the file is made as the one who uses it.
        own_uid, own_gid = os.geteuid(), os.getegid()
        os.setegid(identity.host_gid)
        try:
            os.seteuid(identity.host_uid)
            try:
                return os.open(".", flags, 0o777, dir_fd=self._memory_files)
            finally:
                os.seteuid(own_uid)
        finally:
            os.setegid(own_gid)

    def _make_segment(self, listener: Listener, notification: Notification) -> bool:
        """Count the segments that were ever made: who removes one is not seen from here."""
        key, size, flags = notification.arguments[0] & 0xFFFFFFFF, *notification.arguments[1:3]
        return self._make(listener, notification, max(size, 4096) if key == 0 or flags & _IPC_CREAT else 0)

    def _make_semaphores(self, listener: Listener, notification: Notification) -> bool:
        """Count semaphores as segments: the Linux kernel keeps them in memory of its own."""
        key, count, flags = (argument & 0xFFFFFFFF for argument in notification.arguments[:3])
        makes = key == 0 or flags & _IPC_CREAT
        return self._make(listener, notification, _SET_BYTES + count * self._semaphore_bytes if makes else 0)

    def _make_queue(self, listener: Listener, notification: Notification) -> bool:
        key, flags = (argument & 0xFFFFFFFF for argument in notification.arguments[:2])
        makes = key == 0 or flags & _IPC_CREAT
        if makes and self._queues >= _QUEUES:
            listener.refuse(notification.id, errno.ENOSPC)
            return True
        self._queues += bool(makes)
        return self._make(listener, notification, _QUEUE_BYTES if makes else 0)

    def _make(self, listener: Listener, notification: Notification, size: int) -> bool:
        """Let a call go on that takes ``size`` bytes, 0 for one that takes nothing, within those of shared memory."""
        if self._segments + size > self._current.preparation.plan.sizes.shm_bytes:
            self.refused = True
            listener.refuse(notification.id, errno.ENOSPC)
            return True
        if size:
            self._segments += size
            self._use.segment_bytes = self._segments
        listener.proceed(notification.id)
        return True

    def _place(self, listener: Listener, notification: Notification) -> bool:
        """Set a thread's processors in its stead, within the profile's: as a cpuset would hold it."""
        wanted_id, size, address = notification.arguments[:3]
        mask = read_memory(notification.thread, address, min(size & 0xFFFFFFFF, _MASK_BYTES))
        thread = self._outside(wanted_id & 0xFFFFFFFF, notification.thread)
        if not listener.is_valid(notification.id):
            return True
        number = self._set_affinity(thread, mask)
        if number:
            listener.refuse(notification.id, number)
        else:
            listener.answer(notification.id, 0)
        return True

    def _set_affinity(self, thread: int | None, mask: bytes) -> int:
        """Return 0, or the error."""
        if not mask:
            return errno.EFAULT
        if thread is None:
            return errno.ESRCH
        bits = int.from_bytes(mask, "little")
        allowed = self._current.preparation.plan.cpus or os.sched_getaffinity(0)
        chosen = {processor for processor in allowed if bits >> processor & 1}
        if not chosen:
            return errno.EINVAL
        try:
            set_processors(thread, self._current.sandbox.pid, chosen)
        except OSError as error:
            return error.errno or errno.EPERM
        return 0

    def _limit(self, listener: Listener, notification: Notification) -> bool:
        """Set RLIMIT_DATA in the caller's stead, up to the profile's memory: headroom is not the cell's to raise."""
        wanted_id, what, new, old = notification.arguments[:4]
        if new:
            self._current.limits_set.add(what & 0xFFFFFFFF)
        if new == 0 or what & 0xFFFFFFFF != resource.RLIMIT_DATA:
            listener.proceed(notification.id)  # it only asks, or is none at all
            return True
        if old != 0:
            listener.refuse(notification.id, errno.EPERM)  # the C library asks and sets in two calls
            return True
        return self._set_data_limit(listener, notification, wanted_id & 0xFFFFFFFF, new)

    def _limit_own(self, listener: Listener, notification: Notification) -> bool:
        what, new = notification.arguments[:2]
        if what & 0xFFFFFFFF != resource.RLIMIT_DATA:
            listener.proceed(notification.id)
            return True
        return self._set_data_limit(listener, notification, 0, new)

    def _set_data_limit(
        self, listener: Listener, notification: Notification, wanted_id: int, address: int
    ) -> bool:
        self._current.limits_set.add(resource.RLIMIT_DATA)
        content = read_memory(notification.thread, address, _RLIMIT.size)
        target = self._outside(wanted_id, notification.thread)
        if not listener.is_valid(notification.id):
            return True
        number = 0
        if len(content) < _RLIMIT.size:
            number = errno.EFAULT
        elif target is None:
            number = errno.ESRCH
        else:
            soft, hard = _RLIMIT.unpack(content)
            number = self._set_soft(target, soft, hard)
        if number:
            listener.refuse(notification.id, number)
        else:
            listener.answer(notification.id, 0)
        return True

    def _set_soft(self, target: int, soft: int, hard: int) -> int:
        """Set RLIMIT_DATA of a process as far as may be; return 0, or the error."""
        allowed = self._current.preparation.plan.sizes.memory_bytes
        try:
            before, most_of_all = resource.prlimit(target, resource.RLIMIT_DATA)
            most = max(before, allowed) if allowed is not None else _INFINITE
            soft = min(soft, most, most_of_all if most_of_all != resource.RLIM_INFINITY else _INFINITE)
            if hard < soft:
                return errno.EINVAL
            first = self._current.sandbox.pid
            set_soft_limit(target, first, resource.RLIMIT_DATA, -1 if soft == _INFINITE else soft)
        except OSError as error:
            return error.errno or errno.EPERM
        if soft > before and self.refusals is not None:
            self.refusals.wants_room(target)
        return 0

    def _outside(self, inside: int, caller: int) -> int | None:
        """Return the host's number of the thread that the caller calls ``inside``; None where there is none."""
        if inside == 0:
            return caller
        self._processes.refresh()
        wanted = str(inside).encode()
        for process in self._processes:
            try:
                for thread in os.listdir(f"/proc/{process.pid}/task"):
                    with open(f"/proc/{process.pid}/task/{thread}/status", "rb") as file:
                        numbers = file.read().partition(b"\nNSpid:")[2].partition(b"\n")[0].split()
                    if numbers and numbers[-1] == wanted:
                        return int(thread)
            except OSError:
                continue  # it ended meanwhile
        return None

    def _tell(self, listener: Listener, notification: Notification) -> bool:
        """Write sysinfo(2)'s answer for the profile's memory into the caller's structure."""
        if struct.calcsize("P") != 8:
            return False
        sizes = self._current.preparation.plan.sizes
        total, available = self._use.as_seen(sizes.memory_bytes)
        loads = [int(load * _LOAD_ONE) for load in os.getloadavg()]
        content = _SYSINFO.pack(
            int(time.monotonic()), *loads, total, available, 0, 0, 0, 0, len(self._processes), 0, 0, 0, 1
        )
        if not listener.is_valid(notification.id):
            return True
        if write_memory(notification.thread, notification.arguments[0], content):
            listener.answer(notification.id, 0)
        else:
            listener.refuse(notification.id, errno.EFAULT)
        return True

    def close(self) -> None:
        """Close the descriptor."""
        if self._memory_files >= 0:
            os.close(self._memory_files)
            self._memory_files = -1
