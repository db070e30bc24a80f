"""Reaching the host through the folders that a profile shows: sockets, pipes, locks, and what is covered there."""

from __future__ import annotations

import errno
import fcntl
import os
import socket
from typing import TYPE_CHECKING

import pytest
from waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from conftest import Attacker
    from live_kernel import Notebook
    from ordinary_user import Identity

pytestmark = [pytest.mark.sandbox, pytest.mark.requires("user_namespaces", "overlay")]

_F_SETLEASE = 1024


@pytest.fixture
def data(identity: Identity, place: Path) -> Path:
    """Return a folder of the user beside the workspace."""
    folder = place / "data"
    folder.mkdir(mode=0o755)
    if os.geteuid() == 0:
        os.chown(folder, identity.uid, identity.uid)
    return folder


@pytest.fixture
def listening(identity: Identity) -> Iterator[dict[str, socket.socket]]:
    """Return the sockets that services of the host listen on; a key is added by _listen."""
    del identity
    sockets: dict[str, socket.socket] = {}
    yield sockets
    for sock in sockets.values():
        sock.close()


def _listen(listening: dict[str, socket.socket], path: Path) -> str:
    directory = os.open(path.parent, os.O_PATH)  # a socket's name is short, a path may be long
    sock = listening[str(path)] = socket.socket(socket.AF_UNIX)
    sock.bind(f"/proc/self/fd/{directory}/{path.name}")
    os.close(directory)
    path.chmod(0o777)
    sock.listen(4)
    return f"""
os.chdir({str(path.parent)!r})
tell(tried(lambda: socket.socket(socket.AF_UNIX).connect({path.name!r})))
"""


def test_socket_of_the_host_in_the_workspace(attacker: Attacker, listening: dict[str, socket.socket]) -> None:
    attack = _listen(listening, attacker.workspace / "service")
    assert attacker.outside(attack) == "ok"
    assert attacker.inside(attack) == "ECONNREFUSED"


def test_socket_of_the_host_in_a_data_folder(
    attacker: Attacker, listening: dict[str, socket.socket], data: Path
) -> None:
    attack = _listen(listening, data / "service")
    assert attacker.outside(attack) == "ok"
    profile = attacker.profile(filesystem={"mounts": [{"path": str(data), "mode": "ro"}]})
    assert attacker.inside(attack, profile) == "ECONNREFUSED"


def test_socket_of_the_host_in_a_read_only_workspace(
    attacker: Attacker, identity: Identity, listening: dict[str, socket.socket]
) -> None:
    _listen(listening, attacker.workspace / "service")
    attack = f"""
os.chdir({str(attacker.workspace)!r})
sys.exit(socket.socket(socket.AF_UNIX).connect_ex("service"))
"""
    assert identity.run(*attacker.command(attack, "unused")).returncode == 0
    cause = attacker.cause(attack, attacker.profile(filesystem={"allow_write_overlay": False}))
    assert (cause["kind"], cause["status"]) == ("exit", errno.ECONNREFUSED)


def test_named_pipe_of_the_host_in_the_workspace(attacker: Attacker) -> None:
    pipe = attacker.workspace / "pipe"
    os.mkfifo(pipe)
    pipe.chmod(0o666)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    attack = f"tell(tried(lambda: os.open({str(pipe)!r}, os.O_WRONLY | os.O_NONBLOCK)))"
    try:
        assert attacker.outside(attack) == "ok"
        assert attacker.inside(attack) == "ENXIO"
    finally:
        os.close(reader)


def test_named_pipe_of_the_host_in_a_data_folder(attacker: Attacker, data: Path) -> None:
    pipe = data / "pipe"
    os.mkfifo(pipe)
    pipe.chmod(0o666)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    attack = f"tell(tried(lambda: os.open({str(pipe)!r}, os.O_WRONLY | os.O_NONBLOCK)))"
    profile = attacker.profile(filesystem={"mounts": [{"path": str(data), "mode": "ro"}]})
    try:
        assert attacker.outside(attack) == "ok"
        assert attacker.inside(attack, profile) == "ENXIO"  # the layer's own pipe, which nobody reads
    finally:
        os.close(reader)


