"""A lab's locked configuration and server, against a user who edits everything that is theirs."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import secrets
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from free_ports import free_ports
from lacking import lacking
from waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ordinary_user import Identity

DRIVER = Path(__file__).parents[1] / "kernel" / "drivers" / "run_cells.py"
TRY = (
    "import socket\ntry:\n    socket.socket(2).close(); print('open')\n"
    "except OSError as error:\n    print(error.errno)"
)
LOCKED = {"profile": "strict", "ceiling": "strict", "locked": True, "ask": "never"}
# A mount namespace of its own, in which /etc has a lab's configuration; the real one is not touched.
WITH_ETC = (
    'mount -t tmpfs tmpfs "$1" && mkdir -p "$1/upper/sentinel-kernel" "$1/work" && '
    'chmod 755 "$1" "$1/upper" "$1/upper/sentinel-kernel" && cp "$2" "$1/upper/sentinel-kernel/config.json" && '
    'chmod "$3" "$1/upper/sentinel-kernel/config.json" && '
    'mount -t overlay overlay -o "lowerdir=/etc,upperdir=$1/upper,workdir=$1/work" /etc && shift 3 && exec "$@"'
)


def in_lab(identity: Identity, folder: Path, config: dict[str, Any], mode: str = "644") -> Identity:
    """Return ``identity`` with a machine around it on which a lab has laid down ``config``."""
    if os.geteuid() != 0:
        lacking("only root can lay down what is root's")
    (folder / "etc").mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    unshare = ("unshare", "--mount", "--propagation", "private", "sh", "-ec", WITH_ETC, "sh")
    place = (str(folder / "etc"), str(folder / "config.json"), mode)
    tried = subprocess.run([*unshare, *place, "true"], capture_output=True, text=True, check=False)
    if tried.returncode != 0:
        lacking(f"/etc can't be overlaid here: {tried.stderr.strip()}")
    return dataclasses.replace(identity, prefix=(*unshare, *place, *identity.prefix))


def run_cells(
    who: Identity, *cells: str, name: str = "sentinel", jupyter: Path | None = None, **environment: str
) -> list[dict[str, Any]]:
    found = who.environment() | {"LANG": "C"} | environment
    if jupyter is not None:
        found["JUPYTER_PATH"] = str(jupyter)
    done = who.run(who.python, str(DRIVER), name, env=found, input=json.dumps(cells), timeout=200)
    results: list[dict[str, Any]] = json.loads(done.stdout)
    return results


@pytest.fixture
def student(ordinary_user: Identity, tmp_path: Path) -> Identity:
    """Return an ordinary user on a machine of a lab that allows strict and no more."""
    return in_lab(ordinary_user, tmp_path, LOCKED)


@pytest.fixture
def kernels(ordinary_user: Identity) -> Path:
    """Return a folder of the user's own with a kernelspec that asks for everything."""
    prefix = ordinary_user.home / "prefix"
    ordinary_user.run(ordinary_user.python, "-m", "sentinel_kernel.cli", "install", "--prefix", str(prefix))
    place = prefix / "share" / "jupyter" / "kernels" / "mine"
    place.mkdir(exist_ok=True)
    spec = json.loads((place.parent / "sentinel" / "kernel.json").read_text())
    spec["argv"] += ["--SentinelKernel.profile=web", "--SentinelKernel.ceiling=web"]
    spec["env"] |= {"SENTINEL_PROFILE": "web", "SENTINEL_CEILING": "web", "SENTINEL_ASK": "person"}
    (place / "kernel.json").write_text(json.dumps(spec))
    return prefix / "share" / "jupyter"


