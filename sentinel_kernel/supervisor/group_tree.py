"""The part of the control group tree that is ours to divide: found, made ready, swept of what was left in it."""

from __future__ import annotations

import contextlib
import os
import time

from sentinel_kernel.errors import UnsupportedHost
from sentinel_kernel.linux.cgroup import Group

TYPE_CHECKING = False
if TYPE_CHECKING:
    from sentinel_kernel.linux.cgroup import Place

NEEDED = ("memory", "pids")
"""Without these a group would hold less than the fallback does."""

WELCOME = ("cpu", "io")
_PREFIX = "sentinel-"
_REMOVE_SECONDS = 2.0
_RETRY_SECONDS = 0.005
_SYSTEMD = "/run/systemd/system"
_USER_MANAGER = "user@"


class Tree:
    """A group whose children are ours: a leaf for each sandbox, and where need be one for the supervisor itself."""

    def __init__(self, group: Group, *, given: bool = False) -> None:
        """Make ``group`` ready: its controllers are given to its children, and this process is not in it.

        ``given``: it was made for this supervisor alone.

        Raises:
            OSError: that is refused; nothing was changed.

        """
        self._group = group
        self._home: Group | None = None
        self._count = 0
        self._is_given = given
        self.path = group.path
        self._sweep()
        try:
            if not _gives(group):
                if group.processes():
                    self._move_in()
                group.write("cgroup.subtree_control", " ".join(f"+{name}" for name in NEEDED))
            for name in WELCOME:
                with contextlib.suppress(OSError):  # not given to this part of the tree: named to the user
                    group.write("cgroup.subtree_control", f"+{name}")
        except OSError:
            self._move_out()
            raise
        shared = group.read("cgroup.subtree_control").split()
        self.controllers = tuple(name for name in (*NEEDED, *WELCOME) if name in shared)

    def make_leaf(self) -> Group:
        """Make an empty group for one sandbox, locked: the lock says that its supervisor lives.

        Raises:
            OSError: it can't be made.

        """
        self._count += 1
        return _make(f"{self.path}/{_PREFIX}{os.getpid()}-{self._count}")

    def weigh(self, leaf: Group, nice: int) -> None:
        """Have ``leaf`` weigh as much as a process of this nice value; the whole group, where others are beside that.

        Raises OSError.
        """
        (self._group if self._is_given else leaf).write("cpu.weight.nice", str(nice))

    def _move_in(self) -> None:
        """Move this process into a leaf of its own: a group with children can't hold processes (cgroups(7))."""
        self._home = _make(f"{self.path}/{_PREFIX}supervisor-{os.getpid()}")
        self._home.write("cgroup.procs", "0")

    def _move_out(self) -> None:
        home, self._home = self._home, None
        if home is None:
            return
        with contextlib.suppress(OSError):
            others = [name for name in _children(self.path) if f"{self.path}/{name}" != home.path]
            if not others:
                given = self._group.read("cgroup.subtree_control").split()
                self._group.write("cgroup.subtree_control", " ".join(f"-{name}" for name in given))
                self._group.write("cgroup.procs", "0")
                os.rmdir(home.path)
        home.close()

    def _sweep(self) -> None:
        """Remove the leaves of supervisors that were killed: nobody holds their locks any more."""
        for name in _children(self.path):
            if name.startswith(_PREFIX):
                with contextlib.suppress(OSError):
                    leaf = Group(f"{self.path}/{name}")
                    if leaf.lock():
                        remove(leaf)
                    leaf.close()

    def close(self) -> None:
        """Put back what was changed, unless somebody else uses it by now."""
        self._move_out()
        self._group.close()


def find_tree(place: Place, *, given: bool = False) -> Tree:
    """Return the nearest group at or above ``place`` that may be divided, made ready.

    ``given``: systemd has just given this group to us.

    Raises:
        UnsupportedHost: there is none; the message says why the nearest one is none.

    """
    reason = ""
    path = place.path
    while path == place.mount or path.startswith(f"{place.mount}/"):
        try:
            group = Group(path)
        except OSError as error:
            raise UnsupportedHost(reason or f"{path}: {error.strerror}.") from None
        try:
            why = _obstacle(group, given=given)
            if not why:
                return Tree(group, given=given)
        except OSError as error:
            why = f"{path}: {error.strerror}."
        group.close()
        reason = reason or why
        path = os.path.dirname(path)
    raise UnsupportedHost(reason)


def remove(leaf: Group) -> bool:
    """Kill what is left in ``leaf``, which is locked or otherwise known to be ours, and remove it; False if it stays.

    What stays (a process that hangs in the Linux kernel) goes at the next sweep.
    """
    deadline = time.monotonic() + _REMOVE_SECONDS
    while True:
        try:
            os.rmdir(leaf.path)
        except FileNotFoundError:
            return True
        except OSError:
            if time.monotonic() >= deadline:
                return False
            with contextlib.suppress(OSError):
                leaf.write(
                    "cgroup.kill", "1"
                )  # Linux 5.14; before that the sandbox's pid 1 has taken all with it
            time.sleep(_RETRY_SECONDS)  # a dead process leaves its group a moment later
        else:
            return True


def _obstacle(group: Group, *, given: bool) -> str:
    """Return why a group can't be ours to divide; empty where it can."""
    names = (".", "cgroup.procs", "cgroup.subtree_control")
    if not all(os.access(name, os.W_OK, dir_fd=group.descriptor, effective_ids=True) for name in names):
        return f"{group.path} is not delegated to this user."
    available = group.read("cgroup.controllers").split()
    if missing := [name for name in NEEDED if name not in available]:
        return f"{group.path} lacks the controllers {', '.join(missing)}."
    if not given and os.path.isdir(_SYSTEMD) and not _is_given_away(group):
        return f"{group.path} is systemd's to divide."
    return "" if _gives(group) else _closed(group)


def _closed(group: Group) -> str:
    """Return why a group can't be made to give its controllers to its children; empty where it can."""
    if not group.has("cgroup.type"):
        return f"{group.path} is the root of all groups and gives its children no controllers."
    inside = group.processes()
    if inside not in ([], [os.getpid()]):
        return f"{group.path} holds {len(inside)} processes: it is not this kernel's alone."
    return ""


def _is_given_away(group: Group) -> bool:
    """Tell whether systemd leaves the inside of this group to whoever is in it.

    All below a user manager is writable for its user; dividing it is that manager's part nevertheless.
    """
    return group.is_marked() and not os.path.basename(group.path).startswith(_USER_MANAGER)


def _gives(group: Group) -> bool:
    given = group.read("cgroup.subtree_control").split()
    return all(name in given for name in NEEDED)


def _children(path: str) -> list[str]:
    with os.scandir(path) as entries:
        return [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]


def _make(path: str) -> Group:
    """Make a group and lock it; one that a sweep took away in between is made again."""
    while True:
        with contextlib.suppress(FileExistsError):  # of a process whose number is ours now
            os.mkdir(path, 0o755)
        with contextlib.suppress(FileNotFoundError):
            group = Group(path)
            if group.lock() and os.path.exists(path):
                return group
            group.close()
