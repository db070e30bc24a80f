"""Workspaces of all kinds: each works, or says what does not and what to do instead."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from lacking import lacking, need_program
from supervised import Supervised, own_folder
from waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ordinary_user import Identity

pytestmark = [pytest.mark.sandbox, pytest.mark.requires("user_namespaces", "overlay")]

PAYLOAD = """
import json, os, sys, signal
os.chdir(sys.argv[1])
told = {}
def attempt(name, call):
    try:
        told[name] = call()
    except OSError as error:
        told[name] = f"errno {error.errno}"
attempt("reads", lambda: open("there.txt").read())
attempt("appends", lambda: open("there.txt", "a").write("more"))
attempt("makes", lambda: open("made.csv", "w").write("1,2"))
attempt("home", lambda: open(os.path.expanduser("~/in-home"), "w").write("x"))
with open("report.json", "w") as file:
    json.dump(told, file)
signal.pause()
"""


class Place:
    """A folder of somebody's, for a workspace and all that belongs to its kernel."""

    def __init__(self, identity: Identity, folder: Path, undo: contextlib.ExitStack) -> None:
        self.identity = identity
        self.folder = folder
        self.undo = undo
        self.home = own_folder(identity, folder / "home")

    def owned(self, name: str) -> Path:
        """Return a folder of the identity's below it, with a file in it."""
        path = own_folder(self.identity, self.folder / name)
        path.chmod(0o755)
        (path / "there.txt").write_text("there")
        os.chown(path / "there.txt", self.identity.uid, self.identity.uid)
        return path

    def mounted(self, name: str, *command: str) -> Path:
        """Return a folder on which ``command`` mounts something; it goes with the test."""
        path = own_folder(self.identity, self.folder / name)
        done = subprocess.run([*command, str(path)], capture_output=True, text=True, check=False)
        if done.returncode:
            lacking(f"no such mount here: {done.stderr.strip()}")
        self.undo.callback(subprocess.run, ["umount", "-l", str(path)], check=False)
        return path

    def told(self, workspace: Path, **variables: str) -> dict[str, Any]:
        """Return what a sandbox with this workspace could do, or the error that says why there is none."""
        environment = {"HOME": str(self.home), **variables}
        with Supervised(self.identity, self.folder / "state", environment=environment) as supervised:
            payload = [self.identity.python, "-c", PAYLOAD, str(workspace)]
            identifier = supervised.start(workspace, "datascience", payload=payload)
            try:
                supervised.reply(identifier)
            except AssertionError:
                return next(event for event in supervised.events if event["event"] == "unavailable")
            report = workspace / "report.json"

            def committed() -> bool:
                for operation in ("begin_cell", "end_cell"):
                    supervised.reply(supervised.request(operation))
                return bool(report.exists() or self._held(supervised))

            wait_until(committed, "the payload's report", 20)
            return json.loads(report.read_text()) if report.exists() else {"held": self._held(supervised)}

    @staticmethod
    def _held(supervised: Supervised) -> list[dict[str, Any]]:
        """Return the new files that could not be committed by themselves."""
        events = [event for event in supervised.events if event["event"] == "files"]
        return [one for event in events for one in event.get("failed", ()) if one["path"] == "report.json"]


@pytest.fixture(params=[pytest.param("own_user", marks=pytest.mark.soak), "ordinary_user"])
def place(request: pytest.FixtureRequest) -> Iterator[Place]:
    """Return a place of root's, then one of an ordinary user's, which is below /var/tmp."""
    identity: Identity = request.getfixturevalue(request.param)
    folder = Path(tempfile.mkdtemp(prefix="kinds-", dir="/var/tmp"))
    folder.chmod(0o755)
    with contextlib.ExitStack() as undo:
        undo.callback(shutil.rmtree, folder, ignore_errors=True)
        yield Place(identity, folder, undo)


