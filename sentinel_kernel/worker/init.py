"""Pid 1 of the sandbox: imports once, forks workers from that warm interpreter, and reaps every orphan.

Processes and messages, in order: the supervisor executes init; init says ``warm``; the supervisor sends ``fork``
with the worker's listening sockets; the forked child says ``hello`` (the Linux kernel vouches for its process id)
and lets go of the control socket before any cell runs; init says ``exit`` when that child ends. ``kill_all`` ends
everything else inside, answered by ``killed_all``. Init itself never runs a cell's code.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import select
import signal
import socket
import sys
from typing import TYPE_CHECKING, Any

from sentinel_kernel.worker import packets
from sentinel_kernel.worker.prctl import die_with_parent, lay_out_as_usual, set_dumpable

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

# The folder that this package was found in.
_LIBRARY = os.path.dirname(os.path.dirname(os.path.dirname(__file__)))


def main(descriptor: int) -> None:
    """Serve the supervisor on the control socket ``descriptor``; returns in a forked worker when its kernel ends."""
    set_dumpable(dumpable=False)  # execve(2) has set it; nothing hostile runs yet
    lay_out_as_usual()
    gc.disable()  # nothing that is imported here is garbage; a worker collects again
    control = socket.socket(fileno=descriptor)
    control.set_inheritable(False)
    from sentinel_kernel.worker import warm  # noqa: PLC0415 - heavy; after dumpable

    warm.import_all()
    from sentinel_kernel.worker.start import run_worker  # noqa: PLC0415 - needs what is warm

    # A cell should not find this folder, nor import from it.
    sys.path[:] = [entry for entry in sys.path if entry != _LIBRARY]
    _Init(control, run_worker).serve()


class _Init:
    """The loop of pid 1."""

    def __init__(
        self, control: socket.socket, run_worker: Callable[[dict[str, Any], Sequence[int]], None]
    ) -> None:
        self._control = control
        self._run_worker = run_worker
        self._worker = -1
        self._preloaded = False
        self._wake_reader, self._wake_writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)

    def serve(self) -> None:
        """Serve until the supervisor is gone; then everything inside dies with this process."""
        # A handler must exist for the wake-up descriptor to be written; SIGINT and SIGTERM stay at their default,
        # which the Linux kernel ignores for pid 1.
        signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        signal.set_wakeup_fd(self._wake_writer, warn_on_full_buffer=False)
        _collect_for_good()
        _check_one_thread("the interpreter")
        packets.send(self._control, "warm")
        poll = select.poll()
        poll.register(self._control, select.POLLIN)
        poll.register(self._wake_reader, select.POLLIN)
        while True:
            for ready, _ in poll.poll():
                if ready == self._wake_reader:
                    self._reap()
                elif not self._serve_one():
                    return

    def _serve_one(self) -> bool:
        """Serve one request; False in the forked worker, whose kernel has ended."""
        received = packets.receive(self._control)
        if received is None:
            os._exit(0)
        request, descriptors = received
        if request["op"] == "fork":
            return self._fork(request, descriptors)
        # As any other number than 1 it would kill all of the user's processes.
        if request["op"] == "kill_all" and os.getpid() == 1:
            with contextlib.suppress(ProcessLookupError):
                os.kill(-1, signal.SIGKILL)
            while self._wait(0) > 0:
                pass
            packets.send(self._control, "killed_all")
        return True

    def _fork(self, request: dict[str, Any], descriptors: list[int]) -> bool:
        self._preload(request["preload"])
        _check_one_thread("init")
        own = os.getpid()
        pid = os.fork()
        if pid > 0:
            self._worker = pid
            for descriptor in descriptors:
                os.close(descriptor)
            return True
        if own != 1:  # else the process namespace ends with it
            die_with_parent()
            if os.getppid() != own:
                os._exit(0)
        gc.enable()
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        os.close(self._wake_reader)
        os.close(self._wake_writer)
        # An interrupt goes to the worker and the children that it starts, not to init. Jupyter's launcher, too, gives
        # ipykernel a session of its own.
        os.setsid()
        set_dumpable(dumpable=True)  # else psutil and debuggers fail on the worker's own children
        packets.send(self._control, "hello")
        self._control.close()
        self._run_worker(request, descriptors)
        return False

    def _preload(self, names: list[str]) -> None:
        """Import the profile's modules before the first fork; a module that starts threads can't be forked."""
        if self._preloaded:
            return
        self._preloaded = True
        for name in names:
            importlib.import_module(name)
            _check_one_thread(f"the preloaded module {name}")
        if names:
            _collect_for_good()

    def _reap(self) -> None:
        with contextlib.suppress(BlockingIOError):
            os.read(self._wake_reader, 4096)
        while self._wait(os.WNOHANG) > 0:
            pass

    def _wait(self, options: int) -> int:
        """Reap one child; return its pid, or 0 where there is none to reap."""
        try:
            pid, status = os.waitpid(-1, options)
        except ChildProcessError:
            return 0
        if pid > 0 and pid == self._worker:
            self._worker = -1
            packets.send(self._control, "exit", pid=pid, status=status, worker=True)
        return pid


def _collect_for_good() -> None:
    """Take what is imported out of the collector's sight: a worker that never touches it shares its memory."""
    gc.freeze()


def _check_one_thread(culprit: str) -> None:
    """Refuse to fork beside another thread: the locks it holds would stay held in the worker for ever."""
    # A folder's links are itself, its name and those below it; to list it is refused on the landlock rung.
    if os.stat("/proc/self/task").st_nlink > 2 + 1:
        raise SystemExit(f"{culprit} started a thread, so that no worker can be forked beside it")
