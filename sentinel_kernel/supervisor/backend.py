"""What enforces a sandbox's limits: a control group of its own where there is one to be had, else no more than rlimits.

A memory.high is not set: without swap it would slow a cell down to a crawl near the limit, where MemoryError says what
is the matter. memory.oom.group stays 0: the worst process goes, and a notebook's variables outlive a child's greed.
"""

from __future__ import annotations

import contextlib
import os

from sentinel_kernel.errors import UnsupportedHost
from sentinel_kernel.policy.plan import process_limit
from sentinel_kernel.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from sentinel_kernel.linux.cgroup import Group
    from sentinel_kernel.policy.plan import Sizes
    from sentinel_kernel.supervisor.group_tree import Tree

VARIABLE = "SENTINEL_LIMITS_BACKEND"
CHOICES = ("auto", "cgroup", "systemd", "fallback")
NICE = 5
"""What a sandbox weighs that is to give way, as a nice value: a third of the usual (sched_prio_to_weight of the Linux
kernel's kernel/sched/core.c). A long computation beside one that never gives way, as of plain ipykernel, still has a
quarter of the processor that they share."""

_PERIOD_MICROSECONDS = 100_000
_LEAST_QUOTA_MICROSECONDS = 1000
_MOST_QUOTA_MICROSECONDS = (1 << 44) - 1
_MOST_PROCESSES = 4_194_303
"""More is refused by the Linux kernel (MAX_BW of kernel/sched, PID_MAX_LIMIT), and limits nothing."""

_VERSION_2 = (
    "boot this machine (a container's: its host) with control groups of version 2, by the boot parameter "
    "systemd.unified_cgroup_hierarchy=1"
)
"""What alone helps where version 1 counts, or no version is mounted: no session or delegation leads there."""

_REMEDIES = {
    "cgroup": "Start JupyterLab in a group that is delegated to its user (cgroups(7), Delegation), or leave "
    f"{VARIABLE} at auto.",
    "systemd": "Start JupyterLab in a session of systemd's (loginctl enable-linger USER keeps one), or leave "
    f"{VARIABLE} at auto.",
}


class Usage(Record):
    """What is used now, as the Linux kernel counts it."""

    memory_bytes: int
    """Without the pages of files that can be dropped: those are taken back before anything is refused."""
    cpu_seconds: float
    pids: int


class Events(Record):
    """How often limits were met since the sandbox was made."""

    oom_kills: int
    memory_refusals: int
    """Times that memory.max was met and something had to be taken back."""
    pids_refusals: int
    throttled: int
    throttled_seconds: float


class Backend:
    """The fallback: limits that need no group (rlimits, sizes of file systems, the meter, processors)."""

    name = "fallback"
    group = -1
    """A descriptor of the group that the sandbox is to be made in, or -1."""

    throttles = False
    """Whether a share of processor time is kept by the Linux kernel, which knows a weight of the sandbox then."""

    nice = 0
    """The weight that the sandbox is made with, as a nice value."""

    io_obstacle = "controller"
    """What is missing for a limit of a disk's speed: the "controller", a "disk" that takes one, or nothing ("")."""

    @property
    def holds_io(self) -> bool:
        """Whether the speed of a disk can be limited."""
        return not self.io_obstacle

    def __init__(self, detail: str, remedy: str = "") -> None:
        """Say in ``detail`` why it is no better one, and in ``remedy`` what leads to one where it is the machine."""
        self.detail = detail
        self.remedy = remedy

    def place(self, pid: int) -> None:
        """Put a process that has run nothing yet under the limits. Raises OSError where that is refused."""

    def set(self, sizes: Sizes, *, processors: bool = True) -> list[str]:
        """Set the limits; return the names of those that hold more now, which keep theirs.

        ``processors``: their share too; not while what runs is ours.
        """
        del sizes, processors
        return []

    def weigh(self, nice: int) -> None:
        """Have the sandbox weigh as much as a process of this nice value, where ``throttles``; best effort."""
        self.nice = nice

    def usage(self) -> Usage | None:
        """Return what is used, or None where nobody counts it."""
        return None

    def events(self) -> Events | None:
        """Return which limits were met how often, or None where nobody counts it."""
        return None

    def open_events(self) -> list[int]:
        """Return descriptors of the caller's own that poll(2) reports POLLPRI on when a limit was met."""
        return []

    def close(self) -> None:
        """Release all; the sandbox has ended."""


