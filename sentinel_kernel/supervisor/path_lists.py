"""Which of the host's files a sandbox on the landlock rung may open: what the full rung would have mounted."""

from __future__ import annotations

import os

from sentinel_kernel.policy.plan import MountKind, PathLists, is_within

TYPE_CHECKING = False
if TYPE_CHECKING:
    from sentinel_kernel.policy.plan import BootPlan
    from sentinel_kernel.supervisor.private_folder import PrivateFolders

_DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
_OF_LINUX = (
    "/proc/cpuinfo",
    "/proc/filesystems",
    "/proc/loadavg",
    "/proc/meminfo",
    "/proc/stat",
    "/proc/uptime",
    "/proc/version",
    "/proc/sys/kernel/cap_last_cap",
    "/proc/sys/kernel/ngroups_max",
    "/proc/sys/kernel/osrelease",
    "/proc/sys/kernel/pid_max",
    "/proc/sys/kernel/random/boot_id",
    "/proc/sys/kernel/random/uuid",
    "/proc/sys/kernel/threads-max",
    "/proc/sys/vm/max_map_count",
    "/proc/sys/vm/overcommit_memory",
    "/sys/kernel/mm/transparent_hugepage/enabled",
    "/sys/kernel/mm/transparent_hugepage/hpage_pmd_size",
)
"""They tell of the machine, not of its processes."""

_MOST_ENTRIES = 20_000


def make_lists(plan: BootPlan, package_directory: str, folders: PrivateFolders, abi: int) -> PathLists:
    """Return the lists for ``plan``, which was made for the full rung; ``folders`` are the sandbox's own."""
    shown = [
        entry for entry in plan.mounts if entry.kind in (MountKind.BIND, MountKind.OVERLAY) and entry.source
    ]
    covered = {
        entry.target for entry in plan.mounts if entry.kind in (MountKind.MASK_DIRECTORY, MountKind.MASK_FILE)
    }
    covered |= {f"{entry.target}/{name}" for entry in shown for name in entry.hidden}
    covered.discard(package_directory)  # what it holds is public, and the packages' folder stays a whole
    readable: list[str] = []
    split: list[str] = []
    kept_out = sorted(covered)
    for entry in shown:
        if entry.source == entry.target:
            _add(os.path.realpath(entry.source), kept_out, folders, readable, split)
        else:
            readable.append(os.path.realpath(entry.source))
    readable += [path for path, _ in plan.files if os.path.realpath(path) == path and _is_copied(path)]
    readable += [folders.library, os.path.join(package_directory, "worker")]
    return PathLists(
        readable=tuple(dict.fromkeys(readable)),
        single=tuple(path for path in _OF_LINUX if os.path.exists(path)),
        devices=tuple(path for path in _DEVICES if os.path.exists(path)),
        tmp=folders.tmp,
        home=folders.home,
        output=folders.output,
        split=tuple(split),
        closed=tuple(kept_out),
        others=0 if plan.started_by_root else _tasks_of_user(),
        abi=abi,
    )


def open_folders(lists: PathLists) -> dict[str, int]:
    """Open the folders that calls name; before the sandbox starts: it may end, and its own go, at any time.

    Raises:
        OSError: one is gone.

    """
    folders: dict[str, int] = {}
    try:
        for path in (*lists.writable, *lists.split):
            flags = os.O_DIRECTORY | os.O_CLOEXEC | (os.O_PATH if path in lists.writable else os.O_RDONLY)
            folders[path] = os.open(path, flags)
    except OSError:
        close_folders(folders)
        raise
    return folders


def close_folders(folders: dict[str, int]) -> None:
    """Close them; idempotent."""
    while folders:
        os.close(folders.popitem()[1])


def _is_copied(path: str) -> bool:
    """Tell whether a file of the plan is the host's own, as opposed to one that is written for the sandbox."""
    return path.startswith("/etc/") and path not in (
        "/etc/passwd",
        "/etc/group",
        "/etc/hosts",
        "/etc/hostname",
        "/etc/resolv.conf",
        "/etc/nsswitch.conf",
    )


def _add(
    path: str, covered: list[str], folders: PrivateFolders, readable: list[str], split: list[str]
) -> None:
    """Add ``path``, or where something in it is covered its entries; links lead to what has a place of its own."""
    if path in covered or path in (folders.output, folders.path):
        return
    if not any(is_within(place, path) for place in covered):
        readable.append(path)
        return
    split.append(path)
    try:
        with os.scandir(path) as entries:
            names = [entry.path for entry in entries if not entry.is_symlink()]
    except OSError:
        return
    for name in names[:_MOST_ENTRIES]:
        _add(name, covered, folders, readable, split)


def _tasks_of_user() -> int:
    """Return how many processes and threads of this user there are: RLIMIT_NPROC counts them all (getrlimit(2))."""
    own, count = os.geteuid(), 0
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                if os.stat(f"/proc/{name}").st_uid == own:
                    count += len(os.listdir(f"/proc/{name}/task"))
            except OSError:
                continue  # it has ended
    return count
