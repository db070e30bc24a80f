"""Folders that are shown while the sandbox runs: what is seen and written there, what is not reached through them."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import subprocess
from typing import TYPE_CHECKING, Any

import pytest
from supervised import own_folder
from waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from ordinary_user import Identity
    from supervised import Supervised

pytestmark = [pytest.mark.sandbox, pytest.mark.requires("user_namespaces", "overlay")]

# Runs one request after the other, which lie in the folder of requests, and writes the answers into the workspace.
_SERVER = """
import errno, json, os, socket, sys, time

def tried(action):
    try:
        return action()
    except OSError as error:
        return errno.errorcode[error.errno]

home, number, kept = os.getcwd(), 0, {"a variable": [1, 2, 3]}
while True:
    try:
        with open(f"{home}/request-{number}.py") as file:
            code = file.read()
    except FileNotFoundError:
        time.sleep(0.005)
        continue
    got = {}
    os.chdir(home)
    exec(code, {"tried": tried, "got": got, "kept": kept, "os": os, "socket": socket})
    os.chdir(home)
    with open(f"answer-{number}.part", "w") as file:
        json.dump(got, file)
    os.rename(f"answer-{number}.part", f"answer-{number}.json")
    number += 1
"""


class Shown:
    """A sandbox whose one program runs what the test asks for."""

    def __init__(
        self, supervised: Supervised, workspace: Path, profile: str = "strict", **fields: Any
    ) -> None:
        self.supervised = supervised
        self.workspace = workspace
        self._number = 0
        command = f"import os; os.chdir({str(workspace)!r})\n{_SERVER}"
        supervised.start(workspace, profile, payload=[supervised.python, "-c", command], **fields)
        self.ready = supervised.wait("ready")

    def mount(self, do: str, **fields: Any) -> dict[str, Any]:
        """Ask the supervisor about folders."""
        return self.supervised.reply(self.supervised.request("mount", do=do, **fields))

    def add(self, path: Path, mode: str = "ro") -> dict[str, Any]:
        """Look at a folder and show it."""
        looked = self.mount("look", path=str(path), mode=mode)
        assert looked["done"], looked
        return self.mount("add", path=looked["path"], mode=mode, identity=looked["identity"])

    def inside(self, code: str) -> dict[str, Any]:
        """Run ``code`` inside; it puts what it found into ``got``."""
        number, self._number = self._number, self._number + 1
        request = self.workspace / f"request-{number}.py"
        part = self.workspace / "part"
        part.write_text(code)
        part.chmod(0o644)
        part.rename(request)
        self.supervised.reply(self.supervised.request("begin_cell", msg_id=str(number)))
        answer = f"answer-{number}.json"

        def told() -> bool:
            try:
                os.stat(answer, dir_fd=self.supervised.upper)
            except FileNotFoundError:
                return False
            return True

        wait_until(told, f"the answer {number}")
        descriptor = os.open(answer, os.O_RDONLY, dir_fd=self.supervised.upper)
        with os.fdopen(descriptor) as file:
            result: dict[str, Any] = json.load(file)
        return result


@pytest.fixture
def shown(supervised: Supervised, place: Path, identity: Identity) -> Shown:
    """Return a sandbox that runs."""
    return Shown(supervised, own_folder(identity, place / "work"))


@pytest.fixture
def closing() -> Iterator[contextlib.ExitStack]:
    """Return what is closed at the test's end."""
    with contextlib.ExitStack() as stack:
        yield stack


@pytest.fixture
def data(identity: Identity, place: Path) -> Path:
    """Return a folder beside the workspace with a file, a socket that is listened on, and a named pipe."""
    folder = own_folder(identity, place / "my data, one: two")
    folder.chmod(0o755)
    (folder / "table.csv").write_text("a,b\n1,2\n")
    os.mkfifo(folder / "pipe", 0o666)
    if os.geteuid() == 0:
        for path in (folder / "table.csv", folder / "pipe"):
            os.chown(path, identity.uid, identity.uid)
    return folder


