"""The proxy's process: forked from the supervisor when a program first connects, bounded, ended with the sandbox."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import resource
import signal
import socket

from sentinel_kernel.linux.process import close_descriptors, die_with_parent, set_dumpable
from sentinel_kernel.proxy.exchange import Exchange
from sentinel_kernel.proxy.secret_values import SecretValues
from sentinel_kernel.proxy.way_out import BUFFER_BYTES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from sentinel_kernel.policy.http_rules import HttpPolicy

MOST_CONNECTIONS = 128
"""So many are served at a time; more wait in the listening socket."""

_DATA_BYTES = 256 << 20
_FILES = 4 * MOST_CONNECTIONS + 64
_LISTENING, _CONTROL = 3, 4
_ENCODE = json.JSONEncoder(separators=(",", ":"), ensure_ascii=True).encode


def be_proxy(listening: socket.socket, control: socket.socket, policy: HttpPolicy, host_pid: int) -> None:
    """Serve ``listening`` in the forked process until ``control`` ends; never returns.

    ``control`` (SEQPACKET) gets one JSON object for each request that is over. ``host_pid`` is the host kernel, whose
    environment holds the secrets.
    """
    status = 1
    try:
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)
        die_with_parent()
        set_dumpable(dumpable=False)  # it holds secrets
        listening, control = _alone(listening, control)
        resource.setrlimit(resource.RLIMIT_DATA, (_DATA_BYTES, _DATA_BYTES))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        files = min(_FILES, resource.getrlimit(resource.RLIMIT_NOFILE)[1])
        resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))
        logging.disable(logging.CRITICAL)  # asyncio's log would go where the supervisor's does
        asyncio.run(_serve(listening, control, policy, SecretValues(host_pid)))
        status = 0
    finally:
        os._exit(status)  # a thread may hang in a name server or a keyring, and nothing may return


def _alone(listening: socket.socket, control: socket.socket) -> tuple[socket.socket, socket.socket]:
    """Keep these two and no other descriptor of the supervisor's."""
    null = os.open(os.devnull, os.O_RDWR)
    moved = [os.dup(one.fileno()) for one in (listening, control)]
    while min(moved) <= _CONTROL:
        moved = [os.dup(one) for one in moved]
    os.dup2(moved[0], _LISTENING, inheritable=False)
    os.dup2(moved[1], _CONTROL, inheritable=False)
    for descriptor in (0, 1, 2):
        os.dup2(null, descriptor, inheritable=False)
    close_descriptors(_CONTROL + 1, (1 << 31) - 1)
    listening.detach()
    control.detach()
    return socket.socket(fileno=_LISTENING), socket.socket(fileno=_CONTROL)


async def _serve(
    listening: socket.socket, control: socket.socket, policy: HttpPolicy, secrets: SecretValues
) -> None:
    loop = asyncio.get_running_loop()
    listening.setblocking(False)
    control.setblocking(False)
    ended = asyncio.Event()
    loop.add_reader(control, ended.set)  # nothing is ever said there: it is the end
    reporter = _Reporter(control)
    places = asyncio.Semaphore(MOST_CONNECTIONS)
    tasks: set[asyncio.Task[None]] = set()

    async def exchange(connection: socket.socket) -> None:
        try:
            ends = await asyncio.open_connection(sock=connection, limit=BUFFER_BYTES)
            await Exchange(ends, policy, secrets, reporter.report).run()
        except OSError:
            connection.close()  # gone before it was looked at
        finally:
            places.release()

    async def accept() -> None:
        while True:
            await places.acquire()
            try:
                connection, _ = await loop.sock_accept(listening)
            except OSError:
                places.release()
                await asyncio.sleep(0.05)  # no descriptor is to be had, or the client went at once
                continue
            task = loop.create_task(exchange(connection))
            tasks.add(task)
            task.add_done_callback(tasks.discard)

    accepting = loop.create_task(accept())
    await ended.wait()
    accepting.cancel()


class _Reporter:
    """Tells the supervisor of each request; what it does not take at once is counted, not kept."""

    def __init__(self, control: socket.socket) -> None:
        self._control = control
        self._missed = 0

    def report(self, fields: dict[str, Any]) -> None:
        packet = _ENCODE({**fields, "missed": self._missed}).encode("ascii")
        with contextlib.suppress(OSError):
            try:
                self._control.send(packet)
                self._missed = 0
            except BlockingIOError:
                self._missed += 1
