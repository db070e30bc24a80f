"""A host kernel whose supervisor and worker are played by the test: every message can be any message.

The host is a real process with real sockets. The test sits at the other ends: of the control socket as the
supervisor, of the four channels as the worker, and of the outer sockets as a Jupyter client.
"""

from __future__ import annotations

import json
import os
import queue
import secrets
import select
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.connect import write_connection_file
from waiting import wait_until

from sentinel_kernel.kernel.connection import read_connection
from sentinel_kernel.kernel.large_frame import Ledger
from sentinel_kernel.kernel.wire import DELIMITER, encode, split
from sentinel_kernel.kernel.zmtp import Limits, Stream
from sentinel_kernel.policy.decode import Argument
from sentinel_kernel.policy.violation import VERSION, Process, Violation
from sentinel_kernel.supervisor import protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

DRIVER = Path(__file__).with_name("hosted_driver.py")
CHANNELS = {"shell": "ROUTER", "control": "ROUTER", "stdin": "ROUTER", "iopub": "XPUB"}
SECONDS = 20.0


VIOLATION: dict[str, Any] = Violation(
    id="v1",
    version=VERSION,
    profile="strict",
    rule="NOTIFY by default",
    origin="default",
    action="NOTIFY",
    outcome="refused",
    first_time_ms=1,
    last_time_ms=1,
    syscall="socket",
    number=41,
    architecture="x86_64",
    arguments=(Argument("family", 2, "AF_INET", untrusted=False),),
    values={"family": "AF_INET"},
    resource="network",
    errno=1,
    errno_name="EPERM",
    process=Process(7, "python3", is_worker=True),
).to_json()
"""One refused call, as the supervisor tells of it."""


class FakeWorker:
    """The worker's ends of one generation's channels."""

    def __init__(self) -> None:
        self.streams: dict[str, Stream] = {}
        self.sockets: dict[str, socket.socket] = {}
        self.host_fds: list[int] = []
        for channel, kind in CHANNELS.items():
            ours, theirs = socket.socketpair()
            self.sockets[channel] = ours
            self.streams[channel] = Stream(ours, kind, Limits(), Ledger())
            self.host_fds.append(theirs.detach())

    def take(self, channel: str, seconds: float = SECONDS) -> list[Any]:
        """Return the next message on a channel: identities, header, content."""
        frames = self.frames(channel, seconds)
        identities, parts = split(frames)
        return [identities, json.loads(bytes(parts[1])), json.loads(bytes(parts[4]))]

    def frames(self, channel: str, seconds: float = SECONDS) -> list[Any]:
        """Return the next message's frames."""
        stream = self.streams[channel]
        deadline = time.monotonic() + seconds
        while not stream.messages:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([stream], [], [], left)[0]:
                raise TimeoutError(f"nothing on {channel}")
            stream.receive()
        return stream.messages.popleft()

    def send(self, channel: str, frames: Sequence[bytes | memoryview]) -> None:
        """Send any frames, waiting until the host has taken them."""
        stream = self.streams[channel]
        while not stream.established:
            select.select([stream], [], [], SECONDS)
            stream.receive()
        stream.send(frames)
        while stream.wants_write:
            select.select([], [stream], [], SECONDS)
            stream.flush()

    def publish(
        self, msg_type: str, content: Any, parent: dict[str, Any] | None = None, topic: bytes = b"topic"
    ) -> None:
        """Publish as an honest worker would."""
        self.send("iopub", [topic, DELIMITER, b"", *json_parts(msg_type, content, parent)])

    def reply(self, request: list[Any], content: Any, channel: str = "shell", msg_type: str = "") -> None:
        """Answer a request that ``take`` returned."""
        identities, header, _ = request
        kind = msg_type or header["msg_type"].removesuffix("_request") + "_reply"
        self.send(channel, [*map(bytes, identities), DELIMITER, b"", *json_parts(kind, content, header)])

    def welcome(self) -> None:
        """Confirm the host's subscription."""
        assert [bytes(part) for part in self.frames("iopub")] == [b"\x01"]
        self.publish("iopub_welcome", {"subscription": ""})

    def start_cell(self, count: int = 1) -> tuple[list[Any], dict[str, Any]]:
        """Take the next cell and publish its busy and execute_input; return the request and its header."""
        request = self.take("shell")
        assert request[1]["msg_type"] == "execute_request"
        self.publish("status", {"execution_state": "busy"}, request[1])
        self.publish("execute_input", {"code": request[2]["code"], "execution_count": count}, request[1])
        return request, request[1]

    def end_cell(self, request: list[Any], status: str = "ok", count: int = 1) -> None:
        """Answer the cell and publish its idle."""
        error = {"ename": "E", "evalue": "", "traceback": []} if status == "error" else {}
        self.reply(request, {"status": status, "execution_count": count, **error})
        self.publish("status", {"execution_state": "idle"}, request[1])

    def run_cell(self, count: int = 1) -> list[Any]:
        """Let the next cell do nothing."""
        request, _ = self.start_cell(count)
        self.end_cell(request, count=count)
        return request

    def close(self) -> None:
        """Close every channel, as a dead process does."""
        for stream in self.streams.values():
            stream.close()


