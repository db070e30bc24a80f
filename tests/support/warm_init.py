"""Init and its workers without the sandbox: a pid namespace, real sockets, and a libzmq client in the host's place."""

from __future__ import annotations

import contextlib
import json
import os
import select
import shutil
import socket
import subprocess
import sys
import tempfile
import uuid
from pathlib import Path
from typing import Any

import zmq

from sentinel_kernel.supervisor.started import Started

_WORKER = Path(__file__).resolve().parents[2] / "sentinel_kernel" / "worker"
_CHANNELS = ("shell", "control", "stdin", "iopub")
_DELIMITER = b"<IDS|MSG>"
_SECONDS = 60
STACK_SIGNAL = 63
MEMORY_SIGNAL = 61
MAGICS = ("sentinel_status", "sentinel_profile", "sentinel_reset", "sentinel_help")


class WarmInit:
    """Plays the supervisor: starts init as pid 1, asks it for workers, hears its events."""

    def __init__(self, **environment: str) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="init-"))
        self.workspace = self.folder / "workspace"
        self.workspace.mkdir()
        package = self.folder / "lib" / "sentinel_kernel"
        package.mkdir(parents=True)
        (package / "__init__.py").touch()
        (package / "worker").symlink_to(_WORKER)
        (self.folder / "home").mkdir()
        self._errors = (self.folder / "stderr").open("wb")
        self._workers: list[WorkerClient] = []
        self.stacks, self._stack_pipe = os.pipe()
        self._words, self.words = os.pipe2(os.O_NONBLOCK)
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                self._command(theirs.fileno()),
                pass_fds=[theirs.fileno()],
                env={
                    "HOME": str(self.folder / "home"),
                    "LANG": "C.UTF-8",
                    "PATH": os.environ["PATH"],
                    "TMPDIR": str(self.folder),
                    **environment,
                },
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=self._errors,
            )

    def _command(self, control: int) -> list[str]:
        library = str(self.folder / "lib")
        payload = (
            f"import sys; sys.path[0] = {library!r}; "
            f"from sentinel_kernel.worker.init import main; main({control})"
        )
        namespace = [
            "unshare",
            "--user",
            "--map-current-user",
            "--pid",
            "--fork",
            "--mount-proc",
            "--kill-child",
        ]
        # Root would keep every capability in its namespace, and with them the run of what is not dumpable.
        powerless = ["setpriv", "--bounding-set", "-all"] if os.geteuid() == 0 else []
        return [*namespace, *powerless, sys.executable, "-c", payload]

    def errors(self) -> str:
        """Return what init and workers wrote to the supervisor's end of stderr."""
        return (self.folder / "stderr").read_text(errors="replace")

    def event(self, name: str) -> dict[str, Any]:
        """Return the next event, which must be ``name``."""
        if not select.select([self._control], [], [], _SECONDS)[0]:
            raise AssertionError(f"no {name} within {_SECONDS} s: {self.errors()}")
        packet = self._control.recv(65536)
        if not packet:
            raise EOFError(self.errors())
        event: dict[str, Any] = json.loads(packet)
        assert event["event"] == name, (event, self.errors())
        return event

    def ask_for_worker(
        self, *argv: str, preload: tuple[str, ...] = (), cwd: str | None = None
    ) -> WorkerClient:
        """Send ``fork`` with four listening sockets and the pipe for stacks; return the sockets' client."""
        number = len(self._workers)
        paths = [str(self.folder / f"{name}-{number}") for name in _CHANNELS]
        with contextlib.ExitStack() as stack:
            listening = []
            for path in paths:
                server = stack.enter_context(socket.socket(socket.AF_UNIX))
                server.bind(path)
                server.listen(1)
                listening.append(server.fileno())
            request = {
                "op": "fork",
                "argv": list(argv),
                "cwd": cwd or str(self.workspace),
                "preload": list(preload),
                "magics": list(MAGICS),
                "stack_signal": STACK_SIGNAL,
                "memory_signal": MEMORY_SIGNAL,
                "stacks_signal": STACK_SIGNAL - 1,
            }
            started = Started()
            stack.callback(started.close)
            descriptors = [*listening, self._stack_pipe, self._words, started.descriptor, self._stack_pipe]
            socket.send_fds(self._control, [json.dumps(request).encode()], descriptors)
        worker = WorkerClient(paths)
        self._workers.append(worker)
        return worker

    def start_worker(self, *argv: str, preload: tuple[str, ...] = ()) -> WorkerClient:
        """Have a worker forked and wait for it."""
        worker = self.ask_for_worker(*argv, preload=preload)
        self.event("hello")
        worker.request("kernel_info_request", {})
        return worker

    def kill_all(self) -> None:
        """Send ``kill_all``; the answer is an event."""
        self._control.send(b'{"op":"kill_all"}')

    def wait_end(self) -> int:
        """Return the exit status of init, which ends by itself."""
        return self._process.wait(_SECONDS)

    def hang_up(self) -> int:
        """Close the control socket, as a supervisor that is gone, and return init's exit status."""
        self._control.close()
        return self.wait_end()

    def close(self) -> None:
        """End everything."""
        for worker in self._workers:
            worker.close()
        self._control.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(10)
        self._process.kill()
        self._process.wait()
        self._errors.close()
        os.close(self.stacks)
        os.close(self._stack_pipe)
        os.close(self._words)
        os.close(self.words)
        shutil.rmtree(self.folder)


