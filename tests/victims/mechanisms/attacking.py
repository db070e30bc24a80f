"""What every mechanism of an escape is written with; runs in the sandbox and outside, on the standard library alone."""

import ctypes
import errno
import fcntl
import json
import os
import select
import signal
import sys

LIBC = ctypes.CDLL(None, use_errno=True)
LIBC.syscall.restype = ctypes.c_long
SECONDS = 20
FOUND = {}
"""Every mechanism by name: what it does, what it belongs to, what it gets inside, and outside."""

with open(sys.argv[2]) as _file:
    TARGETS = json.load(_file)
"""What the test has put up outside: canary files, sockets, a process, the numbers of system calls."""


def attack(category, inside, outside="ok", landlock=None):
    """Register a mechanism: the outcomes that it must have inside, without a sandbox, and on the landlock rung.

    An outcome is "ok" where the attack got what it was after, else the errno's name or what the function returned.
    Without a sandbox, None is for what is not done there, as it would harm the machine or the person's session; a
    tuple is (as root, as an ordinary user).
    """

    def register(function):
        FOUND[f"{category}: {function.__name__.replace('_', ' ')}"] = {
            "function": function,
            "category": category,
            "inside": inside,
            "outside": outside,
            "landlock": landlock or inside,
        }
        return function

    return register


def call(name, *arguments):
    """Make a system call by its number; raises OSError, where the machine has no such call with ENOSYS."""
    number = TARGETS["numbers"].get(name)
    if number is None:
        raise OSError(errno.ENOSYS, name)
    ctypes.set_errno(0)
    words = [ctypes.c_ulong(one & (1 << 64) - 1) if isinstance(one, int) else one for one in arguments]
    result = LIBC.syscall(ctypes.c_long(number), *words)
    if result < 0:
        raise OSError(ctypes.get_errno(), name)
    return result


def read(path, size=65536):
    """Return the beginning of a file."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        return os.read(descriptor, size)
    finally:
        os.close(descriptor)


def write(path, data=b"0", flags=os.O_WRONLY):
    """Write into a file that exists."""
    descriptor = os.open(path, flags)
    try:
        os.write(descriptor, data)
    finally:
        os.close(descriptor)


def gets_canary(path):
    """Tell whether the file holds what only the host should see."""
    return "ok" if TARGETS["canary"].encode() in read(path) else "another"


def outcome(function):
    """Return what became of a mechanism that runs in a child of its own."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        signal.alarm(SECONDS)
        try:
            said = function() or "ok"
        except OSError as error:
            said = errno.errorcode.get(error.errno, str(error))
        except BaseException as error:  # noqa: BLE001 - told by name
            said = f"{type(error).__name__}: {error}"
        os.write(writer, said.encode("utf-8", "replace")[:200])
        os._exit(0)
    os.close(writer)
    pidfd = os.pidfd_open(child)
    select.select([pidfd], [], [], SECONDS + 10)
    os.close(pidfd)
    fcntl.fcntl(reader, fcntl.F_SETFL, os.O_NONBLOCK)
    try:
        said = os.read(reader, 256).decode()
    except BlockingIOError:
        said = ""
    os.close(reader)
    done, status = os.waitpid(child, os.WNOHANG)
    if not done:
        os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
    return said or (f"signal {os.WTERMSIG(status)}" if os.WIFSIGNALED(status) else "no word")


def main():
    """Run every mechanism, or outside those that do no harm there, and write down what became of each."""
    where = sys.argv[3]
    result = {}
    for name, one in FOUND.items():
        kept = {key: value for key, value in one.items() if key != "function"}
        left_out = where == "outside" and one["outside"] is None
        result[name] = kept | {"got": None if left_out else outcome(one["function"])}
    with open(sys.argv[1] + ".part", "w") as file:
        json.dump(result, file)
    os.rename(sys.argv[1] + ".part", sys.argv[1])