_REACHED = """
os.chdir(FOLDER)
got["uid"] = os.stat("table.csv").st_uid == os.getuid()
got["read"] = open("table.csv").read()
got["socket"] = tried(lambda: socket.socket(socket.AF_UNIX).connect("service"))
got["pipe"] = tried(lambda: os.close(os.open("pipe", os.O_WRONLY | os.O_NONBLOCK)))
got["write"] = tried(lambda: open("new.csv", "w").write("x"))
got["lease"] = tried(lambda: __import__("fcntl").fcntl(os.open("table.csv", os.O_RDONLY), 1024, 0))
"""


@pytest.mark.parametrize("mode", ["ro", "rw"])
def test_folder_is_shown_in_the_running_sandbox_and_leads_to_nothing_of_the_host(
    shown: Shown, data: Path, mode: str, closing: contextlib.ExitStack
) -> None:
    place = os.open(data, os.O_PATH)
    reader = os.open(data / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    closing.callback(os.close, place)
    closing.callback(os.close, reader)
    with socket.socket(socket.AF_UNIX) as service:
        service.bind(f"/proc/self/fd/{place}/service")
        (data / "service").chmod(0o777)
        service.listen(4)
        # Positive control: outside both are reached.
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(f"/proc/self/fd/{place}/service")
        os.close(os.open(data / "pipe", os.O_WRONLY | os.O_NONBLOCK))
        assert shown.inside("kept['b'] = 7; got['there'] = os.listdir('/mnt')") == {"there": []}
        told = shown.add(data, mode)
        assert told["done"], str(told)
        target = told["mount"]["target"]
        assert target == "/mnt/my_data__one__two"
        got = shown.inside(_REACHED.replace("FOLDER", repr(target)) + "got['kept'] = kept")
        assert got == {
            "uid": True,
            "read": "a,b\n1,2\n",
            "socket": "ECONNREFUSED",
            "pipe": "ENXIO",
            "write": "EROFS" if mode == "ro" else 1,
            "lease": "EPERM",
            "kept": {"a variable": [1, 2, 3], "b": 7},
        }
        assert (data / "new.csv").exists() == (mode == "rw")
        if mode == "rw":
            assert (data / "new.csv").stat().st_uid == data.stat().st_uid
        # The lease was taken on the layer's file: the host's can be opened for writing at once.
        os.close(os.open(data / "table.csv", os.O_WRONLY | os.O_NONBLOCK))
        (data / "table.csv").write_text("newer")
        (data / "later.csv").write_text("x")
        newer = f"got['read'] = open({target!r} + '/table.csv').read()\ngot['names'] = sorted(os.listdir({target!r}))"
        got = shown.inside(newer)
        assert (got["read"], "later.csv" in got["names"]) == ("newer", True)
    assert shown.mount("list")["mounts"] == [told["mount"]]
    assert shown.mount("remove", name="my_data__one__two")["done"]
    assert shown.inside(f"got['left'] = os.path.exists({target!r})") == {"left": False}
    assert shown.mount("list")["mounts"] == []
    assert not [name for name in os.listdir(data.parent) if name.startswith(".sentinel")]


def test_folder_is_shown_in_another_mode_at_the_same_place_and_work_folders_of_the_dead_are_swept(
    shown: Shown, data: Path, identity: Identity
) -> None:
    target = shown.add(data)["mount"]["target"]
    write = f"got['wrote'] = tried(lambda: open({target!r} + '/new', 'w').write('x'))"
    assert shown.inside(write) == {"wrote": "EROFS"}
    # One that a supervisor left when it was killed, and in it what a cell may put there: a link to elsewhere.
    left = own_folder(identity, data.parent / ".sentinel-work-left")
    elsewhere = own_folder(identity, data.parent / "elsewhere")
    elsewhere.chmod(0o755)
    (left / "work").symlink_to(elsewhere)
    assert shown.add(data, "rw")["mount"]["target"] == target
    assert shown.inside(write) == {"wrote": 1}
    assert (data / "new").read_text() == "x"
    assert (left.exists(), elsewhere.stat().st_mode & 0o777) == (False, 0o755)
    for _ in range(2):
        assert shown.add(data)["mount"]["target"] == target
        assert shown.inside(write) == {"wrote": "EROFS"}
    # Another folder of the same name is another one, also where the first has not gone.
    data.rename(data.parent / "former")
    own_folder(identity, data)
    assert shown.add(data)["mount"]["target"] == target
    assert shown.inside(f"got['names'] = os.listdir({target!r})") == {"names": []}
    assert len(shown.mount("list")["mounts"]) == 1


def test_secrets_stay_hidden_and_links_and_mounts_below_are_told_of(
    shown: Shown, data: Path, identity: Identity, closing: contextlib.ExitStack
) -> None:
    secret = own_folder(identity, identity.home / ".ssh")
    closing.callback(shutil.rmtree, secret)
    (secret / "id").write_text("a secret")
    word = identity.home / ".netrc"
    closing.callback(word.unlink)
    word.write_text("a secret")
    for path in (secret / "id", word):
        path.chmod(0o644)
        if os.geteuid() == 0:
            os.chown(path, identity.uid, identity.uid)
    told = shown.add(identity.home)
    target = told["mount"]["target"]
    got = shown.inside(
        f"got['folder'] = os.listdir({target!r} + '/.ssh')\ngot['file'] = open({target!r} + '/.netrc').read()\n"
        f"got['seen'] = os.path.exists({target!r} + {str(data)[len(str(identity.home)) :]!r} + '/table.csv')"
    )
    assert got == {"folder": [], "file": "", "seen": True}
    assert shown.mount("look", path=str(secret))["code"] == "secret"
    # A link is followed before anything is asked: it is the folder that counts.
    link = data.parent / "link"
    link.symlink_to(secret)
    assert shown.mount("look", path=str(link))["code"] == "secret"
    link.unlink()
    link.symlink_to(data)
    assert shown.mount("look", path=str(link))["path"] == str(data)
    # What the person has agreed to is the folder that was looked at, and no other one of its name.
    assert shown.mount("add", path=str(data), mode="ro", identity=[1, 2])["code"] == "changed"
    own_folder(identity, data / ".git")
    assert shown.mount("look", path=str(data), mode="rw")["code"] == "host_runs"
    if os.geteuid() == 0:
        inner = own_folder(identity, data / "inner")
        subprocess.run(["mount", "-t", "tmpfs", "sentinel-test", str(inner)], check=True)
        closing.callback(subprocess.run, ["umount", str(inner)], check=True)
        looked = shown.mount("look", path=str(data))
        assert looked.get("code") == (None if identity.uid == 0 else "mounts_below")


def test_folder_that_a_profile_wants_written_is_read_only_until_it_is_mounted_at_its_own_place(
    supervised: Supervised, identity: Identity, place: Path, data: Path
) -> None:
    profiles = own_folder(identity, place / "profiles")
    mounts = [{"path": str(data), "mode": "rw"}]
    (profiles / "writing.json").write_text(
        json.dumps({"extends": "strict", "filesystem": {"mounts": mounts}})
    )
    (profiles / "writing.json").chmod(0o644)
    work = own_folder(identity, place / "work")
    shown = Shown(supervised, work, "writing", profile_directories=[str(profiles)])
    assert shown.ready["writable"] == [str(data)]
    write = f"got['wrote'] = tried(lambda: open({str(data)!r} + '/new', 'w').write('x'))"
    assert shown.inside(write) == {"wrote": "EROFS"}
    looked = shown.mount("look", path=str(data), mode="rw")
    fields = {"path": str(data), "mode": "rw", "target": str(data), "identity": looked["identity"]}
    assert shown.mount("add", **fields)["done"]
    assert shown.inside(write) == {"wrote": 1}
    assert (data / "new").read_text() == "x"
    assert shown.mount("add", **fields)["done"]  # once more is the same one
    assert len(shown.mount("list")["mounts"]) == 1
    assert shown.mount("remove", name=str(data))["code"] == "unknown_name"
    # Beside it the folder is read below /mnt, at one place, however often that is asked for.
    assert len({shown.add(data)["mount"]["target"] for _ in range(3)}) == 1
    assert len(shown.mount("list")["mounts"]) == 2
    # Another folder of the same name is not taken for the one that cells write to.
    former = data.rename(data.parent / "former")
    own_folder(identity, data)
    fields["identity"] = shown.mount("look", path=str(data), mode="rw")["identity"]
    assert shown.mount("add", **fields).get("code") == "replaced"
    assert shown.inside(write.replace("/new", "/newer")) == {"wrote": 1}
    assert ((former / "newer").exists(), list(data.iterdir())) == (True, [])
