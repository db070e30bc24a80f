"""A live kernel to measure: started from its kernelspec, driven by plain jupyter_client."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import zmq
from jupyter_client.manager import KernelManager
from processes import Tree

if TYPE_CHECKING:
    from collections.abc import Iterable

REPLY_SECONDS = 60
_QUIET_SECONDS = 3
"""Plain ipykernel may lose a cell's idle: without a message for this long behind the reply, none will come."""


class LiveKernel:
    """One kernel and one client; times are seconds."""

    def __init__(self, name: str, folder: Path, profile: str = "strict") -> None:
        """Start the kernelspec ``name`` in ``folder`` and note how long the first kernel_info reply took."""
        self.name = name
        self.manager = KernelManager(kernel_name=name)
        started = time.perf_counter()
        self.manager.start_kernel(
            cwd=str(folder),
            env={**os.environ, "SENTINEL_PROFILE": profile},
            stderr=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
        )
        self.client = self.manager.blocking_client()
        # 100 ms, libzmq's default, would be most of what is measured.
        self.client.context.setsockopt(zmq.RECONNECT_IVL, 2)
        self.client.start_channels()
        self.ask("kernel_info_request")
        self.start_seconds = time.perf_counter() - started
        self._started = started

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.client.stop_channels()
        self.manager.shutdown_kernel(now=True)
        self.client.context.destroy(linger=0)
        self.manager.cleanup_resources()

    def first_execute(self) -> float:
        """Execute the kernel's first cell and return the time from its start to the reply."""
        self.reply(self.client.execute("pass", store_history=False))
        return time.perf_counter() - self._started

    @property
    def tree(self) -> Tree:
        """Return the kernel's processes."""
        return Tree(int(self.manager.provisioner.pid))

    def ask(self, msg_type: str, channel: str = "shell") -> float:
        """Send a request without content and return the seconds until its reply."""
        started = time.perf_counter()
        self.reply(self.send_empty(msg_type, channel), channel)
        return time.perf_counter() - started

    def send_empty(self, msg_type: str, channel: str) -> str:
        """Send a request without content and return its id."""
        message = self.client.session.msg(msg_type)
        getattr(self.client, f"{channel}_channel").send(message)
        return str(message["header"]["msg_id"])

    def reply(self, message_id: str, channel: str = "shell") -> dict[str, Any]:
        """Return the reply to a request."""
        source = getattr(self.client, f"{channel}_channel")
        while True:
            message: dict[str, Any] = source.get_msg(timeout=REPLY_SECONDS)
            if message["parent_header"].get("msg_id") == message_id:
                return message

    def round_trip(self, code: str) -> float:
        """Execute ``code`` silently stored nowhere and return the time until its reply; wait for its idle too."""
        started = time.perf_counter()
        message_id = self.client.execute(code, store_history=False)
        self.reply(message_id)
        taken = time.perf_counter() - started
        self._wait_idle(message_id)
        return taken

    def flood(self, code: str) -> float:
        """Execute ``code`` and return the time until all its output is here, read as fast as it can be read."""
        started = time.perf_counter()
        message_id = self.client.execute(code, store_history=False).encode()
        socket = self.client.iopub_channel.socket
        shell = self.client.shell_channel.socket
        last = started
        while True:
            if not socket.poll(_QUIET_SECONDS * 1000):
                if shell.poll(0):
                    break
                continue
            frames = socket.recv_multipart()
            last = time.perf_counter()
            if b'"idle"' in frames[-1] and message_id in frames[-3]:
                break
        self.reply(message_id.decode())
        return last - started

    def value(self, code: str, expression: str) -> float:
        """Execute ``code`` and return ``expression``, a number, as the kernel computed it.

        Raises:
            AssertionError: the cell failed.

        """
        message_id = self.client.execute(code, store_history=False, user_expressions={"value": expression})
        content = self.reply(message_id)["content"]
        self._wait_idle(message_id)
        if content["status"] != "ok":
            raise AssertionError(f"{self.name}: {content.get('ename')}: {content.get('evalue')}")
        return float(content["user_expressions"]["value"]["data"]["text/plain"])

    def run(self, code: str) -> None:
        """Execute ``code``, which must succeed.

        Raises:
            AssertionError: the cell failed.

        """
        self.value(code, "0")

    def namespace(self) -> str:
        """Return the name of the worker's process namespace, as links in /proc give it."""
        number = self.value("import os", "int(os.readlink('/proc/self/ns/pid')[5:-1])")
        return f"pid:[{int(number)}]"

    def bytes_out(self) -> float:
        """Return the seconds that a prepared comm takes to bring its buffer here."""
        started = time.perf_counter()
        message_id = self.client.execute("_comm.send({}, buffers=[_big])", store_history=False)
        while True:
            message = self.client.iopub_channel.get_msg(timeout=REPLY_SECONDS)
            if message["msg_type"] == "comm_msg":
                taken = time.perf_counter() - started
                break
        if len(message["buffers"][0]) < 1_000_000:
            raise AssertionError(f"{self.name}: the buffer is not whole")
        self.reply(message_id)
        self._wait_idle(message_id)
        return taken

    def open_comm(self, target: str, comm_id: str) -> None:
        """Open a comm from here, and wait until the kernel has taken it."""
        content = {"comm_id": comm_id, "target_name": target, "data": {}}
        self.client.shell_channel.send(self.client.session.msg("comm_open", content))
        self.round_trip("pass")

    def bytes_in(self, comm_id: str, data: bytes) -> float:
        """Return the seconds from sending a comm's buffer until the kernel answers a cell behind it."""
        message = self.client.session.msg("comm_msg", {"comm_id": comm_id, "data": {}})
        started = time.perf_counter()
        self.client.session.send(self.client.shell_channel.socket, message, buffers=[memoryview(data)])
        message_id = self.client.execute("pass", store_history=False)
        self.reply(message_id)
        taken = time.perf_counter() - started
        self._wait_idle(message_id)
        return taken

    def interrupted(self, code: str) -> float:
        """Interrupt ``code`` once it runs, as a server does, and return the seconds until its reply."""
        message_id = self.client.execute(f"print('running', flush=True)\n{code}", store_history=False)
        # Not just any stream: plain ipykernel's debugger warns of something at its start.
        iopub = self.client.iopub_channel
        while iopub.get_msg(timeout=REPLY_SECONDS)["content"].get("text", "")[:7] != "running":
            pass
        started = time.perf_counter()
        self.manager.interrupt_kernel()
        if self.reply(message_id)["content"]["status"] != "error":
            raise AssertionError(f"{self.name}: the interrupt came to nothing")
        taken = time.perf_counter() - started
        self._wait_idle(message_id)
        return taken

    def drain(self) -> None:
        """Drop what lies in the channels unread."""
        for channel in (self.client.shell_channel, self.client.iopub_channel, self.client.control_channel):
            with suppress(queue.Empty):
                while True:
                    channel.get_msg(timeout=0)

    def _wait_idle(self, message_id: str) -> None:
        while True:
            try:
                message = self.client.iopub_channel.get_msg(timeout=REPLY_SECONDS)
            except queue.Empty:
                raise AssertionError(f"{self.name} never became idle") from None
            if (
                message["msg_type"] == "status"
                and message["content"]["execution_state"] == "idle"
                and message["parent_header"].get("msg_id") == message_id
            ):
                return


def is_installed(name: str) -> bool:
    """Tell whether the kernelspec ``name`` can be found."""
    from jupyter_client.kernelspec import KernelSpecManager

    return name in KernelSpecManager().find_kernel_specs()


def close_all(kernels: Iterable[LiveKernel]) -> None:
    """End kernels that were started outside a with statement."""
    for kernel in kernels:
        kernel.__exit__()


def connection(kernel: LiveKernel) -> dict[str, Any]:
    """Return the content of a kernel's connection file."""
    content: dict[str, Any] = json.loads(Path(kernel.manager.connection_file).read_text())
    return content
