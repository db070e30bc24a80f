"""clone(2) into new namespaces, identity maps, and the root file system's change."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import select
import signal

from sentinel_kernel.abi.mount import MNT_DETACH
from sentinel_kernel.abi.sched import CloneArguments, CloneFlags
from sentinel_kernel.linux.libc import LIBC, NUMBERS, checked, system_call

_TRIES = 3
_DYING_MS = 500


def clone(flags: CloneFlags) -> tuple[int, int]:
    """Fork into new namespaces with a pidfd (clone(2), CLONE_PIDFD: Linux 5.2).

    Precondition: this process has one thread; another thread's locks would stay held in the child for ever.

    Returns:
        (0, -1) in the child; (process id, pidfd) in the parent. The pidfd is close-on-exec.

    Raises:
        OSError: the clone was refused.

    """
    pidfd = ctypes.c_int(-1)
    result: int = LIBC.syscall(
        ctypes.c_long(NUMBERS["clone"]),
        ctypes.c_long(int(flags | CloneFlags.PIDFD) | signal.SIGCHLD),
        ctypes.c_long(0),
        ctypes.byref(pidfd),
        ctypes.c_long(0),
        ctypes.c_long(0),
    )
    pid = checked(result, "clone")
    return (0, -1) if pid == 0 else (pid, pidfd.value)


def clone_into(flags: CloneFlags, group: int) -> tuple[int, int]:
    """As :func:`clone`, with the child in the control group ``group`` (clone3(2), CLONE_INTO_CGROUP: Linux 5.7).

    ``group`` is a descriptor of its folder. Moving a process there afterwards would wait for all processors of the
    machine (some ten milliseconds).
    """
    pidfd = ctypes.c_int(-1)
    arguments = CloneArguments(
        flags=int(flags | CloneFlags.PIDFD | CloneFlags.INTO_CGROUP),
        pidfd=ctypes.addressof(pidfd),
        exit_signal=signal.SIGCHLD,
        cgroup=group,
    )
    result: int = LIBC.syscall(
        ctypes.c_long(NUMBERS["clone3"]), ctypes.byref(arguments), ctypes.c_size_t(ctypes.sizeof(arguments))
    )
    pid = checked(result, "clone3")
    return (0, -1) if pid == 0 else (pid, pidfd.value)


def leave(namespaces: CloneFlags) -> None:
    """Move this process into new namespaces of these kinds (unshare(2)).

    Raises:
        OSError: it was refused.

    """
    system_call("unshare", int(namespaces))


def enter(target: int, namespaces: CloneFlags) -> None:
    """Move this process into another one's namespaces of these kinds; ``target`` is a pidfd (setns(2), Linux 5.8).

    Precondition: this process has one thread.

    Raises:
        OSError: it was refused, or the other process is gone (ESRCH).

    """
    system_call("setns", target, int(namespaces))


def write_identity_maps(pid: int, uid_map: str, gid_map: str) -> None:
    """Write setgroups=deny, then the two maps, of the user namespace of ``pid`` (user_namespaces(7)).

    Raises:
        OSError: a map was refused; ``filename`` names which.

    """
    directory = os.open(f"/proc/{pid}", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for name, text in (("setgroups", "deny"), ("uid_map", uid_map), ("gid_map", gid_map)):
            file = os.open(name, os.O_WRONLY | os.O_CLOEXEC, dir_fd=directory)
            try:
                os.write(file, text.encode())
            except OSError as error:
                raise OSError(error.errno, f"{name}: {os.strerror(error.errno or 0)}") from None
            finally:
                os.close(file)
    finally:
        os.close(directory)


def is_dying(pidfd: int) -> bool:
    """Tell whether the process has ended or is about to, as its files in /proc may be closed to us before that.

    One that was killed has given up its memory, and with it what says whose its files are, some time before its
    pidfd becomes readable (pidfd_open(2)).
    """
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    return bool(poll.poll(_DYING_MS))


def mapped_user_namespace(uid_map: str, gid_map: str) -> int:
    """Return a descriptor of a new user namespace that has these maps and no process.

    Used as the map of idmapped mounts (mount_setattr(2)). Needs privilege over the mapped ids.

    Raises:
        OSError: it was refused.

    """
    for _ in range(_TRIES):
        descriptor = _mapped_user_namespace(uid_map, gid_map)
        if descriptor is not None:
            return descriptor
    raise ProcessLookupError(errno.ESRCH, "the process that holds the namespace open was killed each time")


def _mapped_user_namespace(uid_map: str, gid_map: str) -> int | None:
    """As above; None where somebody killed the process that holds the namespace open."""
    ready, release = os.pipe2(os.O_CLOEXEC)
    pid, pidfd = clone(CloneFlags.NEWUSER)
    if pid == 0:
        os.close(release)
        with contextlib.suppress(OSError):
            os.read(ready, 1)
        os._exit(0)
    try:
        os.close(ready)
        write_identity_maps(pid, uid_map, gid_map)
        return os.open(f"/proc/{pid}/ns/user", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        if is_dying(pidfd):
            return None
        raise
    finally:
        os.close(release)
        os.waitpid(pid, 0)
        os.close(pidfd)


def pivot_root_here() -> None:
    """Make the current directory the root and detach the old one (pivot_root(2), NOTES on ``"."``)."""
    system_call("pivot_root", b".", b".")
    checked(LIBC.umount2(b".", MNT_DETACH), "umount2 of the old root")
    os.chdir("/")


def join_new_session_keyring() -> None:
    """Leave the inherited session keyring for a new anonymous one (keyctl(2))."""
    system_call("keyctl", 1, None, 0, 0, 0)
