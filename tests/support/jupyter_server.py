"""A real JupyterLab server for tests: own folders, own token, a free port on loopback."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import subprocess
import sys
import urllib.error
import urllib.request
from typing import TYPE_CHECKING, Any

from free_ports import free_ports
from waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

# JupyterLab asks the internet for news and updates unless told not to.
_QUIET = {
    "@jupyterlab/apputils-extension": {
        "notification.jupyterlab-settings": {
            "fetchNews": "false",
            "checkForUpdates": False,
            "doNotDisturbMode": True,
        },
    },
    "@jupyterlab/docmanager-extension": {"plugin.jupyterlab-settings": {"autosave": False}},
}


class JupyterServer:
    """One running server. ``root`` is the folder it serves, ``url`` its address, ``token`` its key."""

    def __init__(
        self,
        home: Path,
        root: Path,
        prefix: Sequence[str] = (),
        python: str = sys.executable,
        options: Sequence[str] = (),
    ) -> None:
        """Start the server below ``home``; ``prefix`` (``unshare`` and the like) comes before the command."""
        self.home = home
        self.root = root
        self.token = secrets.token_hex(16)
        (self.port,) = free_ports(1)
        self.url = f"http://127.0.0.1:{self.port}"
        settings = home / "settings"
        for extension, files in _QUIET.items():
            for name, content in files.items():
                path = settings / extension / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(json.dumps(content))
        subprocess.run(
            [python, "-m", "sentinel_kernel.cli", "install", "--prefix", str(home / "kernelspec")],
            check=True,
            capture_output=True,
        )
        self.log_path = home / "server.log"
        command = [
            *prefix,
            python,
            "-m",
            "jupyter",
            "lab",
            "--no-browser",
            f"--ServerApp.port={self.port}",
            "--ServerApp.port_retries=0",
            "--ServerApp.ip=127.0.0.1",
            f"--IdentityProvider.token={self.token}",
            f"--ServerApp.root_dir={root}",
            "--ServerApp.allow_root=True",
            "--LabApp.expose_app_in_browser=True",
            "--LabApp.extensions_in_dev_mode=False",
            "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate",
            "--LabApp.news_url=None",
            *options,
        ]
        with self.log_path.open("wb") as log:
            self.process = subprocess.Popen(
                command, env=self.environment(), stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=root
            )
        try:
            wait_until(self._answers, "the server answers", seconds=180)
        except BaseException:
            self.close()
            raise

    def environment(self) -> dict[str, str]:
        """Return this test run's environment with every folder of Jupyter's below ``home``."""
        environment = {
            key: value
            for key, value in os.environ.items()
            if not key.startswith(("JUPYTER", "JPY_", "IPYTHON"))
        }
        return environment | {
            "HOME": str(self.home),
            "IPYTHONDIR": str(self.home / "ipython"),
            "JUPYTER_CONFIG_DIR": str(self.home / "config"),
            "JUPYTER_DATA_DIR": str(self.home / "data"),
            "JUPYTER_PATH": str(self.home / "kernelspec" / "share" / "jupyter"),
            "JUPYTER_PREFER_ENV_PATH": "0",
            "JUPYTER_RUNTIME_DIR": str(self.home / "runtime"),
            "JUPYTERLAB_SETTINGS_DIR": str(self.home / "settings"),
            "JUPYTERLAB_WORKSPACES_DIR": str(self.home / "workspaces"),
        }

    def request(self, method: str, path: str, body: Any = None) -> Any:
        """Call the API at ``path`` with the token and return the decoded answer (None where empty)."""
        request = urllib.request.Request(
            f"{self.url}{path}",
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Authorization": f"token {self.token}", "Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=30) as answer:
            text = answer.read()
        return json.loads(text) if text else None

    def write_text(self, path: str, text: str) -> None:
        """Save a text file through the contents API, the way JupyterLab's editor and upload do."""
        self.request("PUT", f"/api/contents/{path}", {"type": "file", "format": "text", "content": text})

    def write_notebook(self, path: str, sources: Sequence[str], kernel: str) -> None:
        """Save a notebook of code cells that opens with ``kernel``."""
        cells = [
            {
                "cell_type": "code",
                "id": f"cell-{number}",
                "execution_count": None,
                "metadata": {},
                "outputs": [],
                "source": source,
            }
            for number, source in enumerate(sources)
        ]
        content = {
            "cells": cells,
            "metadata": {
                "kernelspec": {"name": kernel, "display_name": kernel, "language": "python"},
                "language_info": {"name": "python"},
            },
            "nbformat": 4,
            "nbformat_minor": 5,
        }
        self.request(
            "PUT", f"/api/contents/{path}", {"type": "notebook", "format": "json", "content": content}
        )

    def shut_down_kernels(self) -> None:
        """End every session, kernel and terminal of the server."""
        for session in self.request("GET", "/api/sessions"):
            self.request("DELETE", f"/api/sessions/{session['id']}")
        for kernel in self.request("GET", "/api/kernels"):
            self.request("DELETE", f"/api/kernels/{kernel['id']}")
        for terminal in self.terminals():
            self.request("DELETE", f"/api/terminals/{terminal}")

    def terminals(self) -> list[str]:
        """Return the names of the open terminals."""
        return [terminal["name"] for terminal in self.request("GET", "/api/terminals")]

    def log(self) -> str:
        """Return what the server has logged."""
        return self.log_path.read_text(errors="replace")

    def close(self) -> None:
        """End the server and wait for it."""
        self.process.terminate()
        try:
            self.process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def _answers(self) -> bool:
        if self.process.poll() is not None:
            raise AssertionError(f"the server ended with {self.process.returncode}:\n{self.log()}")
        try:
            self.request("GET", "/api/status")
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            return False
        return True


@contextlib.contextmanager
def running_server(
    home: Path,
    root: Path,
    prefix: Sequence[str] = (),
    python: str = sys.executable,
    options: Sequence[str] = (),
) -> Iterator[JupyterServer]:
    """Yield a server and end it, with its kernels, afterwards."""
    server = JupyterServer(home, root, prefix, python, options)
    try:
        yield server
        server.shut_down_kernels()
    finally:
        server.close()
