"""Autogroups (sched(7), "The autogroup feature"): the nice value that the processes of a session have as one.

Unlike a process's own (setpriority(2)) it can be set back without privileges. A session is born with 0.
"""

from __future__ import annotations

import os

from sentinel_kernel.linux.cgroup import own_place

_SWITCH = "/proc/sys/kernel/sched_autogroup_enabled"
_LINE_BYTES = 64


def group_of(process: int | str) -> tuple[str, int] | None:
    """Return name and nice value of the autogroup of a process: a descriptor of its folder in /proc, or "self".

    None where it is in none. Raises OSError: ENOENT, the Linux kernel has none; ESRCH, the process has ended.
    """
    file = _open(process, os.O_RDONLY)
    try:
        words = os.read(file, _LINE_BYTES).decode("ascii").split()  # as in: /autogroup-123 nice 0
    finally:
        os.close(file)
    return (words[0], int(words[2])) if len(words) > 2 else None


def set_nice(process: int | str, nice: int) -> None:
    """Set the nice value of the autogroup of a process, told as above.

    Raises:
        OSError: EAGAIN, without CAP_SYS_ADMIN it can be set ten times a second on the whole machine; EACCES, the
            process is not dumpable; and as above.

    """
    file = _open(process, os.O_WRONLY)
    try:
        os.write(file, str(nice).encode())
    finally:
        os.close(file)


def _open(process: int | str, flags: int) -> int:
    if isinstance(process, str):
        return os.open(f"/proc/{process}/autogroup", flags | os.O_CLOEXEC)
    return os.open("autogroup", flags | os.O_CLOEXEC, dir_fd=process)


def obstacle() -> str:
    """Return why sessions don't count: "absent" or "off", the Linux kernel's; "group", a control group does; or ""."""
    try:
        with open(_SWITCH, encoding="ascii") as file:
            if file.read().strip() != "1":
                return "off"
    except OSError:
        return "absent"
    return "group" if _is_in_group() else ""


def _is_in_group() -> bool:
    """Tell whether a control group that is not the root one shares out processors to this process."""
    with open("/proc/self/cgroup", encoding="utf-8", errors="surrogateescape") as file:
        for line in file:
            _, controllers, path = line.rstrip("\n").split(":", 2)
            if "cpu" in controllers.split(","):
                return path != "/"
    try:
        place = own_place()
    except OSError:
        return False
    folder = place.path
    while folder.startswith(place.mount):
        try:
            # The root group has no type; every other one has those controllers that its parent shares out.
            with open(os.path.join(folder, "cgroup.type"), encoding="ascii"):
                pass
            with open(os.path.join(folder, "cgroup.controllers"), encoding="ascii") as file:
                if "cpu" in file.read().split():
                    return True
        except OSError:
            pass
        folder = os.path.dirname(folder)
    return False
