"""Makes each system call of a JSON list in a child of its own and writes down what became of it.

CALLS RESULT: CALLS is a file with [[key, number, [six arguments]], ...]; RESULT gets {key: outcome}, where an outcome
is "0" for success, the errno, "signal N", "exited" (the call ended the child) or "blocked" (still in it after a while).
"""

import ctypes
import json
import os
import select
import signal
import sys

BLOCKED_SECONDS = 0.4


def child(number, arguments, writer):
    """Make one call and report its errno."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    libc = ctypes.CDLL(None, use_errno=True)
    libc.syscall.restype = ctypes.c_long
    own = os.getpid()
    words = [ctypes.c_ulong(argument) for argument in arguments]
    ctypes.set_errno(0)
    result = libc.syscall(ctypes.c_long(number), *words)
    code = ctypes.get_errno() if result == -1 else 0
    if os.getpid() != own:
        os._exit(0)  # fork, vfork and clone come back twice
    os.write(writer, str(code).encode())
    os._exit(0)


def drive(number, arguments):
    """Return what became of one call."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.setpgid(0, 0)
        os.close(reader)
        child(number, arguments, writer)
    os.close(writer)
    pidfd = os.pidfd_open(pid)
    ready, _, _ = select.select([pidfd], [], [], BLOCKED_SECONDS)
    if not ready:
        # Whatever it is in now, its answer may have come: a call like setsid succeeds and goes on.
        os.kill(pid, signal.SIGKILL)
    os.close(pidfd)
    _, status = os.waitpid(pid, 0)
    # Children that the call made may hold the pipe open.
    os.set_blocking(reader, False)
    try:
        said = os.read(reader, 16).decode()
    except BlockingIOError:
        said = ""
    os.close(reader)
    if said:
        return said
    if not ready:
        return "blocked"
    if os.WIFSIGNALED(status):
        return f"signal {os.WTERMSIG(status)}"
    return "exited"


def main():
    """Drive all calls."""
    with open(sys.argv[1]) as file:
        calls = json.load(file)
    outcomes = {}
    for key, number, arguments in calls:
        outcomes[key] = drive(number, arguments)
        with open(sys.argv[2] + ".part", "w") as file:
            json.dump(outcomes, file)
        os.replace(sys.argv[2] + ".part", sys.argv[2])


main()
