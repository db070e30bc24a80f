"""Tries to reach what lies outside: ``reach_out.py REPORT FACTS`` writes what came of each attempt, as JSON.

"done" is what succeeded, a name is the error's. It changes nothing that is not its own where it succeeds, but for files
below the folder that FACTS names.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import json
import os
import resource
import signal
import socket
import struct
import sys

LIBC = ctypes.CDLL(None, use_errno=True)
X86 = os.uname().machine == "x86_64"


def call(name: str, *arguments: object) -> int:
    result: int = getattr(LIBC, name)(*arguments)
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


def raw(x86: int, other: int, *arguments: object) -> int:
    wide = [ctypes.c_long(one) if isinstance(one, int) else one for one in arguments]
    return call("syscall", ctypes.c_long(x86 if X86 else other), *wide)


class Vector(ctypes.Structure):
    _fields_ = (("base", ctypes.c_void_p), ("length", ctypes.c_size_t))


def read_memory(pid: int, address: int) -> None:
    buffer = ctypes.create_string_buffer(8)
    local, remote = Vector(ctypes.addressof(buffer), 8), Vector(address, 8)
    raw(310, 270, pid, ctypes.byref(local), 1, ctypes.byref(remote), 1, 0)


def read(path: str) -> None:
    with open(path, "rb") as file:
        file.read(1)


def write(path: str, mode: str = "ab") -> None:
    with open(path, mode):
        pass


def connect(family: int, kind: int, address: object) -> None:
    with socket.socket(family, kind) as sock:
        sock.connect(address)  # type: ignore[arg-type]


def send(address: str) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        sock.sendto(b"x", address)


def send_from_pair(address: str) -> None:
    one, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    with one, other:
        one.sendto(b"x", address)


def listen_abstract() -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
        sock.bind(f"\0sentinel-{os.getpid()}")
        sock.listen()


def send_signal(pid: int) -> None:
    descriptor = os.pidfd_open(pid)
    try:
        signal.pidfd_send_signal(descriptor, signal.SIGCONT)
    finally:
        os.close(descriptor)


def own_signal(pid: int, folder: str) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.fcntl(descriptor, 1024 + 2, 0)  # F_NOTIFY
        fcntl.fcntl(descriptor, fcntl.F_SETOWN, pid)
    finally:
        os.close(descriptor)


def flags(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        old = fcntl.ioctl(descriptor, 0x80086601, struct.pack("l", 0))  # FS_IOC_GETFLAGS
        fcntl.ioctl(descriptor, 0x40086602, old)
    finally:
        os.close(descriptor)


def change_mode_open(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fchmod(descriptor, 0o640)
    finally:
        os.close(descriptor)


def watch(path: str) -> None:
    descriptor = call("inotify_init")
    try:
        call("inotify_add_watch", descriptor, path.encode(), 2)
    finally:
        os.close(descriptor)


def segment(key: int) -> None:
    number = call("shmget", key, 0, 0)
    LIBC.shmat.restype = ctypes.c_void_p
    if LIBC.shmat(number, None, 0o10000) in (None, 2**64 - 1):
        raise OSError(ctypes.get_errno(), "shmat")


def limits(pid: int) -> None:
    resource.prlimit(pid, resource.RLIMIT_CORE, resource.prlimit(pid, resource.RLIMIT_CORE))


def attempts(facts: dict[str, object]) -> dict[str, object]:
    pid, folder, address = int(str(facts["pid"])), str(facts["folder"]), int(str(facts["address"]))
    secret, shown, listens = f"{folder}/secret", str(facts["shown"]), str(facts["listens"])
    return {
        "read a file": lambda: read(secret),
        "read a file of the machine": lambda: read("/etc/passwd"),
        "list a folder": lambda: os.listdir(folder),
        "list the processes": lambda: os.listdir("/proc"),
        "write a file": lambda: write(secret),
        "make a file in /tmp": lambda: (
            write(f"/tmp/sentinel-reach-{pid}"),
            os.unlink(f"/tmp/sentinel-reach-{pid}"),
        ),
        "write a shown file": lambda: write(shown),
        "make a file beside": lambda: (write(f"{shown}.new"), os.unlink(f"{shown}.new")),
        "cut a file": lambda: os.truncate(secret, 6),
        "cut a shown file": lambda: os.truncate(shown, os.stat(shown).st_size),
        "rename": lambda: (os.rename(secret, f"{secret}2"), os.rename(f"{secret}2", secret)),
        "rename a shown file": lambda: (os.rename(shown, f"{shown}2"), os.rename(f"{shown}2", shown)),
        "link": lambda: (os.link(secret, f"{secret}3"), os.unlink(f"{secret}3")),
        "link a shown file": lambda: (os.link(shown, f"{shown}3"), os.unlink(f"{shown}3")),
        "symlink": lambda: (os.symlink("x", f"{shown}4"), os.unlink(f"{shown}4")),
        "mode": lambda: os.chmod(secret, 0o640),
        "mode of a shown file": lambda: os.chmod(shown, 0o640),
        "mode of an open file": lambda: change_mode_open(shown),
        "times": lambda: os.utime(secret),
        "times of a shown file": lambda: os.utime(shown),
        "owner of a shown file": lambda: os.chown(shown, -1, os.getgid()),
        "attribute": lambda: os.setxattr(shown, "user.sentinel", b"x"),
        "watch a folder": lambda: watch(folder),
        "signal": lambda: os.kill(pid, signal.SIGCONT),
        "signal a thread": lambda: raw(234, 131, pid, pid, signal.SIGCONT),
        "signal by pidfd": lambda: send_signal(pid),
        "owner of a file's signal": lambda: own_signal(pid, os.path.dirname(shown)),
        "limits of a process": lambda: limits(pid),
        "processors of a process": lambda: os.sched_setaffinity(pid, os.sched_getaffinity(pid)),
        "priority of a process": lambda: os.setpriority(os.PRIO_PROCESS, pid, 5),
        "scheduling of a process": lambda: os.sched_setscheduler(pid, os.SCHED_BATCH, os.sched_param(0)),
        "memory by call": lambda: read_memory(pid, address),
        "memory by file": lambda: read_at(pid, address),
        "environment": lambda: read(f"/proc/{pid}/environ"),
        "command line": lambda: read(f"/proc/{pid}/cmdline"),
        "folder of a process": lambda: os.readlink(f"/proc/{pid}/cwd"),
        "open files of a process": lambda: os.listdir(f"/proc/{pid}/fd"),
        "connect to a path": lambda: connect(socket.AF_UNIX, socket.SOCK_STREAM, listens),
        "connect to an abstract name": lambda: connect(
            socket.AF_UNIX, socket.SOCK_STREAM, f"\0{facts['name']}"
        ),
        "send to a path": lambda: send(f"{listens}.datagrams"),
        "send from a pair": lambda: send_from_pair(f"{listens}.datagrams"),
        "listen under an abstract name": listen_abstract,
        "connect": lambda: connect(
            socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", int(str(facts["port"])))
        ),
        "a datagram": lambda: connect(socket.AF_INET, socket.SOCK_DGRAM, ("127.0.0.1", 9)),
        "shared memory": lambda: segment(int(str(facts["key"]))),
    }


def read_at(pid: int, address: int) -> None:
    descriptor = os.open(f"/proc/{pid}/mem", os.O_RDONLY)
    try:
        os.pread(descriptor, 8, address)
    finally:
        os.close(descriptor)


def leave_behind() -> None:
    """Start what leaves its parent, its session and its group, and outlives all of them."""
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
                signal.signal(number, signal.SIG_IGN)
            os.execv("/bin/sleep", ["sentinel-left-behind", "600"])
        os._exit(0)
    os.wait()


def main() -> None:
    report, facts = (
        sys.argv[1].replace("$OUTPUT", os.environ.get("SENTINEL_OUTPUT", "")),
        json.loads(sys.argv[2]),
    )
    outcomes = {}
    for name, attempt in attempts(facts).items():
        try:
            attempt()  # type: ignore[operator]
            outcomes[name] = "done"
        except OSError as error:
            outcomes[name] = errno.errorcode.get(error.errno or 0, str(error))
    if facts.get("leaves"):
        leave_behind()
    outcomes["uid"] = str(os.getuid())
    with open(report, "w", encoding="ascii") as file:
        json.dump(outcomes, file)


if __name__ == "__main__":
    main()