def _listens(place: str) -> bool:
    with socket.socket(socket.AF_UNIX) as probe:
        return probe.connect_ex(place) == 0


def json_parts(msg_type: str, content: Any, parent: dict[str, Any] | None) -> list[bytes]:
    header = {"msg_id": secrets.token_hex(8), "msg_type": msg_type, "version": "5.4", "session": "w"}
    return [encode(header), encode(parent or {}), b"{}", encode(content)]


class HostedKernel:
    """One host process, with a client connected to it. ``operations`` gets what it asks of the supervisor."""

    def __init__(
        self, folder: Path, curve_keys: tuple[bytes, bytes] | None = None, **environment: str
    ) -> None:
        self.connection_file = str(folder / "kernel.json")
        curve = (
            {}
            if curve_keys is None
            else dict(zip(("curve_publickey", "curve_secretkey"), curve_keys, strict=True))
        )
        # Names, not ports: a port that is found free may be taken by any other program before it is bound.
        write_connection_file(self.connection_file, transport="ipc", ip=str(folder / "k"), **curve)
        self.connection = read_connection(self.connection_file)
        self.control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.generation = 0
        self.workers: list[FakeWorker] = []
        self.operations: queue.Queue[dict[str, Any]] = queue.Queue()
        self.answering = True
        self.log = folder / "host.log"
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, str(DRIVER), str(theirs.fileno()), "-f", self.connection_file],
                pass_fds=[theirs.fileno()],
                cwd=folder,
                stderr=log,
                env={**os.environ, "SENTINEL_LANG": "en", **environment},
            )
        theirs.close()
        self._answering = threading.Thread(target=self._answer, daemon=True)
        self._answering.start()
        # A client that connects too early tries again later, and each of its sockets at another moment.
        place = self.connection.address("hb").removeprefix("ipc://")
        try:
            wait_until(lambda: _listens(place) or self.process.poll() is not None, "the host is there", 60)
            assert self.process.poll() is None, self.log.read_text()
        except AssertionError:
            self.control.close()
            self.process.kill()
            self.process.wait()
            raise
        self.client = BlockingKernelClient(connection_file=self.connection_file)
        self.client.load_connection_file()
        self.client.start_channels()

    def _answer(self) -> None:
        """Answer begin_cell, end_cell, interrupt and stop at once; hand everything on to the test."""
        while True:
            try:
                received = protocol.receive(self.control)
            except OSError:
                return
            if received is None:
                return
            request, fds = received
            for fd in fds:
                os.close(fd)
            self.operations.put(request)
            if self.answering and request["op"] != protocol.OP_START:
                try:
                    self.answer(request)
                except OSError:
                    return  # the host has gone without it

    def answer(self, request: dict[str, Any], *, ok: bool = True) -> None:
        """Answer one request of the host: what is to be tried fails by nothing."""
        found = {"problem": {}} if ok and request["op"] == protocol.OP_TRY else {}
        self.event(protocol.EVENT_REPLY, id=request["id"], ok=ok, **found)

    def event(self, name: str, fds: Sequence[int] = (), **fields: Any) -> None:
        """Send an event, as the supervisor."""
        protocol.send(self.control, {"event": name, **fields}, fds)

    def operation(self, name: str) -> dict[str, Any]:
        """Return the host's next request called ``name``."""
        while True:
            request = self.operations.get(timeout=SECONDS)
            if request["op"] == name:
                return request

    def start_worker(self, *, start_id: int | None = 1, **ready: Any) -> FakeWorker:
        """Hand the host a new worker that is ready (``start_id``: the request that this answers)."""
        worker = FakeWorker()
        self.workers.append(worker)
        self.generation += 1
        self.event(protocol.EVENT_CHANNELS, worker.host_fds, generation=self.generation)
        for fd in worker.host_fds:
            os.close(fd)
        told = {"profile": "strict", "rung": "full", "notices": [], **ready}
        self.event(protocol.EVENT_READY, generation=self.generation, **told)
        if start_id is not None:
            self.event(protocol.EVENT_REPLY, id=start_id, ok=True)
        worker.welcome()
        return worker

    def restart_worker(self) -> FakeWorker:
        """Wait for the host to ask for a new sandbox, and hand one to it."""
        return self.start_worker(start_id=self.operation(protocol.OP_START)["id"])

    def subscribe(self) -> None:
        """Wait until the client is sure to get everything that is published."""
        while self.client.get_iopub_msg(timeout=SECONDS)["msg_type"] != "iopub_welcome":
            pass

    def outputs(self, until: str = "idle", parent: str | None = None) -> list[tuple[str, dict[str, Any]]]:
        """Return what is published up to the status ``until`` (of the request ``parent``, where given)."""
        found = []
        while True:
            message = self.client.get_iopub_msg(timeout=SECONDS)
            if parent is not None and message["parent_header"].get("msg_id") != parent:
                continue
            found.append((message["msg_type"], message["content"]))
            if found[-1] == ("status", {"execution_state": until}):
                return found

    def reply(self, channel: str = "shell") -> dict[str, Any]:
        """Return the next reply to the client."""
        return getattr(self.client, f"get_{channel}_msg")(timeout=SECONDS)

    def wait_arrived(self, worker: FakeWorker) -> None:
        """Wait until the host has all that the client sent: a comm message, which overtakes, comes behind it."""
        self.client.shell_channel.send(self.client.session.msg("comm_msg", {"comm_id": "x", "data": {}}))
        while worker.take("shell")[1]["msg_type"] != "comm_msg":
            pass

    def resident_bytes(self) -> int:
        """Return how much memory the host has in use."""
        statm = Path(f"/proc/{self.process.pid}/statm").read_text()
        return int(statm.split()[1]) * os.sysconf("SC_PAGE_SIZE")

    def peak_bytes(self) -> int:
        """Return how much memory the host has had in use at most."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(status.partition("VmHWM:")[2].split()[0]) * 1024

    def close(self) -> None:
        """End the host and wait for it."""
        self.client.stop_channels()
        self.client.context.destroy(linger=0)
        self.process.kill()
        self.process.wait()
        for worker in self.workers:
            worker.close()
        self._answering.join(5)
        self.control.close()


def kinds(outputs: list[tuple[str, dict[str, Any]]]) -> list[str]:
    """Return the types of messages, a status as the state that it tells."""
    return [content["execution_state"] if kind == "status" else kind for kind, content in outputs]
