"""Kernels for the corpus: each with a home and a host of its own around it, and what a cell showed in it."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import queue
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jupyter_client.kernelspec import KernelSpecManager
from jupyter_client.manager import KernelManager
from jupyter_core.utils import ensure_event_loop

if TYPE_CHECKING:
    from collections.abc import Iterator

ensure_event_loop()  # jupyter_client keeps one for the whole process: no leftover of a test

SECONDS = 120.0
VIOLATION = "application/vnd.sentinel.violation+json"
NOTICE = "application/vnd.sentinel.notice+json"
TAKE_BACK = (
    "%sentinel_limit memory=profile cpu=profile pids=profile disk=profile tmp=profile shm=profile open_files=profile"
    " file_size=profile output=profile wall=profile cpu_seconds=profile"
)
CLEAN = """
import os, shutil, threading
os.chdir(get_ipython().starting_dir)
for _folder in ('.', '/tmp', '/dev/shm'):
    for _name in os.listdir(_folder):
        if not _name.startswith(('sentinel-tests', 'ipykernel', '.')) and _name != 'data':
            _path = os.path.join(_folder, _name)
            shutil.rmtree(_path) if os.path.isdir(_path) and not os.path.islink(_path) else os.remove(_path)
_own = ('MainThread', 'IOPub', 'Control', 'Shell channel', 'IPythonHistorySavingThread')
print([_thread.name for _thread in threading.enumerate()
    if _thread.name not in _own and '_watch_pipe_fd' not in _thread.name])
%reset -sf
"""
"""Takes back what a program left in a sandbox that goes on, and prints which threads it can't take back."""


class Outcome:
    """What a cell gave."""

    def __init__(self) -> None:
        self.reply: dict[str, Any] = {}
        self.text = ""
        self.error: dict[str, Any] = {}
        self.records: dict[str, dict[str, Any]] = {}
        """Each violation record in its last state, by its id."""
        self.cards: list[dict[str, Any]] = []
        self.questions: list[str] = []
        """What the person was asked."""

    @property
    def evalue(self) -> str:
        """Return the words of the error that ended the cell."""
        return str(self.reply.get("evalue", ""))

    @property
    def ename(self) -> str:
        """Return the name of the error that ended the cell."""
        return str(self.reply.get("ename", ""))


class Kernel:
    """A running kernel with its client."""

    def __init__(self, manager: KernelManager, client: Any, place: Host, profile: str, work: Path) -> None:
        self.manager = manager
        self.client = client
        self.place = place
        self.profile = profile
        self.work = work
        """The notebook's folder."""

    def run(self, code: str, *, agrees: bool = False) -> Outcome:
        """Run one cell to its end; the person ``agrees`` to each question, or says no."""
        client, outcome, idle = self.client, Outcome(), False
        msg_id = client.execute(code, allow_stdin=True)
        deadline = time.monotonic() + SECONDS
        while not (idle and outcome.reply):
            if time.monotonic() > deadline or not self.manager.is_alive():
                raise TimeoutError(f"the kernel is gone, or gave no end within {SECONDS:.0f} s")
            if client.stdin_channel.msg_ready():
                outcome.questions.append(client.get_stdin_msg()["content"]["prompt"])
                # Where it takes a fresh sandbox: with the variables.
                yes = "carry" if "carry" in outcome.questions[-1] else "y"
                client.input(yes if agrees else "n")
            with contextlib.suppress(queue.Empty):
                message = client.get_iopub_msg(timeout=0.01 if idle else 0.2)
                if message["parent_header"].get("msg_id") == msg_id:
                    idle |= _take(outcome, message["msg_type"], message["content"])
            if idle and not outcome.reply:
                with contextlib.suppress(queue.Empty):
                    message = client.get_shell_msg(timeout=0.2)
                    if message["parent_header"].get("msg_id") == msg_id:
                        outcome.reply = message["content"]
        return outcome

    def tidy(self, *, reset: bool) -> None:
        """Take back what a program left: its limits, profile, names, files; or the whole sandbox."""
        self.run(f"%sentinel_profile {self.profile}\n{TAKE_BACK}")
        if not reset:
            done = self.run(CLEAN)
            reset = done.text != "[]\n"
        if reset:
            self.run("%sentinel_reset")
        if self.work != self.place.home:
            for path in self.work.iterdir():
                shutil.rmtree(path) if path.is_dir() else path.unlink()


def _take(outcome: Outcome, kind: str, content: dict[str, Any]) -> bool:
    """Add one message to the outcome; tell whether it was the cell's idle."""
    if kind == "stream" and len(outcome.text) < 1_000_000:
        outcome.text += content["text"]
    if kind == "error":
        outcome.error = content
    if kind in ("display_data", "update_display_data"):
        data = content["data"]
        if VIOLATION in data:
            outcome.records[data[VIOLATION]["id"]] = data[VIOLATION]
        if NOTICE in data:
            outcome.cards.append(data[NOTICE])
    return kind == "status" and content["execution_state"] == "idle"