class GroupBackend(Backend):
    """A leaf of the control group tree."""

    def __init__(self, name: str, leaf: Group, tree: Tree, devices: tuple[str, ...] = ()) -> None:
        """Take a fresh ``leaf`` of ``tree``; ``devices`` are those that its files lie on, as ``MAJOR:MINOR``."""
        absent = [name for name in ("cpu", "io") if name not in tree.controllers]
        without = (
            f"; without {', '.join(absent)}, which this part of the tree was not given" if absent else ""
        )
        super().__init__(f"{', '.join(tree.controllers)} in {tree.path}{without}")
        self.name = name
        self.group = leaf.descriptor
        self.throttles = "cpu" in tree.controllers
        self._leaf, self._tree = leaf, tree
        self._weighs = 0
        self._devices: tuple[str, ...] = ()
        if "io" in tree.controllers:
            self._devices = tuple(device for device in devices if _takes_speeds(leaf, device))
            self.io_obstacle = "" if self._devices else "disk"
        if leaf.has("memory.swap.max"):  # not where the Linux kernel does without swap
            leaf.write("memory.swap.max", "0")

    def place(self, pid: int) -> None:
        """As told there."""
        self._leaf.write("cgroup.procs", str(pid))

    def set(self, sizes: Sizes, *, processors: bool = True) -> list[str]:
        """As told there. Raises OSError."""
        full = []
        used = self.usage().memory_bytes
        if sizes.memory_bytes is not None and used > sizes.memory_bytes:
            full.append("memory_bytes")  # a lower maximum would have the worker killed for what it may hold
        else:
            self._leaf.write("memory.max", _text(sizes.memory_bytes))
        limit = process_limit(sizes)
        # One below RLIMIT_NPROC, which counts the same: what refuses is then the group, which counts refusals.
        self._leaf.write("pids.max", _text(None if limit is None else min(limit - 1, _MOST_PROCESSES)))
        if processors and self.throttles:
            self._leaf.write("cpu.max", f"{_quota(sizes)} {_PERIOD_MICROSECONDS}")
        for device in self._devices:
            speeds = f"rbps={_text(sizes.io_read_bytes)} wbps={_text(sizes.io_write_bytes)}"
            with contextlib.suppress(OSError):  # a device that has gone
                self._leaf.write("io.max", f"{device} {speeds}")
        return full

    def weigh(self, nice: int) -> None:
        """As told there."""
        if nice != self._weighs and self.throttles:
            with contextlib.suppress(
                OSError
            ):  # a group that goes, or somebody else's rule: then it weighs what it did
                self._tree.weigh(self._leaf, nice)
                self._weighs = nice
        self.nice = nice

    def usage(self) -> Usage:
        """As told there."""
        memory = self._leaf.counts("memory.stat")
        files = memory.get("inactive_file", 0) + memory.get("active_file", 0)
        return Usage(
            memory_bytes=max(0, int(self._leaf.read("memory.current")) - files),
            cpu_seconds=self._leaf.counts("cpu.stat")["usage_usec"] / 1e6,
            pids=int(self._leaf.read("pids.current")),
        )

    def events(self) -> Events:
        """As told there."""
        memory, pids = self._leaf.counts("memory.events"), self._leaf.counts("pids.events")
        cpu = self._leaf.counts("cpu.stat")
        return Events(
            oom_kills=memory.get("oom_kill", 0),
            memory_refusals=memory.get("max", 0),
            pids_refusals=pids.get("max", 0),
            throttled=cpu.get("nr_throttled", 0),
            throttled_seconds=cpu.get("throttled_usec", 0) / 1e6,
        )

    def open_events(self) -> list[int]:
        """As told there."""
        return [self._leaf.open_events(name) for name in ("memory.events", "pids.events")]

    def close(self) -> None:
        """Remove the leaf; idempotent."""
        from sentinel_kernel.supervisor.group_tree import remove  # noqa: PLC0415 - there is a leaf: it was imported

        if self.group >= 0:
            self.group = -1
            remove(self._leaf)
            self._leaf.close()