def test_locked_lab_holds_whatever_a_user_edits(
    ordinary_user: Identity, student: Identity, kernels: Path
) -> None:
    own = ordinary_user.home / "config-home" / "sentinel-kernel" / "profiles"
    own.mkdir(parents=True, exist_ok=True)
    (own / "strict.json").write_text('{"extends": "datascience"}')  # under the lab's own name
    (own / "mine.json").write_text('{"extends": "strict", "resources": {"memory_bytes": "64GiB"}}')
    lab = ordinary_user.home / "config-home" / "sentinel-kernel" / "config.json"
    lab.write_text(json.dumps({"profile": "web", "ceiling": "web"}))
    switch = "%sentinel_profile datascience\n1"
    for name, environment in (
        ("sentinel", {}),
        (
            "sentinel",
            {"SENTINEL_PROFILE": "datascience", "SENTINEL_CEILING": "web", "SENTINEL_ASK": "person"},
        ),
        ("sentinel", {"SENTINEL_PROFILE": "mine", "XDG_CONFIG_HOME": str(own.parents[1])}),
        ("mine", {"XDG_CONFIG_HOME": str(own.parents[1]), "SENTINEL_PYTHON": "/usr/bin/python3"}),
    ):
        cells = run_cells(
            student, TRY, switch, TRY, "%sentinel_status", name=name, jupyter=kernels, **environment
        )
        first, switched, after, status = cells
        assert first["text"].split("\n")[-2] == "1", (name, environment, cells)
        assert switched["errors"][0].startswith("UsageError: ")
        assert "lab's configuration" in switched["errors"][0]
        assert after["text"] == "1\n"
        assert re.search(r"profile +strict\n", status["results"][0]), status
        assert re.search(r"lab +/etc/sentinel-kernel/config.json \(locked", status["results"][0]), status
        if environment:
            assert any("lab's configuration grants" in shown for shown in first["results"]), first
    # The same without the lab: what is edited does take effect, so that the above shows the lab's doing.
    [free] = run_cells(ordinary_user, TRY, jupyter=kernels, SENTINEL_PROFILE="datascience")
    assert free["text"] == "open\n"


def test_configuration_that_others_may_write_to_stops_every_sandbox_and_says_so(
    ordinary_user: Identity, kernels: Path, tmp_path: Path
) -> None:
    [cell] = run_cells(in_lab(ordinary_user, tmp_path, LOCKED, mode="666"), "1", jupyter=kernels)
    assert cell["errors"][0].startswith("SandboxUnavailable: ")
    assert "/etc/sentinel-kernel/config.json can be changed by others than root" in cell["errors"][0]


def test_lab_with_a_ceiling_lets_switch_below_it(
    ordinary_user: Identity, kernels: Path, tmp_path: Path
) -> None:
    lab = in_lab(ordinary_user, tmp_path, {"profile": "strict", "ceiling": "datascience"})
    inside, beyond = run_cells(
        lab, f"%sentinel_profile datascience\n{TRY}", "%sentinel_profile sentinelbox/web\n1", jupyter=kernels
    )
    assert inside["text"] == "open\n"
    assert "lab's configuration" in beyond["errors"][0]


# --- the server around it

HOSTILE = (
    "c = get_config()\nc.ServerApp.terminals_enabled = True\n"
    "c.ServerApp.kernel_spec_manager_class = 'jupyter_client.kernelspec.KernelSpecManager'\n"
)


class LabServer:
    """The server that lab-config's files start, for a user whose home is full of files that want something else."""

    def __init__(self, folder: Path) -> None:
        self.lab, self.home, self.root = folder / "lab", folder / "home", folder / "root"
        for path in (self.home / ".jupyter", self.root):
            path.mkdir(parents=True)
        subprocess.run(
            [sys.executable, "-m", "sentinel_kernel.cli", "lab-config", "--output", str(self.lab)],
            check=True,
            capture_output=True,
        )
        plain = {
            "argv": [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"],
            "language": "python",
        }
        for name in ("python3", "sentinel", "mine"):
            place = self.home / ".local" / "share" / "jupyter" / "kernels" / name
            place.mkdir(parents=True)
            (place / "kernel.json").write_text(json.dumps({**plain, "display_name": name}))
        (self.home / ".jupyter" / "jupyter_server_config.py").write_text(HOSTILE)
        (self.home / ".local" / "etc" / "jupyter").mkdir(parents=True)
        (self.home / ".local" / "etc" / "jupyter" / "jupyter_server_config.py").write_text(HOSTILE)
        self.token = secrets.token_hex(16)
        (self.port,) = free_ports(1)
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("JUPYTER", "JPY_"))}
        environment = kept | {
            "HOME": str(self.home),
            "JUPYTER_PATH": str(self.home / ".local" / "share" / "jupyter"),
            "JUPYTER_CONFIG_PATH": str(self.home / ".jupyter"),
            "JUPYTER_RUNTIME_DIR": str(folder / "runtime"),
            "SENTINEL_PROFILE": "datascience",
        }
        self.log = folder / "server.log"
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [
                    str(self.lab / "start-server"), "--no-browser", f"--ServerApp.port={self.port}",
                    "--ServerApp.port_retries=0", f"--IdentityProvider.token={self.token}",
                    f"--ServerApp.root_dir={self.root}", "--ServerApp.allow_root=True", "--ServerApp.ip=127.0.0.1",
                ],
                env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.root,
            )  # fmt: skip
        wait_until(self._answers, "the lab's server answers", seconds=90)

    def _answers(self) -> bool:
        assert self.process.poll() is None, self.log.read_text()
        return self.call("GET", "/api/status")[0] == 200

    def call(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        """Return the status and the decoded answer of a call of the server's API."""
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}{path}",
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Authorization": f"token {self.token}", "Content-Type": "application/json"},
        )
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                text = answer.read()
                return answer.status, json.loads(text) if text.startswith((b"{", b"[")) else None
        except urllib.error.HTTPError as error:
            return error.code, None
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            return 0, None

    def close(self) -> None:
        """End the server's kernels and the server."""
        for kernel in self.call("GET", "/api/kernels")[1] or ():
            self.call("DELETE", f"/api/kernels/{kernel['id']}")
        self.process.terminate()
        self.process.wait(timeout=30)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LabServer]:
    running = LabServer(tmp_path_factory.mktemp("lab"))
    yield running
    running.close()


