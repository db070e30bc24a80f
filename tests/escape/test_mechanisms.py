"""Mechanisms of escape by the table: each tried in a cell, by whoever started the kernel; none gets what it is after.

What does no harm is tried outside as well, by the same user: there it works, or reaches the call.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
import socket
import subprocess
import tempfile
import threading
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from supervised import VICTIMS, own_folder

from sentinel_kernel.abi.architecture import architecture_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ordinary_user import Identity

pytestmark = [pytest.mark.sandbox, pytest.mark.requires("user_namespaces", "overlay")]

_LEAST = 150
"""Distinct mechanisms; what differs in one word alone (a family of sockets, a namespace) counts as five at most."""
_MOST_VARIANTS = 5
_SECRETS = {
    "a private key": ".ssh/id_ed25519",
    "keys of a cloud": ".aws/credentials",
    "settings of the notebook server": ".jupyter/jupyter_server_config.py",
    "startup code of IPython": ".ipython/profile_default/startup/00.py",
    "what was typed": ".bash_history",
    "passwords of a browser": ".mozilla/firefox/logins.json",
    "a token of a registry": ".pypirc",
    "keys of gpg": ".gnupg/private.key",
    "a file of another project": "other/secret",
}


_KILLED = [
    *("ptrace", "mount", "umount2", "pivot_root", "setns", "unshare", "reboot", "kexec_load", "init_module"),
    *("finit_module", "delete_module", "create_module", "swapon", "swapoff", "iopl", "ioperm", "bpf"),
    *("perf_event_open", "userfaultfd"),
]


class Host:
    """What a cell might be after: files, services and a process of who started the kernel."""

    def __init__(self, identity: Identity, place: Path) -> None:
        self.identity = identity
        self.canary = f"canary-{secrets.token_hex(8)}"
        self.home = own_folder(identity, place / "home")
        self.workspace = own_folder(identity, self.home / "work")
        self.runtime = own_folder(identity, place / "runtime")
        (place / "sockets").mkdir(mode=0o755)
        self._closing = contextlib.ExitStack()
        for path in (*_SECRETS.values(), "work/given.txt"):
            self._file(self.home / path)
        shutil.copytree(
            VICTIMS / "mechanisms", self.workspace / "mechanisms", ignore=shutil.ignore_patterns("__*")
        )
        abstract = f"sentinel-tests-{secrets.token_hex(6)}"
        port = self._listen(socket.AF_INET, ("127.0.0.1", 0)).getsockname()[1]
        self._listen(socket.AF_UNIX, f"\0{abstract}")
        for path in (place / "sockets" / "path.sock", self.workspace / "service.sock"):
            self._listen(socket.AF_UNIX, str(path))
            path.chmod(0o777)
        process = subprocess.Popen(
            [*identity.prefix, identity.python, "-c", "import sys; sys.stdin.read()", self.canary],
            stdin=subprocess.PIPE,
            env=identity.environment(),
            cwd="/",
        )
        self._closing.callback(process.wait)
        self._closing.callback(lambda: process.stdin.close() if process.stdin else None)
        # What strict ends the sandbox for is refused here, so that one cell can try it all.
        profiles = own_folder(identity, self.runtime / "sentinel-kernel" / "profiles")
        own_folder(identity, profiles.parent)
        (profiles / "attacked.json").write_text(
            json.dumps({"extends": "strict", "syscall_rules": [{"names": _KILLED, "action": "NOTIFY"}]})
        )
        targets = {
            "canary": self.canary,
            "secrets": {name: str(self.home / path) for name, path in _SECRETS.items()},
            "outside": str(self.home / "other" / "secret"),
            "connection": str(self.runtime / "kernel-escape.json"),
            "port": port,
            "abstract": abstract,
            "path": str(place / "sockets" / "path.sock"),
            "pid": process.pid,
            "state": str(self.home / ".local"),
            "python": str(Path(identity.python).parents[1]),
            "numbers": dict(architecture_of(os.uname().machine).syscalls),
        }
        (self.workspace / "targets.json").write_text(json.dumps(targets))
        self._file(
            self.runtime / "kernel-escape.json"
        )  # for who tries it outside; the kernel's start writes its own
        if os.geteuid() == 0:
            for folder, _, names in os.walk(self.home):
                for name in (".", *names):
                    os.chown(os.path.join(folder, name), identity.uid, identity.uid)

    def _file(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(self.canary)
        path.chmod(0o600)
        if os.geteuid() == 0:
            os.chown(path, self.identity.uid, self.identity.uid)

    def _listen(self, family: int, address: Any) -> socket.socket:
        sock = self._closing.enter_context(socket.socket(family))
        sock.bind(address)
        sock.listen(8)
        threading.Thread(target=self._answer, args=(sock,), daemon=True).start()
        return sock

    def _answer(self, sock: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while True:
                with sock.accept()[0] as peer, contextlib.suppress(OSError):
                    peer.sendall(self.canary.encode())

    def environment(self) -> dict[str, str]:
        return self.identity.environment() | {
            "HOME": str(self.home),
            "MY_API_TOKEN": self.canary,
            "SENTINEL_SPARE": "off",
            "SENTINEL_CEILING": "attacked",
            "XDG_CONFIG_HOME": str(self.runtime),
            "LANG": "C.UTF-8",
        }

    def outside(self) -> dict[str, Any]:
        """Try them without a sandbox, as the same user."""
        script = self.workspace / "mechanisms" / "run.py"
        result = self.workspace / "outside.json"
        self.identity.run(
            self.identity.python, str(script), str(result), str(self.workspace / "targets.json"), "outside",
            cwd=self.workspace, env=self.environment(), timeout=240,
        )  # fmt: skip
        return json.loads(result.read_text())  # type: ignore[no-any-return]

    def inside(self) -> dict[str, Any]:
        """Try them in a cell."""
        drive = str(self.workspace / "mechanisms" / "drive.py")
        done = self.identity.run(
            *(self.identity.python, drive, str(self.workspace), str(self.runtime), self.canary, "attacked"),
            cwd="/",
            env=self.environment(),
            timeout=280,
        )
        told: dict[str, Any] = json.loads(done.stdout)
        assert "error" not in told, told
        return told

    def close(self) -> None:
        self._closing.close()


@pytest.fixture
def host(identity: Identity) -> Iterator[Host]:
    """Yield what there is to get, made for one user."""
    place = Path(tempfile.mkdtemp(prefix="place-", dir=identity.home))
    place.chmod(0o755)
    own_folder(identity, place)
    made = Host(identity, place)
    yield made
    made.close()
    shutil.rmtree(place)


def _expected(value: Any, identity: Identity) -> Any:
    return value[0 if identity.uid == 0 else 1] if isinstance(value, list) else value


def _kinds(names: list[str]) -> int:
    """Return how many mechanisms there are where variants of one count as five at most."""
    variants = Counter(
        name.rsplit(" ", 1)[0] if name.startswith(("sockets: family", "namespaces: unshare")) else name
        for name in names
    )
    return sum(min(count, _MOST_VARIANTS) for count in variants.values())


def test_no_mechanism_gets_what_it_is_after(
    host: Host, record_property: Callable[[str, object], None]
) -> None:
    outside, inside = host.outside(), host.inside()
    given = (host.workspace / "given.txt").read_text()
    wrong = []
    table: dict[str, list[int]] = {}
    for name, one in inside.items():
        control = _expected(one["outside"], host.identity)
        got, there = one["got"], outside[name]["got"]
        if got not in one["inside"].split("|"):
            wrong.append(f"{name}: {got} inside, not {one['inside']}")
        if control == "reached":
            control = there if there != got or got == "ENOSYS" else "what it is not inside"
        if control not in (None, "any", there):
            wrong.append(f"{name}: {there} outside, not {control}")
        row = table.setdefault(one["category"], [0, 0, 0])
        row[0] += 1
        row[1] += got == "ok"
        row[2] += control is not None and there != got
    rows = [
        f"{category:20} {tried:5} {won:9} {controls:8}" for category, (tried, won, controls) in table.items()
    ]
    head = f"{'category':20} {'tried':5} {'successes':9} {'controls':8}"
    record_property(
        "figures", "\n".join([head, *rows, f"{_kinds(list(inside))} mechanisms as {host.identity.name}"])
    )
    assert not wrong, "\n".join(wrong)
    assert given == host.canary + "changed by a cell"  # by the try outside alone
    assert _kinds(list(inside)) >= _LEAST