class Host:
    """What lies around a notebook: a home with files and a tool, a folder that is not shown, wheels to install."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.home = folder / "home"
        self.outside = folder / "outside"
        self.wheels = folder / "wheels"
        for name, text in {
            "home/data/rivers.csv": "name,km\nRhine,1233\nElbe,1094\n",
            "home/.ssh/config": "Host gauge\n  User elbe\n",
            "home/.aws/credentials": "[default]\naws_access_key_id = none\n",
            "home/.local/bin/rivers-tool": "#!/bin/sh\necho Rhine 1233\n",
            "outside/survey.json": '{"gauges": 7}\n',
            "outside/gauges.json": '{"gauges": 7}\n',
            "outside/notes/monday.txt": "low water\n",
        }.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        (self.home / ".local/bin/rivers-tool").chmod(0o755)
        (self.home / ".ssh").chmod(0o700)
        self.wheels.mkdir()
        for name in ("riverlib", "gaugelib", "basinlib"):
            _wheel(self.wheels, name)

    def environment(self) -> dict[str, str]:
        """Return the environment of who works here."""
        return {
            **{
                name: value
                for name, value in os.environ.items()
                if not name.startswith(("SENTINEL_", "XDG_"))
            },
            "HOME": str(self.home),
            "PATH": f"{self.home / '.local/bin'}:{os.environ['PATH']}",
            "SENTINEL_LANG": "en",
            "SENTINEL_AUDIT": "off",
            "PIP_NO_INDEX": "1",
            "PIP_FIND_LINKS": str(self.wheels),
            "PIP_DISABLE_PIP_VERSION_CHECK": "1",
            "PIP_ROOT_USER_ACTION": "ignore",
        }

    def environment_of_its_own(self) -> Path:
        """Make a virtual environment with pip, which sees what this one has; return its interpreter."""
        place = Path(tempfile.mkdtemp(prefix="venv-", dir=self.folder))
        place.chmod(0o755)
        subprocess.run([sys.executable, "-m", "venv", str(place)], check=True)
        packages = next(place.glob("lib/python*/site-packages"))
        found = importlib.util.find_spec("ipykernel")
        assert found is not None
        assert found.origin is not None
        ours = Path(found.origin).parents[1]
        (packages / "beside.pth").write_text(f"{ours}\n")
        return place / "bin" / "python"

    def fill(self, code: str) -> str:
        """Return the cell with the names of folders filled in."""
        return code.replace("{outside}", str(self.outside)).replace("{home}", str(self.home))


def _wheel(folder: Path, name: str) -> None:
    """Write a wheel with one module ``name``, whose ``longest()`` is a river."""
    info = f"{name}-1.0.dist-info"
    with zipfile.ZipFile(folder / f"{name}-1.0-py3-none-any.whl", "w") as archive:
        archive.writestr(f"{name}.py", "def longest():\n    return 'Rhine'\n")
        archive.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(
            f"{info}/RECORD", f"{name}.py,,\n{info}/METADATA,,\n{info}/WHEEL,,\n{info}/RECORD,,\n"
        )


@contextlib.contextmanager
def host() -> Iterator[Host]:
    """Make a host's files, and remove them."""
    folder = Path(tempfile.mkdtemp(prefix="sentinel-tests-explained-"))
    folder.chmod(0o755)
    try:
        yield Host(folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


NAMES = {
    "example.com": ["192.0.2.80"],
    "pypi.org": ["192.0.2.81"],
    "data.example.org": ["192.0.2.82"],
    "levels.example.org": ["93.184.216.34"],
}
"""The hosts outside: each serves the files of a folder on port 80."""


@contextlib.contextmanager
def hosts_outside(place: Host) -> Iterator[tuple[str, ...]]:
    """Make a network of its own with hosts in it; return what goes in front of a kernel's command to run there.

    Precondition: root.
    """
    from served_hosts import PageServer  # only root can have a network
    from test_network import network

    addresses = tuple(address for found in NAMES.values() for address in found)
    with network(place.folder / "network", NAMES) as made:
        server = PageServer(made.far_prefix(), place.home / "data", addresses)
        try:
            yield made.prefix()
        finally:
            server.close()


@contextlib.contextmanager
def kernel(place: Host, profile: str, kind: str = "", prefix: tuple[str, ...] = ()) -> Iterator[Kernel]:
    """Start a kernel under ``profile``; ``kind`` "packages": with an environment of its own; "home": in the home.

    ``prefix`` goes in front of its command.
    """
    name = kind or profile
    folder = Path(tempfile.mkdtemp(prefix=f"{name}-", dir=place.folder))
    folder.chmod(0o755)
    spec = folder / "kernels" / "sentinel"
    spec.mkdir(parents=True)
    work = place.home if kind == "home" else folder / "work"
    work.mkdir(exist_ok=True)
    argv = [sys.executable, "-P", "-E", "-m", "sentinel_kernel", "-f", "{connection_file}"]
    if prefix:
        argv = [*prefix, "env", f"--chdir={work}", *argv]
    described = {"argv": argv, "display_name": "S", "language": "python", "interrupt_mode": "message"}
    (spec / "kernel.json").write_text(json.dumps(described))
    profiles = place.home / ".config" / "sentinel-kernel" / "profiles"
    profiles.mkdir(parents=True, exist_ok=True)
    hasty = {"extends": "strict", "resources": {"grace_seconds": 1}}
    (profiles / "hasty.json").write_text(json.dumps(hasty))
    python = {"SENTINEL_PYTHON": str(place.environment_of_its_own())} if kind == "packages" else {}
    specs = KernelSpecManager(kernel_dirs=[str(spec.parent)], ensure_native_kernel=False)
    manager = KernelManager(kernel_name="sentinel", kernel_spec_manager=specs, transport="ipc")
    manager.connection_file = str(folder / "k.json")
    with (folder / "kernel.log").open("wb") as log:
        manager.start_kernel(
            cwd=str(work),
            env={**place.environment(), **python, "SENTINEL_PROFILE": profile},
            stderr=log,
            stdout=log,
        )
        client = manager.client()
        try:
            client.start_channels()
            client.wait_for_ready(timeout=SECONDS)
            yield Kernel(manager, client, place, profile, work)
        finally:
            client.stop_channels()
            client.context.destroy(linger=0)
            manager.shutdown_kernel()
            manager.cleanup_resources()
