"""Attacks from inside: one script, run in the sandbox and, as positive control, outside by the same user."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import kernel_memory
import pytest
from live_kernel import notebook
from supervised import Supervised, own_folder

if TYPE_CHECKING:
    from collections.abc import Iterator

    from live_kernel import Notebook
    from ordinary_user import Identity

# What every attack begins with: tried() gives "ok", or the name of the errno.
_PREAMBLE = """
import array, ctypes, errno, fcntl, json, mmap, os, resource, signal, socket, sys, time
LIBC = ctypes.CDLL(None, use_errno=True)

def tried(action):
    try:
        action()
    except OSError as error:
        return errno.errorcode[error.errno]
    return "ok"

def called(*arguments):
    ctypes.set_errno(0)
    if LIBC.syscall(*(ctypes.c_ulong(value) if isinstance(value, int) else value for value in arguments)) < 0:
        return errno.errorcode[ctypes.get_errno()]
    return "ok"

def tell(value):
    with open(sys.argv[1] + ".part", "w") as file:
        json.dump(value, file)
    os.rename(sys.argv[1] + ".part", sys.argv[1])
"""


class Attacker:
    """Runs an attack inside (as pid 1) or outside; the attack says with ``tell(value)`` what it got."""

    def __init__(self, supervised: Supervised, workspace: Path, place: Path) -> None:
        self.supervised = supervised
        self.workspace = workspace
        self._profiles = own_folder(supervised.identity, place / "profiles")

    def profile(self, **changes: Any) -> str:
        """Return the name of a profile that is ``strict`` with changes."""
        path = self._profiles / "attacked.json"
        path.write_text(json.dumps({"extends": "strict", **changes}))
        path.chmod(0o644)
        return "attacked"

    def command(self, attack: str, result: str) -> list[str]:
        """Return the command that makes an attack and writes what it tells to ``result``."""
        script = self.workspace / "attack.py"
        script.write_text(_PREAMBLE + attack)
        script.chmod(0o644)
        return [self.supervised.python, str(script), str(self.workspace / result)]

    def start(self, attack: str, profile: str = "strict") -> None:
        """Begin an attack inside that stays until the sandbox is ended."""
        command = self.command(attack, "inside.json")
        directories = [str(self._profiles)]
        self.supervised.start(self.workspace, profile, payload=command, profile_directories=directories)
        self.supervised.wait("ready")

    def told(self) -> bool:
        """Tell whether an attack that was begun has said what it got."""
        try:
            os.stat("inside.json", dir_fd=self.supervised.upper)
        except FileNotFoundError:
            return False
        return True

    def so_far(self) -> Any:
        """Return what an attack has told that was begun."""
        told = os.open("inside.json", os.O_RDONLY, dir_fd=self.supervised.upper)
        with open(told, encoding="utf-8") as file:
            return json.load(file)

    def cause(self, attack: str, profile: str = "strict") -> dict[str, Any]:
        """Run an attack inside and return how its process ended."""
        command = self.command(attack, "inside.json")
        directories = [str(self._profiles)]
        return self.supervised.run(self.workspace, command, profile, profile_directories=directories)

    def inside(self, attack: str, profile: str = "strict") -> Any:
        """Run an attack inside and return what it told."""
        cause = self.cause(attack, profile)
        assert cause["kind"] == "exit", (cause, self.supervised.events)
        assert cause["status"] == 0, (cause, self.supervised.events)
        return self.supervised.saved_json("inside.json")

    def outside(self, attack: str) -> Any:
        """Run the same attack without a sandbox, as the same user."""
        self.supervised.identity.run(*self.command(attack, "outside.json"))
        result = self.workspace / "outside.json"
        told = json.loads(result.read_text())
        result.unlink()
        return told


@pytest.fixture
def kernel_memory_alone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Run when no other test of this run takes, or gives back, much of the Linux kernel's memory."""
    with kernel_memory.alone(tmp_path_factory.getbasetemp().parent):
        yield


@pytest.fixture
def place(identity: Identity) -> Iterator[Path]:
    """Return a folder that the identity owns and can reach; removed afterwards."""
    path = Path(tempfile.mkdtemp(prefix="place-", dir=identity.home))
    path.chmod(0o755)
    own_folder(identity, path)
    yield path
    shutil.rmtree(path)


@pytest.fixture
def workspace(identity: Identity, place: Path) -> Path:
    """Return an empty workspace."""
    return own_folder(identity, place / "work")


@pytest.fixture
def supervised(identity: Identity, place: Path, workspace: Path) -> Iterator[Supervised]:
    """Return a running supervisor, for whom the workspace is the home folder."""
    with Supervised(identity, place / "state", environment={"HOME": str(workspace)}) as running:
        yield running


@pytest.fixture
def attacker(supervised: Supervised, workspace: Path, place: Path) -> Attacker:
    """Return who attacks."""
    return Attacker(supervised, workspace, place)


@pytest.fixture
def book(tmp_path: Path) -> Iterator[Notebook]:
    """Return a notebook on a live kernel, for whom the notebook's folder is the home folder."""
    with notebook(tmp_path, HOME=str(tmp_path / "work")) as running:
        yield running
