"""Tries of what the landlock rung is made of, each in a process of its own (probes.py runs them)."""

from __future__ import annotations

import errno
import os
import signal
import socket

from sentinel_kernel.abi.landlock import SCOPES_FROM, AccessFs, AccessNet, Scope
from sentinel_kernel.errors import UnsupportedHost
from sentinel_kernel.linux import landlock, process
from sentinel_kernel.linux.memory import read_memory
from sentinel_kernel.policy.rung import LEAST_ABI

_KEPT = b"sentinel"
_BYTES = 16
"""Of the object, which lies where id() says."""


def landlock_rung() -> str:
    """Fence a process as that rung does, and try signals, the network and files from inside."""
    version = landlock.abi_version()
    if version < LEAST_ABI:
        raise UnsupportedHost(f"version {version}, and {LEAST_ABI} is needed: it knows no network")
    outside, scoped = os.getppid(), version >= SCOPES_FROM
    listening = socket.create_server(("127.0.0.1", 0))
    process.set_no_new_privileges()
    landlock.restrict_self(
        version,
        landlock.supported_access(version),
        Scope.SIGNAL | Scope.ABSTRACT_UNIX_SOCKET if scoped else Scope(0),
        [("/proc", AccessFs.READ_DIR)],
        AccessNet.BIND_TCP | AccessNet.CONNECT_TCP,
    )
    if scoped:
        _must_fail("a signal to a process outside", lambda: os.kill(outside, 0))
    _must_fail("a connection", lambda: socket.create_connection(listening.getsockname()))
    _must_fail("reading a file", lambda: os.close(os.open("/etc/passwd", os.O_RDONLY)))
    refused = "a signal, a connection" if scoped else "a connection"
    by_us = "" if scoped else "; signals are made from outside"
    return f"version {version}; {refused} and a file outside were refused{by_us}"


def _must_fail(what: str, attempt: object) -> None:
    try:
        attempt()  # type: ignore[operator]
    except PermissionError:
        return
    raise OSError(errno.EIO, f"{what} was not refused")


def memory() -> str:
    """Read the memory of a child, as arguments of held calls are read."""
    ready, done = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(done, b"x")
        signal.pause()
    os.read(ready, 1)
    try:
        if len(read_memory(child, id(_KEPT), _BYTES)) != _BYTES:
            raise OSError(errno.EIO, "less was read than there is")
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    return "a child's memory was read"