def test_only_the_labs_kernels_can_be_had(server: LabServer) -> None:
    specs = server.call("GET", "/api/kernelspecs")[1]
    assert (specs["default"], sorted(specs["kernelspecs"])) == ("sentinel", ["python3", "sentinel"])
    for spec in specs["kernelspecs"].values():
        assert spec["spec"]["argv"][1:4] == ["-I", "-m", "sentinel_kernel"], spec
    for path, body in (
        ("/api/kernels", {"name": "mine"}),
        ("/api/sessions", {"name": "x", "path": "x.ipynb", "type": "notebook", "kernel": {"name": "mine"}}),
    ):
        assert server.call("POST", path, body)[0] >= 400
    assert server.call("GET", "/api/kernels")[1] == []


def test_notebook_that_names_python3_runs_under_sentinel(server: LabServer) -> None:
    status, session = server.call(
        "POST",
        "/api/sessions",
        {"name": "x", "path": "x.ipynb", "type": "notebook", "kernel": {"name": "python3"}},
    )
    assert status == 201
    assert session["kernel"]["name"] == "python3"
    children = Path(f"/proc/{server.process.pid}/task/{server.process.pid}/children").read_text().split()
    commands = [Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0") for pid in children]
    assert [command[1:4] for command in commands if command != [b""]] == [[b"-I", b"-m", b"sentinel_kernel"]]


def test_there_are_no_terminals(server: LabServer) -> None:
    assert server.call("POST", "/api/terminals")[0] == 404


def test_pages_have_no_hosts_of_links_looked_up(server: LabServer) -> None:
    address = f"http://127.0.0.1:{server.port}/lab?token={server.token}"
    with urllib.request.urlopen(address, timeout=60) as answer:
        assert answer.headers["X-DNS-Prefetch-Control"] == "off"
        assert "frame-ancestors 'self'" in answer.headers["Content-Security-Policy"]


def test_submission_that_names_python3_is_graded_in_the_sandbox(server: LabServer, tmp_path: Path) -> None:
    cell = {
        "cell_type": "code",
        "id": "a",
        "execution_count": None,
        "metadata": {},
        "outputs": [],
        "source": TRY,
    }
    submission = {
        "cells": [cell],
        "metadata": {
            "kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"},
            "sentinel": {"profile": "web", "ceiling": "web"},
        },
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    (tmp_path / "submission.ipynb").write_text(json.dumps(submission))
    environment = os.environ | {"JUPYTER_CONFIG_DIR": str(server.lab), "JUPYTER_PATH": str(server.lab)}
    subprocess.run(
        [
            sys.executable, "-m", "jupyter", "nbconvert", "--to", "notebook", "--execute",
            "--output", "graded.ipynb", "submission.ipynb",
        ],
        cwd=tmp_path, env=environment, check=True, capture_output=True, timeout=200,
    )  # fmt: skip
    graded = json.loads((tmp_path / "graded.ipynb").read_text())
    streams = [
        output["text"] for output in graded["cells"][0]["outputs"] if output["output_type"] == "stream"
    ]
    assert "".join("".join(text) for text in streams) == "1\n"  # a plain kernel would have printed: open


def test_nothing_is_overwritten_without_being_asked_for(server: LabServer) -> None:
    command = [sys.executable, "-m", "sentinel_kernel.cli", "lab-config", "--output", str(server.lab)]
    before = (server.lab / "jupyter_server_config.py").stat().st_mtime_ns
    refused = subprocess.run(command, capture_output=True, text=True, check=False)
    assert refused.returncode == 1
    assert "--force" in refused.stderr
    assert (server.lab / "jupyter_server_config.py").stat().st_mtime_ns == before
    assert subprocess.run([*command, "--force"], capture_output=True, check=False).returncode == 0
