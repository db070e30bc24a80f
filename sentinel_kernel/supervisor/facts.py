"""Looking at this machine for what a boot plan needs: paths, mounts, sizes."""

from __future__ import annotations

import os
import stat

from sentinel_kernel.policy.plan import HostFacts
from sentinel_kernel.policy.planning import ETC_ENTRIES, probed_paths

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from sentinel_kernel.policy.plan import Identity, PythonPaths

_COPIED_BYTES = 256 * 1024


def gather_facts(
    workspace: str, python: PythonPaths, package_directory: str, identity: Identity, hidden: Iterable[str]
) -> HostFacts:
    """Look at the paths that planning asks for, and at the mounts of this process."""
    home = os.path.realpath(os.environ.get("HOME") or "/")
    ours = [f"{path}/{os.path.basename(package_directory)}" for path in python.module_directories]
    paths = (*probed_paths(workspace, home, hidden), *ours)
    kinds = {path: kind for path in paths if (kind := _kind(path))}
    contents = {
        path: content
        for path in (f"/etc/{entry}" for entry in ETC_ENTRIES)
        if kinds.get(path) == "file" and (content := _small_content(path)) is not None
    }
    return HostFacts(
        kinds=kinds,
        contents=contents,
        mount_points=mount_points(),
        home=home,
        python=python,
        package_directory=package_directory,
        identity=identity,
        started_by_root=os.geteuid() == 0,
    )


def available_memory_bytes() -> int:
    """Return MemAvailable of /proc/meminfo, in bytes (proc(5), Linux 3.14)."""
    with open("/proc/meminfo", encoding="ascii") as file:
        for line in file:
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    return 1 << 30


def _kind(path: str) -> str:
    try:
        mode = os.lstat(path).st_mode
    except OSError:
        return ""
    if stat.S_ISLNK(mode):
        return f"link:{os.readlink(path)}"
    return "directory" if stat.S_ISDIR(mode) else "file"


def _small_content(path: str) -> bytes | None:
    """Return a file's content if it is small and anybody may read it; None where it must be mounted instead."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return None
    try:
        status = os.fstat(file)
        if not stat.S_ISREG(status.st_mode) or not status.st_mode & 0o004 or status.st_size > _COPIED_BYTES:
            return None
        content = os.read(file, _COPIED_BYTES + 1)
    except OSError:
        return None
    finally:
        os.close(file)
    return content if len(content) <= _COPIED_BYTES else None


def mount_points() -> tuple[str, ...]:
    """Return where file systems are mounted, as this process sees it (proc(5), /proc/PID/mountinfo)."""
    with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as file:
        points = [line.split(" ")[4] for line in file]
    return tuple(
        dict.fromkeys(
            point.replace("\\040", " ").replace("\\011", "\t").replace("\\012", "\n").replace("\\134", "\\")
            for point in points
        )
    )
