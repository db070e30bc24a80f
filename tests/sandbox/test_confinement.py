"""What a process in the sandbox is and can reach, seen from inside and from the host, as root and as ordinary user."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from leaks import descendants
from waiting import wait_until

if TYPE_CHECKING:
    from ordinary_user import Identity
    from supervised import Supervised

pytestmark = [pytest.mark.sandbox, pytest.mark.requires("user_namespaces", "overlay")]


def look(supervised: Supervised, workspace: Path, *questions: str, profile: str = "strict") -> dict[str, Any]:
    """Run the victim that looks around and return what it saw."""
    report = workspace / "report.json"
    command = [supervised.python, str(workspace / "look_around.py"), str(report), *questions]
    cause = supervised.run(workspace, command, profile)
    assert cause["kind"] == "exit", (cause, supervised.events)
    assert cause["status"] == 0, (cause, supervised.events)
    saved: dict[str, Any] = supervised.saved_json("report.json")
    return saved


def look_outside(identity: Identity, workspace: Path, *questions: str) -> dict[str, Any]:
    """The positive control: the same victim, the same user, no sandbox."""
    import json

    report = workspace / "control.json"
    identity.run(identity.python, str(workspace / "look_around.py"), str(report), *questions)
    control: dict[str, Any] = json.loads(report.read_text())
    report.unlink()
    return control


def test_no_capability_no_new_privileges_and_a_filter(supervised: Supervised, workspace: Path) -> None:
    status = look(supervised, workspace)["status"]
    for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
        assert int(status[name], 16) == 0, name
    assert status["NoNewPrivs"] == "1"
    assert status["Seccomp"] == "2"


def test_the_user_inside_is_not_root_and_has_no_other_group(supervised: Supervised, workspace: Path) -> None:
    report = look(supervised, workspace)
    assert report["uid"] != 0
    assert report["gid"] != 0
    assert set(report["groups"]) <= {report["gid"]}
    expected = 1000 if supervised.identity.uid == 0 else supervised.identity.uid
    assert report["uid"] == expected


def test_seen_from_the_host_it_is_not_root_either(supervised: Supervised, workspace: Path) -> None:
    supervised.start(workspace, payload=["/bin/sleep", "600"])
    supervised.wait("ready")
    inside = descendants(supervised.process.pid)
    assert inside
    for pid in inside:
        status = Path(f"/proc/{pid}/status").read_text()
        uids = re.search(r"^Uid:\s+(.*)$", status, re.MULTILINE)
        gids = re.search(r"^Gid:\s+(.*)$", status, re.MULTILINE)
        groups = re.search(r"^Groups:\s*(.*)$", status, re.MULTILINE)
        assert uids is not None
        assert gids is not None
        assert groups is not None
        assert "0" not in uids[1].split()
        assert "0" not in gids[1].split()
        assert "0" not in groups[1].split()
        maps = Path(f"/proc/{pid}/uid_map").read_text().split()
        assert len(maps) == 3
        assert maps[2] == "1"
        assert maps[1] != "0"


def test_only_the_listed_descriptors_are_open(supervised: Supervised, workspace: Path) -> None:
    descriptors = look(supervised, workspace)["descriptors"]
    assert set(descriptors) <= {"0", "1", "2", "3"}
    assert descriptors["0"] == descriptors["1"] == "/dev/null"
    assert descriptors["2"].startswith("pipe:")
    assert descriptors["3"].startswith("socket:")


def test_no_secret_of_the_host_is_in_the_environment(
    identity: Identity, place: Path, workspace: Path
) -> None:
    from supervised import Supervised

    secrets = {
        "JPY_API_TOKEN": "decoy-1", "AWS_SECRET_ACCESS_KEY": "decoy-2", "SSH_AUTH_SOCK": "/run/decoy-3",
        "DBUS_SESSION_BUS_ADDRESS": "unix:path=/run/decoy-4", "MY_PRIVATE_THING": "decoy-5",
    }  # fmt: skip
    with Supervised(identity, place / "state", environment=secrets) as running:
        seen = look(running, workspace)["environment"]
    assert "decoy" not in str(seen)
    assert not set(secrets) & set(seen)
    assert {"HOME", "PATH", "TMPDIR", "USER", "LANG"} <= set(seen)


def test_core_dumps_cannot_start_a_helper_of_the_host(supervised: Supervised, workspace: Path) -> None:
    assert look(supervised, workspace)["core"] == [1, 1]


def test_it_leads_a_session_of_its_own(supervised: Supervised, workspace: Path) -> None:
    report = look(supervised, workspace)
    assert report["session_leader"]
    assert report["pid"] == 1
    assert report["hostname"] == "sentinel"
    assert report["interfaces"] == ["lo"]


def test_the_root_is_a_skeleton_and_read_only(supervised: Supervised, workspace: Path) -> None:
    report = look(
        supervised, workspace, "write=/new", "write=/usr/new", "write=/etc/passwd",
        "write=/proc/sys/kernel/core_pattern", "write=/proc/sysrq-trigger",
        "read=/proc/kcore", "list=/proc/acpi", "read=/etc/shadow", "read=/dev/kvm",
    )  # fmt: skip
    answers = report["answers"]
    assert answers["write=/new"] == "EROFS"
    assert answers["write=/usr/new"] == "EROFS"
    assert answers["write=/etc/passwd"] == "EROFS"
    for path in ("/proc/sys/kernel/core_pattern", "/proc/sysrq-trigger"):
        assert answers[f"write={path}"] in ("EROFS", "EACCES", "ENOENT")  # whichever comes first here
    assert answers["read=/etc/shadow"] == "ENOENT"
    assert answers["read=/dev/kvm"] == "ENOENT"
    devices = {
        "fd",
        "full",
        "null",
        "ptmx",
        "pts",
        "random",
        "shm",
        "stderr",
        "stdin",
        "stdout",
        "tty",  # what a program inside has opened for itself: the sandbox leads a session, and has none
        "urandom",
        "zero",
    }
    assert set(report["devices"]) == devices


def test_every_mount_of_the_host_is_read_only_inside(supervised: Supervised, workspace: Path) -> None:
    writable = []
    for line in look(supervised, workspace)["mounts"]:
        before, _, after = line.partition(" - ")
        point, options = before.split(" ")[4:6]
        kind = after.split(" ")[0]
        if "ro" not in options.split(",") and kind not in ("tmpfs", "overlay", "proc", "devpts", "devtmpfs"):
            writable.append((point, kind))
    assert writable == []


def test_a_secret_in_the_home_is_out_of_reach(
    supervised: Supervised, workspace: Path, identity: Identity
) -> None:
    secret = identity.home / "secret-decoy.txt"
    secret.write_text("decoy")
    hidden = identity.home / ".ssh"
    hidden.mkdir(exist_ok=True)
    (hidden / "id_decoy").write_text("decoy")
    for path in (secret, hidden, hidden / "id_decoy"):
        if os.geteuid() == 0:
            os.chown(path, identity.uid, identity.uid)
    questions = [f"read={secret}", f"read={hidden / 'id_decoy'}"]
    outside = look_outside(identity, workspace, *questions)["answers"]
    assert set(outside.values()) == {"ok"}
    inside = look(supervised, workspace, *questions)["answers"]
    assert set(inside.values()) == {"ENOENT"}


@pytest.mark.parametrize("profile", ["strict", "datascience", "web"])
def test_the_hosts_sockets_are_out_of_reach(
    supervised: Supervised, workspace: Path, identity: Identity, profile: str
) -> None:
    folder = Path(tempfile.mkdtemp(prefix="decoy-", dir="/run" if os.access("/run", os.W_OK) else None))
    folder.chmod(0o755)
    path = folder / "live.sock"
    beside = workspace / "live.sock"
    with socket.socket(socket.AF_UNIX) as unix, socket.socket(socket.AF_UNIX) as near, socket.socket() as tcp:
        unix.bind(str(path))
        near.bind(str(beside))
        path.chmod(0o777)
        beside.chmod(0o777)
        tcp.bind(("127.0.0.1", 0))
        for listener in (unix, near, tcp):
            listener.listen(8)
        questions = [f"unix={path}", f"unix={beside}", f"tcp={tcp.getsockname()[1]}"]
        outside = look_outside(identity, workspace, *questions)["answers"]
        assert set(outside.values()) == {"ok"}
        inside = look(supervised, workspace, *questions, profile=profile)["answers"]
    beside.unlink()
    path.unlink()
    folder.rmdir()
    assert inside[questions[0]] == "ENOENT"
    # Seen through the overlay, but nobody listens: an overlay's socket is another object than the host's.
    assert inside[questions[1]] == "ECONNREFUSED"
    assert inside[questions[2]] == ("EPERM" if profile == "strict" else "ECONNREFUSED")


def test_no_nested_user_namespace(supervised: Supervised, workspace: Path, identity: Identity) -> None:
    (workspace / "nested.sh").write_text(
        "unshare -U true; echo $? > nested; cat /proc/sys/user/max_user_namespaces >> nested\n"
    )
    control = identity.run("unshare", "-U", "true", check=False)
    assert control.returncode == 0, control.stderr
    supervised.run(workspace, ["/bin/sh", "-c", f"cd '{workspace}' && sh nested.sh"])
    if any(event["event"] == "artifacts" for event in supervised.events) or not supervised.violations():
        code, limit = supervised.saved_file("nested").split()
        assert code != b"0"
        assert limit == b"0"
    assert any(violation["syscall"] == "unshare" for violation in supervised.violations())


def test_the_host_keeps_its_own_mounts(supervised: Supervised, workspace: Path) -> None:
    before = Path("/proc/self/mountinfo").read_text()
    look(supervised, workspace)
    assert Path("/proc/self/mountinfo").read_text() == before


def test_what_is_written_in_the_workspace_stays_off_the_host(supervised: Supervised, workspace: Path) -> None:
    for name in ("mine.txt", "gone.txt"):
        (workspace / name).write_text("host")
        if os.geteuid() == 0:
            os.chown(workspace / name, supervised.identity.uid, supervised.identity.uid)
    before = sorted(os.listdir(workspace))
    changes = (
        "echo new > mine.txt && mkdir deep && echo x > deep/file && rm gone.txt && ln -s /etc/passwd link"
    )
    script = f"cd '{workspace}' && {changes}"
    assert supervised.run(workspace, ["/bin/sh", "-c", script])["status"] == 0
    saved = supervised.wait("artifacts")
    assert sorted(os.listdir(workspace)) == before
    assert (workspace / "mine.txt").read_text() == "host"
    assert supervised.saved_file("mine.txt") == b"new\n"
    assert supervised.saved_file("deep/file") == b"x\n"
    assert saved["files"] == 2
    manifest = (Path(saved["path"]) / "manifest.json").read_text()
    assert "gone.txt" in manifest
    assert not (Path(saved["path"]) / "files" / "link").is_symlink()
    assert any("link" in text for text in saved["skipped"])


def test_a_file_uploaded_after_a_failed_open_is_seen_by_the_next_cell(
    supervised: Supervised, workspace: Path
) -> None:
    script = (
        f"cd '{workspace}'; cat late.txt && exit 9; echo > asked; "
        "while [ ! -e go ]; do sleep 0.02; done; cat late.txt > seen; cat module.py >> seen"
    )
    (workspace / "module.py").write_text("old\n")
    supervised.start(workspace, payload=["/bin/sh", "-c", script])
    supervised.wait("ready")
    wait_until(lambda: "asked" in os.listdir(f"/proc/self/fd/{supervised.upper}"), "the payload asked")
    (workspace / "late.txt").write_text("late\n")
    replaced = workspace / "module.py.tmp"
    replaced.write_text("new\n")
    replaced.rename(workspace / "module.py")  # as JupyterLab saves
    (workspace / "go").write_text("")
    assert supervised.reply(supervised.request("begin_cell", msg_id="1"))["ok"]
    assert supervised.wait("worker_died")["cause"]["status"] == 0
    assert supervised.saved_file("seen") == b"late\nnew\n"


def test_processes_of_the_host_are_not_seen(supervised: Supervised, workspace: Path) -> None:
    sleeper = subprocess.Popen(["/bin/sleep", "600"])
    try:
        report = look(supervised, workspace, f"list=/proc/{sleeper.pid}")
    finally:
        sleeper.kill()
        sleeper.wait()
    assert report["answers"][f"list=/proc/{sleeper.pid}"] == "ENOENT"
