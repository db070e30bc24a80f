"""The boot plan: every mount, limit and identity of one sandbox, as data."""

from __future__ import annotations

from enum import Enum
from resource import RLIMIT_DATA, RLIMIT_FSIZE, RLIMIT_NOFILE, RLIMIT_NPROC

from sentinel_kernel.record import Record, field_names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any, Final

DEVICES: Final = ("null", "zero", "full", "random", "urandom", "tty")
READ_ONLY_DEVICE: Final = "zero"
"""Who has it open for writing can share its pages, which no limit counts once they are not mapped (zero(4))."""

# Masked like in a container: they tell about, or reach into, the machine as a whole.
PROC_MASKED: Final = (
    "acpi",
    "kallsyms",
    "kcore",
    "keys",
    "latency_stats",
    "sched_debug",
    "scsi",
    "timer_list",
)
SHOWN_FILES: Final = ("meminfo", "online")
"""Files of the sandbox's own that stand for the machine's; boot mounts them, the supervisor writes them."""

PROC_READ_ONLY: Final = ("sys", "sysrq-trigger", "irq", "bus", "fs")
_INODE_BYTES: Final = 16384
_MINIMUM_INODES: Final = 16384
_WORKER_THREADS: Final = 48
"""Threads of init and of an idle worker, and head room: the profile's pids come on top."""
LENT_FILES: Final = 64
"""Files that a worker may open beyond its limit once a cell has used that up: without any it answers no cell."""


HOMES_UNSEEN: Final = "homes-unseen:"
"""Of a notice (BootPlan.notices): before a folder of data in which not all was looked at for homes."""


class MountKind(Enum):
    """How a directory or file of the sandbox comes to be."""

    BIND = "bind"
    """The host's own, read-only."""
    BIND_WRITABLE = "bind-writable"
    """It leads to the host's sockets, pipes and locks: no folder of a user's is shown so."""
    OVERLAY = "overlay"
    """Writes are held in a layer of the sandbox."""
    TMPFS = "tmpfs"
    MASK_DIRECTORY = "mask-directory"
    MASK_FILE = "mask-file"


class MountEntry(Record):
    """One mount; ``target`` is the path inside. ``size_bytes`` is for tmpfs, ``upper`` names an overlay's layer."""

    kind: MountKind
    target: str
    source: str = ""
    size_bytes: int = 0
    mode: int = 0o755
    upper: str = ""
    is_directory: bool = True
    sealed: bool = False
    """An overlay that is read-only: unlike a bind mount it does not lead to the host's sockets and pipes."""
    sized_by: str = ""
    """The size (a field of Sizes) that a tmpfs follows when the profile changes."""
    owned: bool = False
    """The source belongs to the user, not to the system: root must map its owner (idmapped mount)."""
    hidden: tuple[str, ...] = ()
    """Names in an overlay, relative to it, that are covered whether something has them or not (hidden_names.py)."""

    @property
    def is_held(self) -> bool:
        """Whether what cells write there is held for the person to commit: the workspace, and folders of data."""
        return (
            self.kind is MountKind.OVERLAY
            and not self.sealed
            and (self.upper == "workspace" or self.upper.startswith("data"))
        )


class Identity(Record):
    """Who runs outside (``host_*``) and who that is inside; one id each, nothing else is mapped."""

    host_uid: int
    host_gid: int
    inside_uid: int
    inside_gid: int
    name: str


class PythonPaths(Record):
    """Where the worker's interpreter and its modules live on the host (absolute paths, links resolved)."""

    executable: str
    prefix: str
    base_prefix: str
    module_directories: tuple[str, ...] = ()


class Image(Record):
    """A folder whose tree is the sandbox's root (supervisor/root_tree.py), by what lies right below it."""

    path: str
    folders: tuple[str, ...]
    links: tuple[tuple[str, str], ...]
    beside: tuple[tuple[str, str, bool], ...]
    """(path inside, path on the host, whether it is a folder) of what the kernel's Python needs of the host."""


class HostFacts(Record):
    """What was seen on this machine; gathering it is the supervisor's part, so that planning stays pure."""

    kinds: Mapping[str, str]
    """Path -> 'directory', 'file', or 'link:TARGET' for the paths that exist among ``probed_paths``."""
    contents: Mapping[str, bytes]
    """Path -> content of the small files of /etc that everybody may read."""
    mount_points: tuple[str, ...]
    home: str
    python: PythonPaths
    package_directory: str
    """The folder of the ``sentinel_kernel`` package itself."""
    identity: Identity
    started_by_root: bool
    image: Image | None = None


class Sizes(Record):
    """Limits of one sandbox, resolved to this machine: bytes, counts; None is no limit."""

    memory_bytes: int | None
    cpu_count: int | None
    pids: int | None
    disk_bytes: int
    tmp_bytes: int
    shm_bytes: int
    open_files: int | None
    file_size_bytes: int | None
    cpu_quota: float | None = None
    """A share of processor time that is less than ``cpu_count`` processors; 0.5 is half of one."""
    output_bytes: int | None = None
    wall_seconds: int | None = None
    cpu_seconds: int | None = None
    grace_seconds: int | None = None
    io_read_bytes: int | None = None
    """A second, of each disk that the sandbox's files lie on; a control group alone can keep it."""
    io_write_bytes: int | None = None


