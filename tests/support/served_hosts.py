"""What the test's hosts serve: pages, an index of packages, a repository of git, and a PostgreSQL of an ordinary user.

Run as a script, it is the server of pages: ``served_hosts.py FOLDER ADDRESS...`` listens on port 80 of each address and
says ``ready`` once it does.
"""

from __future__ import annotations

import http.server
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import zipfile
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import unquote

PACKAGES = ("sentinel_one", "sentinel_two", "sentinel_three")
_NOBODY = 65534
_POSTGRES = "/usr/lib/postgresql"


class Pages(http.server.SimpleHTTPRequestHandler):
    """Files of a folder, and answers that are made up: what was asked, a redirect, a body of a wanted length."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        """Answer GET."""
        if self.path.startswith("/redirect/"):
            self.send_response(302)
            self.send_header("Location", unquote(self.path.removeprefix("/redirect/")))
            self.send_header("Content-Length", "0")
            self.end_headers()
        elif self.path.startswith("/asked"):
            self._say({"path": self.path, "host": self.headers["Host"], "token": self.headers["X-Token"]})
        elif self.path.startswith("/bytes/"):
            self._send(bytes(int(self.path.rpartition("/")[2])))
        else:
            super().do_GET()

    def do_POST(self) -> None:
        """Answer POST with how long the body was."""
        length = int(self.headers["Content-Length"] or 0)
        self._say({"got": len(self.rfile.read(length))})

    def _say(self, what: dict[str, Any]) -> None:
        self._send(json.dumps(what).encode())

    def _send(self, body: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_arguments: Any) -> None:
        """Say nothing."""


class _Server(http.server.ThreadingHTTPServer):
    def __init__(self, address: str, folder: str) -> None:
        self.address_family = socket.AF_INET6 if ":" in address else socket.AF_INET
        super().__init__((address, 80), partial(Pages, directory=folder))

    def server_bind(self) -> None:
        if self.address_family == socket.AF_INET6:
            self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_name, self.server_port = "served", 80


def make_wheel(folder: Path, name: str) -> Path:
    """Make a wheel of one module in ``folder`` and return its path."""
    folder.mkdir(parents=True, exist_ok=True)
    metadata = f"{name}-1.0.dist-info"
    path = folder / f"{name}-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.writestr(f"{name}.py", "answer = 42\n")
        wheel.writestr(f"{metadata}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        wheel.writestr(f"{metadata}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{metadata}/RECORD", "")
    return path


def make_site(folder: Path) -> Path:
    """Make what is served: an index of packages below ``/simple``, and a repository of git at ``/repository.git``."""
    for name in PACKAGES:
        listed = folder / "simple" / name.replace("_", "-")
        wheel = make_wheel(listed, name)
        (listed / "index.html").write_text(f'<!doctype html><a href="{wheel.name}">{wheel.name}</a>')
    (folder / "hello.txt").write_text("hello from outside\n")
    work, bare = folder / "work", folder / "repository.git"
    git = ["git", "-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "init.defaultBranch=main"]
    for command in (
        ["init", "-q", str(work)],
        ["-C", str(work), "commit", "-q", "--allow-empty", "-m", "first"],
        ["clone", "-q", "--bare", str(work), str(bare)],
        ["-C", str(bare), "update-server-info"],
    ):
        subprocess.run([*git, *command], check=True, capture_output=True)
    shutil.rmtree(work)
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
    return folder


class PageServer:
    """The server of pages, started by ``prefix`` in the namespace of the hosts."""

    def __init__(self, prefix: tuple[str, ...], folder: Path, addresses: tuple[str, ...]) -> None:
        command = [*prefix, sys.executable, str(Path(__file__).resolve()), str(folder), *addresses]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE)
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == b"ready\n"

    def close(self) -> None:
        """End it."""
        self.process.kill()
        self.process.communicate()


class PostgreSQL:
    """A server of an ordinary user, without a password, on one address of the hosts' namespace."""

    def __init__(self, prefix: tuple[str, ...], address: str) -> None:
        newest = max(Path(_POSTGRES).iterdir(), key=lambda path: float(path.name))
        programs = newest / "bin"
        user = _NOBODY if os.geteuid() == 0 else os.geteuid()
        # Not below a test's own folder, which the user can't reach.
        self._folder = Path(tempfile.mkdtemp(prefix="sentinel-postgresql-"))
        os.chown(self._folder, user, -1)
        as_user: dict[str, Any] = {"cwd": "/"}
        if os.geteuid() == 0:
            as_user |= {"user": user, "group": user, "extra_groups": []}
        data = self._folder / "data"
        subprocess.run(
            [
                programs / "initdb",
                "-D",
                data,
                "-A",
                "trust",
                "-U",
                "tester",
                "-N",
                "--locale=C",
                "-E",
                "UTF8",
            ],
            check=True,
            capture_output=True,
            **as_user,
        )
        with (data / "pg_hba.conf").open("a") as rules:
            rules.write("host all all all trust\n")
        settings = {
            "listen_addresses": address,
            "unix_socket_directories": str(self._folder),
            "fsync": "off",
            "shared_buffers": "1MB",
            "max_connections": "10",
            "autovacuum": "off",
        }
        options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        become = (
            () if os.geteuid() != 0 else ("setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups")
        )
        self.process = subprocess.Popen(
            [*prefix, *become, str(programs / "postgres"), "-D", str(data), *options],
            stderr=subprocess.PIPE,
            cwd="/",
        )
        assert self.process.stderr is not None
        said = b""
        for line in self.process.stderr:
            said += line
            if b"ready to accept connections" in line:
                break
        else:
            raise AssertionError(said.decode())
        # What it goes on saying is read, so that it never waits for room.
        self._reading = threading.Thread(target=self.process.stderr.read, daemon=True)
        self._reading.start()

    def close(self) -> None:
        """End it at once; nothing of it is kept."""
        self.process.send_signal(3)  # SIGQUIT: all of its processes end
        self.process.wait()
        self._reading.join()
        assert self.process.stderr is not None
        self.process.stderr.close()
        shutil.rmtree(self._folder)


def _main(folder: str, *addresses: str) -> None:
    servers = [_Server(address, folder) for address in addresses]
    for server in servers[1:]:
        threading.Thread(target=server.serve_forever, daemon=True).start()
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    servers[0].serve_forever()


if __name__ == "__main__":
    _main(*sys.argv[1:])