def _hold(attacker: Attacker, data: Path, action: str) -> Path:
    file = data / "table"
    file.write_text("x")
    if os.geteuid() == 0:
        os.chown(file, data.stat().st_uid, data.stat().st_uid)
    attacker.start(
        f"held = os.open({str(file)!r}, os.O_RDONLY)\ntell(tried(lambda: {action}))\n"
        "while True:\n    signal.pause()",
        attacker.profile(filesystem={"mounts": [{"path": str(data), "mode": "ro"}]}),
    )
    wait_until(attacker.told, "the attack has what it wants")
    return file


def test_lease_on_a_file_of_a_data_folder(attacker: Attacker, data: Path) -> None:
    file = _hold(attacker, data, f"fcntl.fcntl(held, {_F_SETLEASE}, fcntl.F_RDLCK)")
    os.close(os.open(file, os.O_WRONLY | os.O_NONBLOCK))  # EAGAIN while a lease is there


def test_lease_on_any_file(attacker: Attacker) -> None:
    """As on those of the interpreter, which are shown as they are: who changes them would wait for the cell."""
    file = attacker.workspace / "leased"
    attack = (
        f"held = os.open({str(file)!r}, os.O_RDONLY | os.O_CREAT)\n"
        f"tell(tried(lambda: fcntl.fcntl(held, {_F_SETLEASE}, fcntl.F_RDLCK)))"
    )
    assert attacker.outside(attack) == "ok"
    assert attacker.inside(attack) == "EPERM"


def test_lock_on_a_file_of_a_data_folder(attacker: Attacker, data: Path) -> None:
    file = _hold(attacker, data, "fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)")
    with file.open() as opened:
        fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_secret_of_a_home_that_is_the_workspace(attacker: Attacker) -> None:
    folder = attacker.workspace / ".ssh"
    folder.mkdir()
    (folder / "id").write_text("decoy")
    (folder / "id").chmod(0o644)
    folder.chmod(0o755)
    attack = f"tell(tried(lambda: open({str(folder / 'id')!r})))"
    assert attacker.outside(attack) == "ok"
    assert attacker.inside(attack) == "ENOENT"


def test_secret_behind_a_link_of_a_home_that_is_the_workspace(attacker: Attacker) -> None:
    folder = attacker.workspace / "dotfiles" / "ssh"
    folder.mkdir(parents=True)
    (folder / "id").write_text("decoy")
    (folder / "id").chmod(0o644)
    folder.chmod(0o755)
    folder.parent.chmod(0o755)
    (attacker.workspace / ".ssh").symlink_to("dotfiles/ssh")
    attack = f"tell(tried(lambda: open({str(attacker.workspace / '.ssh' / 'id')!r})))"
    assert attacker.outside(attack) == "ok"
    assert attacker.inside(attack) == "ENOENT"


def test_secret_that_appears_later_in_a_home_that_is_the_workspace(book: Notebook, tmp_path: Path) -> None:
    secret = tmp_path / "work" / ".netrc"
    assert book.run("open('.netrc')").reply["ename"] == "FileNotFoundError"
    secret.write_text("decoy")
    (tmp_path / "work" / "other").write_text("seen")  # positive control: what comes later is seen
    assert book.run("print(open('other').read())").text == "seen\n"
    assert book.run("print(open('.netrc').read())").text != "decoy\n"