class PathLists(Record):
    """What the landlock rung opens of the host's files, where there are no mounts (landlock(7)); absolute paths."""

    readable: tuple[str, ...]
    """Read and executed, and all below them."""
    single: tuple[str, ...]
    """Files of the Linux kernel's that are read, and devices: as they are, nothing below them."""
    devices: tuple[str, ...]
    tmp: str
    """What stands for /tmp: a folder of the sandbox's own, that goes with it."""
    home: str
    """As above, for HOME."""
    output: str
    """The one folder of the host that cells write directly, or empty."""
    split: tuple[str, ...] = ()
    """Folders that are shown entry by entry, as something in them is hidden: they are listed from outside."""
    others: int = 0
    """Processes and threads of the user's that were there before: a limit of the user's counts those too."""
    closed: tuple[str, ...] = ()
    """What is hidden in them."""
    cause_en: str = ""
    """Why it is this rung and not the full one."""
    cause_zh: str = ""
    remedy_en: str = ""
    remedy_zh: str = ""
    abi: int = 0
    """The version of Landlock."""
    mark: int = 0
    """What tells the sandbox's processes (policy/stray_marks.py); 0 where there is no room for it."""

    @property
    def writable(self) -> tuple[str, ...]:
        """The folders that cells may write."""
        return (self.tmp, self.home, *((self.output,) if self.output else ()))

    def words(self) -> dict[str, Any]:
        """Return what the host tells of this rung: why it is that, the repair, and where cells may write."""
        names = ("cause_en", "cause_zh", "remedy_en", "remedy_zh", "output", "tmp", "home", "abi")
        return {name: getattr(self, name) for name in names}

    def is_writable(self, path: str) -> bool:
        """Tell whether cells may write there (``path`` is normal)."""
        return any(is_within(path, place) for place in self.writable)

    def is_readable(self, path: str) -> bool:
        """Tell whether cells may read there (``path`` is normal)."""
        return (
            self.is_writable(path)
            or path in self.single
            or path in self.devices
            or path in self.split
            or any(is_within(path, place) for place in self.readable)
        )


class BootPlan(Record):
    """Everything that boot does, in data: it can be printed, compared and tested without doing it."""

    staging: str
    identity: Identity
    started_by_root: bool
    hostname: str
    workspace: str
    workspace_upper: str
    home: str
    directories: tuple[str, ...]
    links: tuple[tuple[str, str], ...]
    files: tuple[tuple[str, bytes], ...]
    """(path, content) of files that are written into the root: generated ones, and copies of small files of /etc."""
    mounts: tuple[MountEntry, ...]
    sizes: Sizes
    most: Sizes
    """The largest of each size among the profiles that the sandbox can change to; what a soft limit can rise to."""
    writable: tuple[str, ...]
    """Where Landlock lets cells write; the mounts decide whether they can."""
    argv: tuple[str, ...]
    environment: Mapping[str, str]
    absent_inside: str
    """A path that exists on the host and must not exist inside: the proof that the root has changed."""
    asked: tuple[str, ...] = ()
    """Folders that the profile wants to be written on the host: the person is asked in the first cell."""
    notices: tuple[str, ...] = ()
    """``workspace-is-home``, and :data:`HOMES_UNSEEN` with a folder."""
    cpus: tuple[int, ...] = ()
    fenced: bool = False
    """Hosts may be reached: the sandbox makes no connection by itself, all are made from outside."""
    sockets: tuple[tuple[str, str, str, int], ...] = ()
    """(name, "tcp" or "udp", address, port) of what boot binds inside for the supervisor to serve."""
    lists: PathLists | None = None
    """Of the landlock rung; None: the full one."""
    counts_threads: bool = False
    """What the worker executes has its threads held as they start, so that they can be counted."""
    low_memory: bool = False
    """Init, and so the worker, has its mappings in the lower part of its memory: by that its threads are told apart."""

    @property
    def rung(self) -> str:
        """The rung of the isolation ladder that the plan is for."""
        return "full" if self.lists is None else "landlock"


def is_within(path: str, directory: str) -> bool:
    """Tell whether ``path`` is ``directory`` or lies below it (both absolute and normal)."""
    return path == directory or path.startswith(directory.rstrip("/") + "/")


def inodes_for(size_bytes: int) -> int:
    """Return the inode limit that goes with a tmpfs of ``size_bytes``."""
    return max(_MINIMUM_INODES, size_bytes // _INODE_BYTES)


def largest(sizes: Sequence[Sizes]) -> Sizes:
    """Return the largest of each size; None, which is no limit, is larger than any."""
    fields: dict[str, Any] = {}
    for name in field_names(Sizes):
        values = [getattr(one, name) for one in sizes]
        fields[name] = None if None in values else max(values)
    return Sizes(**fields)


def process_limits(sizes: Sizes) -> list[tuple[int, int]]:
    """Return (resource, value) of each limit of getrlimit(2) that the sizes ask for.

    RLIMIT_DATA counts private writable memory only; RLIMIT_AS would count numpy's reservations too.
    """
    limits = [
        (RLIMIT_NPROC, process_limit(sizes)),
        (RLIMIT_NOFILE, sizes.open_files),
        (RLIMIT_FSIZE, sizes.file_size_bytes),
        (RLIMIT_DATA, sizes.memory_bytes),
    ]
    return [(what, value) for what, value in limits if value is not None]


def process_limit(sizes: Sizes) -> int | None:
    """Return RLIMIT_NPROC of the sandbox: the profile's pids beyond what an idle worker uses."""
    return None if sizes.pids is None else sizes.pids + _WORKER_THREADS