def works(told: dict[str, Any], *, appends: object = 4) -> None:
    assert told.get("reads") == "there", told
    assert (told["makes"], told["appends"], told["home"]) == (3, appends, 1), told


def test_paths_of_spaces_unicode_colons_and_commas(place: Place) -> None:
    folder = place.owned("研究 data: a,b\\c 'q' \"é")
    works(place.told(folder))
    assert (folder / "made.csv").read_text() == "1,2"
    assert (folder / "there.txt").read_text() == "there"


def test_a_workspace_that_is_home(place: Place) -> None:
    shutil.rmtree(place.home)
    place.home = place.owned("home")
    works(place.told(place.home))
    assert (place.home / "made.csv").exists()


def test_a_read_only_workspace(place: Place) -> None:
    folder = place.owned("sealed")
    folder.chmod(0o555)
    told = place.told(folder)
    if place.identity.uid == 0:
        works(told)  # to root nothing is closed
    else:
        assert [one["why"] for one in told["held"]] == ["not_writable"], told


def test_files_of_others(place: Place) -> None:
    folder = place.owned("shared")
    os.chown(folder / "there.txt", 12345, 12345)
    (folder / "there.txt").chmod(0o644)
    told = place.told(folder)
    assert (told["reads"], told["makes"]) == ("there", 3), told
    assert str(told["appends"]).startswith("errno"), told


def test_mounts_below(place: Place) -> None:
    folder = place.owned("outer")
    place.mounted("outer/inner", "mount", "-t", "tmpfs", "inner")
    told = place.told(folder)
    if place.identity.uid == 0:
        works(told)
    else:
        assert "other mounts in it" in told["cause_en"], told
        assert told["remedy_en"], told


def test_a_tmpfs(place: Place) -> None:
    folder = place.mounted("memory", "mount", "-t", "tmpfs", "memory")
    place.owned("memory")
    works(place.told(folder))


@pytest.mark.parametrize("kind", ["overlay", "fuse"])
def test_a_layered_workspace(place: Place, kind: str) -> None:
    for name in ("low", "up", "work"):
        place.owned(name)
    options = f"lowerdir={place.folder}/low,upperdir={place.folder}/up,workdir={place.folder}/work"
    program = ("mount", "-t", "overlay", "-o", options, "layered") if kind == "overlay" else ()
    if kind == "fuse":
        need_program("fuse-overlayfs", package="fuse-overlayfs")
    folder = place.mounted("merged", *(program or ("fuse-overlayfs", "-o", f"{options},allow_other")))
    told = place.told(folder)
    if place.identity.uid == 0:
        assert "can't map owners" in told["cause_en"], told
        assert "ordinary user" in told["remedy_en"], told
    else:
        works(told)
        assert (folder / "made.csv").read_text() == "1,2"


def test_a_folder_of_another_machine_over_ssh(place: Place) -> None:
    """No names are exchanged there, times are whole seconds, and nobody is told of changes."""
    need_program("sshfs", package="sshfs")
    far = place.owned("far")
    server = place.folder / "ssh"
    server.write_text("#!/bin/sh\nexec /usr/lib/openssh/sftp-server\n")
    server.chmod(0o755)
    owner = f"uid={place.identity.uid},gid={place.identity.uid}"
    options = f"ssh_command={server},allow_other,default_permissions,{owner}"
    folder = place.mounted("mounted", "sshfs", "-o", options, f"nobody@nowhere:{far}")
    told = place.told(folder)
    if place.identity.uid == 0:
        assert "can't map owners" in told["cause_en"], told
        assert "ordinary user" in told["remedy_en"], told
    else:
        works(told)
        assert (far / "made.csv").read_text() == "1,2"


@pytest.mark.parametrize("path", ["/", "/proc", "/dev/shm"])
def test_folders_that_can_be_none(place: Place, path: str) -> None:
    told = place.told(Path(path))
    assert told["event"] == "unavailable", told
    assert "folder" in told["remedy_en"], told
    assert "doctor" not in told["remedy_en"], told
