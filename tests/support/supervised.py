"""A real supervisor process, driven over its own control socket as the host does it."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import select
import signal
import socket
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from sentinel_kernel.supervisor import protocol

if TYPE_CHECKING:
    from ordinary_user import Identity

VICTIMS = Path(__file__).parents[1] / "victims"
DEADLINE_SECONDS = 60.0
_CONTROL = 3


class Supervised:
    """Starts `python -I -S supervisor/__main__.py` and speaks JSON packets with it.

    ``command_prefix`` goes between the identity's own and the interpreter: other namespaces, another filter.
    """

    def __init__(
        self,
        identity: Identity,
        state: Path,
        *,
        command_prefix: tuple[str, ...] = (),
        environment: dict[str, str] | None = None,
    ) -> None:
        """Run as ``identity``; ``state`` holds the run directory, the artifact store and the filter cache."""
        self.identity = identity
        self.python = identity.python
        self.state = state
        self.events: list[dict[str, Any]] = []
        self.descriptors: dict[int, list[int]] = {}
        self.upper = -1
        self.kept: list[int] = []
        """The upper folders of the sandbox in use, and that of former versions."""
        self.cause: dict[str, Any] = {}
        self.outcomes: dict[str, str] = {}
        self._next_id = 0
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        places = {
            "XDG_RUNTIME_DIR": "run",
            "XDG_DATA_HOME": "data",
            "XDG_CACHE_HOME": "cache",
            "XDG_STATE_HOME": "state",
        }
        for name in places.values():
            own_folder(identity, state / name)
        variables = identity.environment() | {key: str(state / name) for key, name in places.items()}
        self.package = package_folder(self.python)
        # The child gets its end as descriptor 3 exactly, as the host's launcher gives it.
        with theirs:
            self.process = subprocess.Popen(
                [
                    *identity.prefix,
                    *command_prefix,
                    *(self.python, "-I", "-S", str(self.package / "supervisor" / "__main__.py")),
                    *site_packages(self.python),
                ],
                pass_fds=[_CONTROL],
                preexec_fn=lambda: (  # noqa: PLW1509 - one dup2 and no locks; no other way gives the number 3
                    os.dup2(theirs.fileno(), _CONTROL) if theirs.fileno() != _CONTROL else None
                ),
                env=variables | (environment or {}),
                stdin=subprocess.DEVNULL,
                cwd="/",
                start_new_session=True,
            )
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
            profile_directories=fields.pop("profile_directories", []),
            workspace=str(workspace),
            python=fields.pop("worker_python", self.python),
            environment=fields.pop("environment", {"LANG": "C.UTF-8"}),
            **fields,
        )

    def run(
        self, workspace: Path, payload: list[str], profile: str = "strict", **fields: Any
    ) -> dict[str, Any]:
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
            raise TimeoutError(
                f"nothing from the supervisor within {timeout_seconds} s; so far {self.events[-5:]}"
            )
        packet = protocol.receive(self.sock)
        if packet is None:
            return None
        message, descriptors = packet
        if message["event"] == "channels":
            self.descriptors[message["generation"]] = descriptors
        elif message["event"] == "ready" and descriptors:
            for descriptor in self.kept:
                os.close(descriptor)
            self.kept, self.upper = descriptors, descriptors[0]
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
        for descriptor in self.kept:
            os.close(descriptor)
        self.kept, self.upper = [], -1
        try:
            self.process.wait(DEADLINE_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait()
            raise


def own_folder(identity: Identity, path: Path) -> Path:
    """Make a private folder of ``identity`` at ``path`` and return it."""
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    if os.geteuid() == 0:
        os.chown(path, identity.uid, identity.uid)
    return path


@functools.cache
def site_packages(python: str) -> tuple[str, ...]:
    """Return the site-packages folders of ``python``, as the launcher hands them to the supervisor."""
    probe = "import sys; print('\\n'.join(p for p in sys.path if p.endswith('-packages')))"
    output = subprocess.run([python, "-P", "-c", probe], capture_output=True, text=True, check=True, cwd="/")
    return tuple(output.stdout.split())


@functools.cache
def package_folder(python: str) -> Path:
    """Return where ``python`` finds the sentinel_kernel package."""
    probe = "import sentinel_kernel; print(sentinel_kernel.__path__[0])"
    output = subprocess.run([python, "-P", "-c", probe], capture_output=True, text=True, check=True, cwd="/")
    return Path(output.stdout.strip())
