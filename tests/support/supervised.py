"""A real supervisor process, driven over its own control socket as the host does it."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Self

import sentinel_kernel
from sentinel_kernel.supervisor import protocol

PACKAGE = Path(sentinel_kernel.__file__).parent
PROFILES = str(PACKAGE.parent / "profiles")
DEADLINE_SECONDS = 60.0


class Supervised:
    """Starts `python -I -S supervisor/__main__.py` and speaks JSON packets with it.

    ``command_prefix`` runs it as somebody else, or in other namespaces; the last descriptor stays 3.
    """

    def __init__(
        self,
        state: Path,
        *,
        python: str = sys.executable,
        command_prefix: tuple[str, ...] = (),
        home: Path | None = None,
        environment: dict[str, str] | None = None,
    ) -> None:
        """Use ``state`` for the run directory, the artifact store, the filter cache and (default) HOME."""
        self.python = python
        self.state = state
        self.events: list[dict[str, Any]] = []
        self.descriptors: dict[int, list[int]] = {}
        self.upper = -1
        self._next_id = 0
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        (state / "run").mkdir(parents=True, exist_ok=True)
        variables = {
            "PATH": os.environ["PATH"],
            "HOME": str(home or state),
            "XDG_RUNTIME_DIR": str(state / "run"),
            "XDG_DATA_HOME": str(state / "data"),
            "XDG_CACHE_HOME": str(state / "cache"),
            **(environment or {}),
        }
        # The child gets its end as descriptor 3 exactly, as the host's launcher gives it.
        keep = os.dup(theirs.fileno())
        self.process = subprocess.Popen(
            [
                "/bin/sh",
                "-c",
                f'exec 3<&{keep} {keep}<&-; exec "$@"',
                "sh",
                *command_prefix,
                python,
                "-I",
                "-S",
                str(PACKAGE / "supervisor" / "__main__.py"),
                *site_packages(python),
            ],
            pass_fds=[keep],
            env=variables,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
        os.close(keep)
        theirs.close()
        self.sock = ours

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def request(self, op: str, descriptors: tuple[int, ...] = (), **fields: Any) -> int:
        """Send one request and return its id."""
        self._next_id += 1
        protocol.send(self.sock, {"op": op, "id": self._next_id, **fields}, descriptors)
        return self._next_id

    def start(self, workspace: Path, profile: str = "strict", **fields: Any) -> int:
        """Ask for a sandbox; ``payload`` runs in place of init."""
        return self.request(
            "start",
            profile=profile,
            profile_directories=fields.pop("profile_directories", [PROFILES]),
            workspace=str(workspace),
            python=fields.pop("worker_python", self.python),
            environment=fields.pop("environment", {"LANG": "C.UTF-8"}),
            **fields,
        )

    def run(self, workspace: Path, payload: list[str], profile: str = "strict", **fields: Any) -> dict[str, Any]:
        """Run ``payload`` as pid 1 of a sandbox and return the cause of its end."""
        self.start(workspace, profile, payload=payload, **fields)
        return self.wait("worker_died")["cause"]

    def receive(self, timeout_seconds: float) -> dict[str, Any] | None:
        """Return the next message, noting it in ``events``; None when the supervisor has closed its end.

        Raises:
            TimeoutError: nothing came in time.

        """
        ready, _, _ = select.select([self.sock], [], [], timeout_seconds)
        if not ready:
            raise TimeoutError(f"nothing from the supervisor within {timeout_seconds} s; so far {self.events[-5:]}")
        packet = protocol.receive(self.sock)
        if packet is None:
            return None
        message, descriptors = packet
        if message["event"] == "channels":
            self.descriptors[message["generation"]] = descriptors
        elif message["event"] == "ready" and descriptors:
            if self.upper >= 0:
                os.close(self.upper)
            self.upper = descriptors[0]
        self.events.append(message)
        return message

    def wait(self, event: str, timeout_seconds: float = DEADLINE_SECONDS, **match: Any) -> dict[str, Any]:
        """Return the next message named ``event`` whose fields equal ``match``.

        Raises:
            AssertionError: the sandbox is unavailable, or the supervisor is gone, before that.

        """
        end = time.monotonic() + timeout_seconds
        while True:
            message = self.receive(max(0.0, end - time.monotonic()))
            if message is None:
                raise AssertionError(f"the supervisor is gone; it said {self.events}")
            if message["event"] == event and all(message.get(name) == value for name, value in match.items()):
                return message
            if message["event"] == "unavailable" and event != "unavailable":
                raise AssertionError(f"unavailable: {message}")

    def reply(self, identifier: int, timeout_seconds: float = DEADLINE_SECONDS) -> dict[str, Any]:
        """Return the reply to one request."""
        return self.wait("reply", timeout_seconds, id=identifier)

    def violations(self) -> list[dict[str, Any]]:
        """Return every violation told so far, the latest state of each."""
        latest: dict[str, dict[str, Any]] = {}
        for message in self.events:
            if message["event"] == "violation":
                latest[message["violation"]["id"]] = message["violation"]
        return list(latest.values())

    def saved_file(self, name: str) -> bytes:
        """Return a file that the payload wrote in the workspace, out of the artifact store."""
        artifacts = next((event for event in reversed(self.events) if event["event"] == "artifacts"), None)
        if artifacts is None:
            artifacts = self.wait("artifacts")
        return (Path(artifacts["path"]) / "files" / name).read_bytes()

    def saved_json(self, name: str) -> Any:
        """Return a JSON file that the payload wrote."""
        return json.loads(self.saved_file(name))

    def close(self) -> None:
        """Hang up as a host that ends, and wait until the supervisor is gone."""
        self.sock.close()
        for descriptors in self.descriptors.values():
            for descriptor in descriptors:
                with contextlib.suppress(OSError):
                    os.close(descriptor)
        self.descriptors.clear()
        if self.upper >= 0:
            os.close(self.upper)
            self.upper = -1
        try:
            self.process.wait(DEADLINE_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait()
            raise


_SITE_PACKAGES: dict[str, list[str]] = {}


def site_packages(python: str) -> list[str]:
    """Return the site-packages folders of ``python``, as the launcher hands them to the supervisor."""
    if python not in _SITE_PACKAGES:
        probe = "import sys; print('\\n'.join(p for p in sys.path if p.endswith('-packages')))"
        output = subprocess.run([python, "-P", "-c", probe], capture_output=True, text=True, check=True).stdout
        _SITE_PACKAGES[python] = output.split()
    return _SITE_PACKAGES[python]
