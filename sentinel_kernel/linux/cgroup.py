"""Control groups, version 2 (cgroups(7)): where this process is, and thin typed calls on the files of one group."""

from __future__ import annotations

import os

from sentinel_kernel.linux.locks import try_lock_whole
from sentinel_kernel.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

_READ_BYTES = 1 << 16
_DELEGATION_MARKS = ("user.delegate", "trusted.delegate")


class Place(Record):
    """Where this process is in the tree of version 2."""

    mount: str
    """Where the tree is mounted."""
    path: str
    """The folder of this process's group."""
    legacy: tuple[str, ...]
    """The controllers that are mounted as version 1, each a tree of its own."""


def own_place() -> Place:
    """Return where this process is.

    Raises:
        FileNotFoundError: no tree of version 2 is mounted, or this process's group is not in the mounted part.

    """
    own = ""
    legacy = []
    with open("/proc/self/cgroup", encoding="utf-8", errors="surrogateescape") as file:
        for line in file:
            number, controllers, path = line.rstrip("\n").split(":", 2)
            if number == "0":
                own = path
            elif not controllers.startswith("name="):
                legacy += controllers.split(",")
    with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as file:
        for line in file:
            if " - cgroup2 " in line:
                root, mount = line.split(" ", 5)[3:5]
                if own and (own == root or own.startswith(root.rstrip("/") + "/")):
                    below = own[len(root.rstrip("/")) :].strip("/")
                    return Place(mount, os.path.join(mount, below) if below else mount, tuple(legacy))
    raise FileNotFoundError(2, "no control groups of version 2 are mounted here", ",".join(legacy))


class Group:
    """One group, held by a descriptor of its folder."""

    def __init__(self, path: str) -> None:
        """Open the group at ``path``. Raises OSError."""
        self.path = path
        self.descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self._files: dict[str, int] = {}

    def has(self, name: str) -> bool:
        """Tell whether the group has the file ``name``: it depends on its controllers and on the Linux kernel."""
        return os.access(name, os.F_OK, dir_fd=self.descriptor)

    def read(self, name: str) -> str:
        """Return the text of the file ``name``, which is kept open for the next time. Raises OSError."""
        file = self._files.get(name)
        if file is None:
            file = self._files[name] = os.open(name, os.O_RDONLY | os.O_CLOEXEC, dir_fd=self.descriptor)
        return os.pread(file, _READ_BYTES, 0).decode("ascii", "replace")

    def counts(self, name: str) -> Mapping[str, int]:
        """Return the numbers of a file of lines ``NAME NUMBER``. Raises OSError."""
        words = self.read(name).split()
        return dict(zip(words[::2], map(int, words[1::2]), strict=True))

    def write(self, name: str, text: str) -> None:
        """Write ``text`` to the file ``name``. Raises OSError."""
        file = os.open(name, os.O_WRONLY | os.O_CLOEXEC, dir_fd=self.descriptor)
        try:
            os.write(file, text.encode())
        finally:
            os.close(file)

    def open_events(self, name: str) -> int:
        """Return a descriptor of the file ``name``, for poll(2): POLLPRI when it changes. Raises OSError."""
        return os.open(name, os.O_RDONLY | os.O_CLOEXEC, dir_fd=self.descriptor)

    def processes(self) -> list[int]:
        """Return the processes in the group itself; 0 is one of a process namespace that can't be seen from here."""
        return [int(number) for number in self.read("cgroup.procs").split()]

    def is_marked(self) -> bool:
        """Tell whether systemd marks the group as given away (systemd.resource-control(5), Delegate=)."""
        for name in _DELEGATION_MARKS:
            try:
                if os.getxattr(f"/proc/self/fd/{self.descriptor}", name) == b"1":
                    return True
            except OSError:
                continue  # not marked, or not ours to see
        return False

    def lock(self) -> bool:
        """Mark the group as in use for as long as the descriptor is open; False where somebody else has done so."""
        return try_lock_whole(self.descriptor)

    def close(self) -> None:
        """Close the descriptors; the group stays."""
        for file in self._files.values():
            os.close(file)
        self._files = {}
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1