@pytest.mark.parametrize("shown", ["workspace", "data", "sealed"])
def test_hidden_name_that_the_host_uses_later(attacker: Attacker, data: Path, shown: str) -> None:
    folder = attacker.workspace if shown == "workspace" else data
    (folder / "conf").mkdir()
    (folder / "conf" / "old").write_text("x")
    (folder / "conf" / "go").touch()
    (folder / "link").symlink_to("/nowhere")
    names = ["conf/key.pem", "conf/old", "later/deep/key.pem", ".env", "link"]
    attack = f"""
import time
os.chdir({str(folder)!r})
before = sorted(os.listdir())
open({str(attacker.workspace / "ready")!r}, "w").close()
while not open("conf/go").read():
    time.sleep(0.01)
for name in {names!r}:
    for way in (os.unlink, os.rmdir):
        tried(lambda: way(name))
tried(lambda: os.makedirs("later/deep"))
tried(lambda: os.rename("conf", "moved"))
def secret(name):
    try:
        return open(name).read()
    except OSError:
        return ""
found = {{name: secret(name) for name in {names!r}}}
found["seen/it"] = secret("seen/it")
tell([before, found, sorted(os.listdir("conf"))])
while True:
    signal.pause()
"""
    mode = "ro" if shown == "sealed" else "overlay"
    mounts = [] if shown == "workspace" else [{"path": str(data), "mode": mode}]
    hidden = [str(folder / name) for name in names]
    attacker.start(attack, attacker.profile(filesystem={"mounts": mounts, "hidden": hidden}))
    wait_until(lambda: _exists(attacker.supervised.upper, "ready"), "the attack runs")
    for name in names:
        made = folder / name
        made.parent.mkdir(parents=True, exist_ok=True)
        (folder / "new").write_text(f"decoy {name}")
        (folder / "new").chmod(0o644)
        (folder / "new").rename(made)  # as editors save
    (folder / "seen").mkdir()
    (folder / "seen" / "it").write_text("seen")  # positive control: what comes later is seen
    (folder / "conf" / "go").write_text("go")
    wait_until(attacker.told, "the attack has looked")
    before, found, conf = attacker.so_far()
    assert {one for one in before if one != "attack.py"} == {"conf"}
    assert found == {**dict.fromkeys(names, ""), "seen/it": "seen"}
    assert "key.pem" not in conf


def _exists(folder: int, name: str) -> bool:
    try:
        os.stat(name, dir_fd=folder)
    except FileNotFoundError:
        return False
    return True


def test_salvage_follows_nothing_and_copies_no_device(attacker: Attacker) -> None:
    attack = r"""
os.chdir(os.path.dirname(sys.argv[1]))
os.symlink("/etc/passwd", "link")
os.symlink("/etc", "folder")
os.mkfifo("pipe")
socket.socket(socket.AF_UNIX).bind("socket")
open("new\nline", "w").write("x")
open(b"not utf-8 \xff", "w").write("x")
with open("sparse", "wb") as file:
    file.truncate(1 << 40)
os.chmod("sparse", 0o2777)
os.utime("new\nline", (2**40, -(2**40)))
tell(sorted(os.listdir()))
"""
    names = attacker.inside(attack)
    assert {"link", "folder", "pipe", "socket"} <= set(names)  # positive control: they were made
    saved = next(event for event in attacker.supervised.events if event["event"] == "artifacts")
    folder = os.path.join(saved["path"], "files")
    found = {name: os.lstat(os.path.join(folder, name)) for name in os.listdir(folder)}
    assert set(found) == {"new\nline", "not utf-8 \udcff", "sparse", "inside.json"}
    assert all(status.st_mode & 0o170000 == 0o100000 for status in found.values())
    assert not any(status.st_mode & 0o7111 for status in found.values())
    assert found["sparse"].st_blocks == 0


def test_salvage_stores_a_file_with_many_names_once(attacker: Attacker) -> None:
    attack = r"""
os.chdir(os.path.dirname(sys.argv[1]))
open("payload", "wb").write(os.urandom(1 << 20))
for index in range(60):
    os.link("payload", f"name{index}")
tell(os.stat("payload").st_nlink)
"""
    assert attacker.inside(attack) == 61  # positive control: the names were made
    saved = next(event for event in attacker.supervised.events if event["event"] == "artifacts")
    found = [entry.stat() for entry in os.scandir(os.path.join(saved["path"], "files"))]
    assert len(found) == 62  # and what the attack tells
    assert sum({status.st_ino: status.st_blocks * 512 for status in found}.values()) < 2 << 20