class Backends:
    """Makes a back end for each sandbox of this supervisor; what the machine gives is found out once."""

    def __init__(self) -> None:
        """Ask nothing yet."""
        self._tree: Tree | None = None
        self._name = ""
        self._detail = ""
        self._remedy = ""
        self._known = ""
        self.nice = NICE
        """What the next sandbox is to weigh; who starts gives way to those that are in use."""

    def make(self, wanted: str, folders: tuple[str, ...] = ()) -> Backend:
        """Return a back end for one sandbox whose files lie in ``folders``.

        Raises:
            UnsupportedHost: the ``wanted`` one (SENTINEL_LIMITS_BACKEND) is not to be had here, or is none of ours.

        """
        backend = self._make(wanted, folders)
        backend.weigh(self.nice)
        return backend

    def _make(self, wanted: str, folders: tuple[str, ...]) -> Backend:
        wanted = wanted or "auto"
        if wanted not in CHOICES:
            raise UnsupportedHost(
                f"{VARIABLE}={wanted} names no back end.", f"Use one of: {', '.join(CHOICES)}."
            )
        if wanted == "fallback":
            return Backend(f"{VARIABLE}=fallback")
        if self._known != wanted:
            self.close()
            self._find(wanted)
            self._known = wanted
        detail = self._detail
        if self._tree is not None:
            try:
                return self._on_leaf(self._tree, folders)
            except OSError as error:
                detail = f"{self._tree.path}: {error.strerror}."
        if wanted != "auto":
            remedy = (
                f"To have it: {self._remedy}. Or leave {VARIABLE} at auto."
                if self._remedy
                else _REMEDIES[wanted]
            )
            raise UnsupportedHost(f"{VARIABLE}={wanted} is not to be had: {detail}", remedy)
        return Backend(detail, self._remedy)

    def _on_leaf(self, tree: Tree, folders: tuple[str, ...]) -> Backend:
        """Return a back end on a leaf of its own, which goes again where that fails. Raises OSError."""
        leaf = tree.make_leaf()
        try:
            return GroupBackend(self._name, leaf, tree, _devices(folders))
        except OSError:
            from sentinel_kernel.supervisor.group_tree import remove  # noqa: PLC0415 - there is a leaf: it is imported

            remove(leaf)
            leaf.close()
            raise

    def _find(self, wanted: str) -> None:
        """Find the tree that is ours to divide, or why there is none."""
        from sentinel_kernel.linux.cgroup import own_place  # noqa: PLC0415 - not where the fallback is asked for

        try:
            place = own_place()
            present = _controllers(place.mount)
        except OSError as error:
            legacy = " (only version 1 is mounted, which is not used)" if error.filename else ""
            self._detail = f"No control groups of version 2 are mounted here{legacy}."
            self._remedy = _VERSION_2
            return
        if taken := [name for name in ("memory", "pids") if name in place.legacy and name not in present]:
            self._detail = (
                f"This machine counts {', '.join(taken)} with control groups of version 1, which are not used "
                "(systemd.unified_cgroup_hierarchy=1 boots with version 2)."
            )
            self._remedy = _VERSION_2
            return
        from sentinel_kernel.supervisor.group_tree import find_tree  # noqa: PLC0415 - there is something to find

        reasons = []
        for name in ("cgroup", "systemd") if wanted == "auto" else (wanted,):
            try:
                self._tree = find_tree(place) if name == "cgroup" else _scope_tree()
            except UnsupportedHost as error:
                reasons.append(error.message)
            except OSError as error:
                reasons.append(f"{error.filename or name}: {error.strerror}.")
            else:
                self._name = name
                return
        self._detail = " ".join(reasons)

    def close(self) -> None:
        """Leave the tree as it was found."""
        if self._tree is not None:
            self._tree.close()
            self._tree = None
        self._known = ""


def _scope_tree() -> Tree:
    from sentinel_kernel.supervisor.group_tree import find_tree  # noqa: PLC0415 - there is something to find
    from sentinel_kernel.supervisor.user_scope import enter_scope  # noqa: PLC0415 - as above

    return find_tree(enter_scope(), given=True)


def _controllers(mount: str) -> list[str]:
    with open(f"{mount}/cgroup.controllers", encoding="ascii") as file:
        return file.read().split()


def _takes_speeds(leaf: Group, device: str) -> bool:
    """Tell whether the speed of a device can be limited: not of every one that files lie on."""
    try:
        leaf.write("io.max", f"{device} rbps=max wbps=max")
    except OSError:
        return False
    return True


def _text(value: int | None) -> str:
    return "max" if value is None else str(value)


def _quota(sizes: Sizes) -> str:
    share = sizes.cpu_quota if sizes.cpu_quota is not None else sizes.cpu_count
    if share is None:
        return "max"
    return str(
        min(_MOST_QUOTA_MICROSECONDS, max(_LEAST_QUOTA_MICROSECONDS, int(share * _PERIOD_MICROSECONDS)))
    )


def _devices(folders: tuple[str, ...]) -> tuple[str, ...]:
    """Return the disks that the folders lie on, where those are disks that io.max can name."""
    found = {}
    for folder in folders:
        with contextlib.suppress(OSError):
            device = os.stat(folder).st_dev
            link = os.path.realpath(f"/sys/dev/block/{os.major(device)}:{os.minor(device)}")
            # The limit is the whole disk's: a partition has none.
            disk = os.path.dirname(link) if os.path.exists(f"{link}/partition") else link
            with open(f"{disk}/dev", encoding="ascii") as file:
                found[file.read().strip()] = True
    return tuple(found)
