"""What the files process does of what the supervisor asks for, from one packet to the next."""

from __future__ import annotations

import errno
import json
import os
import socket
from typing import TYPE_CHECKING, Any

import pytest

from sentinel_kernel.policy.committable import Surroundings
from sentinel_kernel.supervisor.held_folders import HeldFolder, HeldFolders
from sentinel_kernel.workspace import cell_end
from sentinel_kernel.workspace.serving import layers_of, serve
from sentinel_kernel.workspace.setup import FilesSetup
from sentinel_kernel.workspace.store import StoreSettings

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def held(tmp_path: Path) -> Iterator[HeldFolders]:
    """Return a workspace of plain folders: ``upper`` is what cells wrote, ``lower`` the host's."""
    for name in ("upper", "lower", "history"):
        (tmp_path / name).mkdir()
    upper, lower, history = (
        os.open(tmp_path / name, os.O_RDONLY | os.O_DIRECTORY) for name in ("upper", "lower", "history")
    )
    yield HeldFolders([HeldFolder("workspace", str(tmp_path / "lower"), upper, upper, lower)], history)
    for descriptor in (upper, lower, history):
        os.close(descriptor)


def served(held: HeldFolders, tmp_path: Path, *packets: dict[str, Any], stamp: int = 0) -> list[Any]:
    """Return what one process says of ``packets`` before it goes; ``stamp`` is the last one's of the process before."""
    setup = FilesSetup("k", StoreSettings(str(tmp_path / "store")), Surroundings(), stamp=stamp)
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs:
        for token, packet in enumerate((*packets, {"do": "rest"}), 1):
            ours.send(json.dumps({"token": token, **packet}).encode())
        serve(theirs, held, setup)
        theirs.shutdown(socket.SHUT_RDWR)
        return [json.loads(said) for said in iter(lambda: ours.recv(1 << 20), b"")]


def end(rule: str, *, quiet: bool = False) -> dict[str, Any]:
    return {"do": "settle", "cell": "1", "commit": rule, "quiet": quiet}


def committed(said: list[Any]) -> list[str]:
    """Return what was committed by itself."""
    ends = [one["fields"] for one in said if one["say"] == "settled"]
    return [path for fields in ends for path in fields.get("committed", ())]


def test_a_glance_that_sees_no_change_is_none_where_the_rule_is_another(
    held: HeldFolders, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "upper" / "b.csv").write_text("no room")
    tried: list[object] = []
    commit = cell_end.commit

    def full_at_first(*arguments: Any, **words: Any) -> None:
        tried.append(arguments)
        if len(tried) > 1:
            commit(*arguments, **words)

    monkeypatch.setattr(cell_end, "commit", full_at_first)
    said = served(held, tmp_path, end("new", quiet=True), end("none", quiet=True), end("new"))
    assert committed(said) == []
    assert not (tmp_path / "lower" / "b.csv").exists()
    (tmp_path / "upper" / "b.csv").write_text("written from then on")  # positive control
    assert committed(served(held, tmp_path, end("new"), stamp=said[-1]["stamp"])) == ["b.csv"]


@pytest.mark.parametrize("rule", ["none", "new"])
def test_what_a_request_finds_first_is_held_by_the_rule_in_force(
    held: HeldFolders, tmp_path: Path, rule: str
) -> None:
    for name in ("behind.csv", "other.csv"):
        (tmp_path / "upper" / name).write_text("by a thread, behind the last end")
    discard = {"op": "files", "id": 1, "do": "discard", "paths": ["other.csv"]}
    said = served(held, tmp_path, {"do": "ask", "commit": rule, "request": discard})
    assert said[-1]["fields"]["discarded"]["paths"] == ["other.csv"]
    ended = served(held, tmp_path, end("new"), stamp=said[-1]["stamp"])
    assert committed(ended) == (["behind.csv"] if rule == "new" else [])


def test_a_folder_whose_owner_nobody_can_tell_is_written_to_as_the_sandbox(
    held: HeldFolders, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    setup = FilesSetup("k", StoreSettings(str(tmp_path / "store")), Surroundings(), writer=(7, 8))
    status = (tmp_path / "lower").stat()
    assert layers_of(held, setup)["workspace"].owner == (status.st_uid, status.st_gid)  # positive control
    lower, status_of = held.folders[0].lower, os.fstat

    def without_status(descriptor: int) -> os.stat_result:
        if descriptor == lower:
            raise OSError(errno.ESTALE, os.strerror(errno.ESTALE))
        return status_of(descriptor)

    monkeypatch.setattr(os, "fstat", without_status)
    assert layers_of(held, setup)["workspace"].owner == (7, 8)
