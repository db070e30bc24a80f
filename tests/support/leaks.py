"""What a sandbox may leave behind: processes, mounts, descriptors, control groups, folders, reserved ids."""

from __future__ import annotations

import ctypes
import gc
import os
import tempfile
from dataclasses import dataclass, fields
from pathlib import Path

from waiting import wait_until

_PR_SET_CHILD_SUBREAPER = 36
# zmq and the interpreter make one of these on first use and keep it; the sandbox's own are sockets, pipes and
# pidfds.
_KEPT_DESCRIPTORS = ("anon_inode:[eventpoll]", "anon_inode:[eventfd]", "/dev/null", "/dev/urandom")


def adopt_orphans() -> None:
    """Make orphans below this process its children, lest one is lost from sight (PR_SET_CHILD_SUBREAPER)."""
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


@dataclass(frozen=True)
class Traces:
    """What exists now that a sandbox could have made, each as text a person can look up."""

    processes: frozenset[str]
    mounts: frozenset[str]
    descriptors: frozenset[str]
    control_groups: frozenset[str]
    folders: frozenset[str]

    def beyond(self, before: Traces) -> dict[str, list[str]]:
        """Return what is here and was not there ``before``, by kind; empty where nothing is."""
        news = {
            field.name: sorted(getattr(self, field.name) - getattr(before, field.name))
            for field in fields(self)
        }
        return {kind: names for kind, names in news.items() if names}


def traces() -> Traces:
    """Return the traces as they are now."""
    gc.collect()
    return Traces(_processes(), _mounts(), _descriptors(), _control_groups(), _folders())


def wait_clean(before: Traces, seconds: float = 15) -> None:
    """Return once nothing exists beyond ``before``; fail with what is left."""
    left: dict[str, list[str]] = {}

    def clean() -> bool:
        left.clear()
        left.update(traces().beyond(before))
        return not left

    try:
        wait_until(clean, "nothing is left behind", seconds)
    except AssertionError:
        raise AssertionError(f"left behind: {left}") from None


def descendants(pid: int | None = None) -> set[int]:
    """Return the ids of every living process below ``pid`` (default: this one)."""
    parents: dict[int, int] = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit() and (fields_ := _stat(int(entry))) is not None and fields_[0] != "Z":
            parents[int(entry)] = int(fields_[1])
    found: set[int] = set()
    new = {pid or os.getpid()}
    while new:
        new = {child for child, parent in parents.items() if parent in new} - found
        found |= new
    return found


def _processes() -> frozenset[str]:
    names = set()
    for pid in descendants():
        if (stat := _stat(pid)) is None:
            continue
        try:
            command = (
                Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")[:120]
            )
        except OSError:
            continue
        names.add(f"{pid} (started {stat[19]}) {command}")
    return frozenset(names)


def _stat(pid: int) -> list[str] | None:
    """Return the fields of /proc/pid/stat from the state on (proc(5)); None where the process is gone."""
    try:
        descriptor = os.open(
            f"/proc/{pid}/stat", os.O_RDONLY
        )  # every process's, twice a test: no file object each
    except OSError:
        return None
    try:
        return os.read(descriptor, 4096).decode(errors="replace").rpartition(")")[2].split()
    except OSError:
        return None
    finally:
        os.close(descriptor)


def _mounts() -> frozenset[str]:
    return frozenset(Path("/proc/self/mountinfo").read_text(errors="replace").splitlines())


def _descriptors() -> frozenset[str]:
    names = set()
    for entry in os.listdir("/proc/self/fd"):
        try:
            target = os.readlink(f"/proc/self/fd/{entry}")
        except OSError:
            continue
        if target not in _KEPT_DESCRIPTORS:
            names.add(f"{entry} -> {target}")
    return frozenset(names)


def _control_groups() -> frozenset[str]:
    return frozenset(path for path, _, _ in os.walk("/sys/fs/cgroup") if "sentinel" in path)


def _folders() -> frozenset[str]:
    """Return what lies in the supervisors' run folders, and folders for temporary files of ours.

    The run folders' own parent stays: it is made once a login.
    """
    places = {tempfile.gettempdir(), os.environ.get("XDG_RUNTIME_DIR", ""), "/run", "/dev/shm"} - {""}
    found = set()
    for place in filter(os.path.isdir, places):
        for name in os.listdir(place):
            path = os.path.join(place, name)
            if name.startswith("sentinel-kernel") and os.path.isdir(path):
                found.update(os.path.join(path, entry) for entry in os.listdir(path) if entry != "ids")
            elif "sentinel" in name and not name.startswith(("sentinel-tests-", "sentinel-bench-")):
                found.add(path)
    return frozenset(found)
