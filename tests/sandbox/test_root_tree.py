"""A root tree of one's own: Debian's busybox, with the host's Python beside it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from lacking import need_program
from supervised import own_folder

if TYPE_CHECKING:
    from ordinary_user import Identity
    from supervised import Supervised

pytestmark = [pytest.mark.sandbox, pytest.mark.requires("user_namespaces", "overlay")]

_INSIDE = """
import ctypes, hashlib, json, os, sqlite3, ssl, subprocess, sys, zlib

def said(*command):
    return subprocess.run(command, capture_output=True, text=True).stdout.strip()

told = {
    "shell": said("/bin/sh", "-c", "echo $0; readlink /bin/sh"),
    "busybox": "BusyBox" in said("/bin/busybox"),
    "tree": open("/usr/share/tree").read(),
    "git": os.path.exists("/usr/bin/git"),
    "python": said(sys.executable, "-c", "print(6 * 7)"),
    "links": [os.readlink("/opt"), *os.listdir("/opt")],
    "passwd": "nologin" in open("/etc/passwd").read(),
}
open("/usr/share/tree", "w").write("changed")
told["changed"] = open("/usr/share/tree").read()
with open(sys.argv[1] + "/told.json", "w") as file:
    json.dump(told, file)
"""


@pytest.fixture
def tree(identity: Identity, place: Path) -> Path:
    """Return a tree of Debian's busybox."""
    busybox = need_program("busybox", package="busybox-static")
    root = own_folder(identity, place / "tree")
    for folder in ("bin", "usr/share", "usr/bin", "etc", "proc"):
        (root / folder).mkdir(parents=True)
    shutil.copy(busybox, root / "bin" / "busybox")
    for name in ("sh", "ls", "cat"):
        (root / "bin" / name).symlink_to("busybox")
    (root / "usr" / "share" / "tree").write_text("mine")
    # At the places of folders that the sandbox makes where a tree has nothing.
    (root / "opt").symlink_to("usr/share")
    (root / "var").symlink_to("/usr")
    if os.geteuid() == 0:
        subprocess.run(["chown", "-R", f"{identity.uid}:{identity.uid}", str(root)], check=True)
    return root


def _profiles(identity: Identity, place: Path, tree: Path) -> list[str]:
    folder = own_folder(identity, place / "profiles")
    (folder / "own.json").write_text(json.dumps({"extends": "strict", "filesystem": {"rootfs": str(tree)}}))
    (folder / "own.json").chmod(0o644)
    return [str(folder)]


def test_programs_are_the_trees_and_python_is_the_hosts(
    supervised: Supervised, identity: Identity, place: Path, workspace: Path, tree: Path
) -> None:
    assert Path("/usr/bin/git").exists()  # else its absence inside says nothing
    payload = [supervised.python, "-c", _INSIDE, str(workspace)]
    directories = _profiles(identity, place, tree)
    cause = supervised.run(workspace, payload, "own", profile_directories=directories)
    assert (cause["kind"], cause["status"]) == ("exit", 0), supervised.events
    assert supervised.saved_json("told.json") == {
        "shell": "/bin/sh\nbusybox",
        "busybox": True,
        "tree": "mine",
        "git": False,
        "python": "42",
        "links": ["usr/share", "tree"],
        "passwd": True,
        "changed": "changed",
    }
    assert (tree / "usr" / "share" / "tree").read_text() == "mine"


@pytest.mark.parametrize(
    ("what", "why"),
    [
        ("absent", "No such file or directory"),
        ("no shell", "is no root tree: it has no /bin/sh"),
        ("own library", "has a C library of its own"),
    ],
)
def test_tree_that_can_not_work_is_named_with_the_reason(
    supervised: Supervised, workspace: Path, tree: Path, what: str, why: str
) -> None:
    place = tree.parent
    match what:
        case "absent":
            shutil.rmtree(tree)
        case "no shell":
            (tree / "bin" / "sh").unlink()
        case _:
            loader = subprocess.run(
                ["sh", "-c", "ldd /bin/sh | grep -o '/lib[^ ]*ld-[^ ]*'"],
                capture_output=True,
                text=True,
                check=True,
            ).stdout.strip()
            place_of_it = tree / loader.lstrip("/")
            place_of_it.parent.mkdir(parents=True, exist_ok=True)
            place_of_it.touch()
    supervised.start(
        workspace,
        "own",
        payload=["/bin/true"],
        profile_directories=_profiles(supervised.identity, place, tree),
    )
    said = supervised.wait("unavailable")
    assert said["step"] == "root_tree"
    assert why in str(said)