class WorkerClient:
    """Plays the host kernel towards one worker."""

    def __init__(self, paths: list[str]) -> None:
        self._context = zmq.Context()
        identity = b"host"  # as the host connects: the worker takes this name out of what its kernel sees
        self._sockets: dict[str, zmq.Socket[bytes]] = {}
        for name, path in zip(_CHANNELS, paths, strict=True):
            channel = self._context.socket(zmq.SUB if name == "iopub" else zmq.DEALER)
            channel.linger = 0
            if name == "iopub":
                channel.rcvhwm = 0
                channel.subscribe(b"")
            else:
                channel.routing_id = identity
            channel.connect(f"ipc://{path}")
            self._sockets[name] = channel

    def close(self) -> None:
        """Disconnect."""
        self._context.destroy(linger=0)

    def send(self, kind: str, content: dict[str, Any], channel: str = "shell", **header: str) -> str:
        """Send a request, unsigned; return its msg_id."""
        message_id = uuid.uuid4().hex
        head = {
            "msg_id": message_id,
            "msg_type": kind,
            "session": "test",
            "username": "test",
            "date": "2026-01-01T00:00:00Z",
            "version": "5.4",
            **header,
        }
        parts = [json.dumps(part).encode() for part in (head, {}, {}, content)]
        self._sockets[channel].send_multipart([_DELIMITER, b"", *parts])
        return message_id

    def receive(self, channel: str) -> dict[str, Any]:
        """Return the next message of a channel."""
        if not self._sockets[channel].poll(_SECONDS * 1000):
            raise AssertionError(f"nothing on {channel} within {_SECONDS} s")
        frames = self._sockets[channel].recv_multipart()
        start = frames.index(_DELIMITER) + 1
        header, parent, _, content = (json.loads(frame) for frame in frames[start + 1 : start + 5])
        return {
            "type": header["msg_type"],
            "parent": parent.get("msg_id"),
            "content": content,
            "signature": frames[start],
        }

    def reply(self, message_id: str, channel: str = "shell") -> dict[str, Any]:
        """Return the content of the reply to a request."""
        while True:
            message = self.receive(channel)
            if message["parent"] == message_id:
                content: dict[str, Any] = message["content"]
                return content

    def replies(self, *message_ids: str) -> list[str]:
        """Return the statuses of several requests' replies on shell, which come in whichever order."""
        found: dict[str, str] = {}
        while not found.keys() >= set(message_ids):
            message = self.receive("shell")
            found[message["parent"]] = message["content"]["status"]
        return [found[message_id] for message_id in message_ids]

    def request(
        self, kind: str, content: dict[str, Any], channel: str = "shell", **header: str
    ) -> dict[str, Any]:
        """Send a request and return the content of its reply."""
        return self.reply(self.send(kind, content, channel, **header), channel)

    def outputs(self, message_id: str) -> list[dict[str, Any]]:
        """Return a request's messages on IOPub, busy to idle."""
        messages = []
        while True:
            message = self.receive("iopub")
            if message["parent"] == message_id:
                messages.append(message)
                if message["content"].get("execution_state") == "idle":
                    return messages

    def outputs_until(self, message_id: str, kind: str) -> None:
        """Return when a request's first message of this kind has come on IOPub."""
        while True:
            message = self.receive("iopub")
            if message["parent"] == message_id and message["type"] == kind:
                return

    def begin(self, code: str, *, allow_stdin: bool = False, **header: str) -> str:
        """Send a cell; return its msg_id."""
        content = {
            "code": code,
            "silent": False,
            "store_history": True,
            "user_expressions": {},
            "allow_stdin": allow_stdin,
            "stop_on_error": True,
        }
        return self.send("execute_request", content, **header)

    def execute(self, code: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        """Execute a cell; return its reply's content and its messages on IOPub."""
        message_id = self.begin(code)
        outputs = self.outputs(message_id)
        return self.reply(message_id), outputs

    def run(self, code: str) -> str:
        """Execute a cell; return what it printed. Fails where the cell does."""
        reply, outputs = self.execute(code)
        assert reply["status"] == "ok", "\n".join(reply.get("traceback", [str(reply)]))
        return "".join(
            message["content"]["text"] for message in outputs if message["type"] == "stream"
        ).strip()
