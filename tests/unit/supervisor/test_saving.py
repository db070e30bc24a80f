"""What an ended sandbox left is kept until there is a process to save it."""

from __future__ import annotations

import errno
import os
import select
import time
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from waiting import wait_until

from sentinel_kernel.policy.committable import Surroundings
from sentinel_kernel.supervisor import files_process
from sentinel_kernel.supervisor import saving as module
from sentinel_kernel.supervisor.held_folders import HeldFolder, HeldFolders
from sentinel_kernel.supervisor.leftovers import Leftovers
from sentinel_kernel.supervisor.saving import Saving
from sentinel_kernel.workspace.setup import FilesSetup
from sentinel_kernel.workspace.store import read_store_settings

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


class Host:
    """Takes note of what the host would be told."""

    gone = False

    def __init__(self) -> None:
        self.told: list[dict[str, Any]] = []
        self.replies: list[tuple[object, bool]] = []

    def event(self, _name: str, fields: dict[str, Any]) -> None:
        """Note it."""
        self.told.append(fields)

    def reply(self, identifier: object, *, ok: bool) -> None:
        """Note it."""
        self.replies.append((identifier, ok))


def _no_process() -> int:
    raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")


def _held(folder: Path) -> HeldFolders:
    for name in ("upper", "host", "history"):
        (folder / name).mkdir()
    (folder / "upper" / "results.csv").write_text("hours of work")
    upper, host, history = (
        os.open(folder / name, os.O_RDONLY | os.O_DIRECTORY) for name in ("upper", "host", "history")
    )
    return HeldFolders([HeldFolder("workspace", str(folder / "host"), upper, -1, host)], history)


def test_a_fork_that_fails_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # The forked process is this one's copy, which may hold more already than a supervisor ever does.
    monkeypatch.setattr(files_process, "MEMORY_BYTES", 8 << 30)
    host = Host()
    saving = Saving(lambda: host, {})  # type: ignore[arg-type,return-value]
    setup = FilesSetup("k", read_store_settings({"HOME": str(tmp_path)}), Surroundings())
    with monkeypatch.context() as now:
        now.setattr(os, "fork", _no_process)
        saving.save(_held(tmp_path), setup, None)
        assert saving.pending
        assert saving.due_seconds() is not None
    end = time.monotonic() + 60
    while saving.pending and time.monotonic() < end:
        poll = select.poll()
        for descriptor in saving.descriptors():
            poll.register(descriptor, select.POLLIN)
        due = saving.due_seconds()
        saving.serve(dict(poll.poll(1000 if due is None else due * 1000)))
    assert [(fields["files"], fields["skipped"]) for fields in host.told] == [(1, [])]
    assert len(list(tmp_path.rglob("results.csv"))) == 2
    saving.close()


def test_what_the_next_start_has_told_of_already_is_not_told_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files_process, "MEMORY_BYTES", 8 << 30)
    monkeypatch.setenv("SENTINEL_ARTIFACTS", str(tmp_path / "store"))
    host = Host()
    leftovers = Leftovers(SimpleNamespace(host=host, ending=False, keepers=[]))  # type: ignore[arg-type]
    setup = FilesSetup("k", read_store_settings(os.environ), Surroundings())
    leftovers._savers().save(_held(tmp_path), setup, None)
    wait_until(lambda: any((tmp_path / "store").glob("[0-9]*/untold")), "it is saved, and nobody was told")
    leftovers.tell_of_earlier("k")
    assert [fields["files"] for fields in host.told] == [1]
    leftovers._savers().close()
    assert not leftovers.pending
    assert len(host.told) == 1
    leftovers.tell_of_earlier("k")
    assert len(host.told) == 1


def test_the_next_host_is_told_until_a_person_has_read_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files_process, "MEMORY_BYTES", 8 << 30)
    monkeypatch.setenv("SENTINEL_ARTIFACTS", str(tmp_path / "store"))
    first, second = Host(), Host()
    life = SimpleNamespace(host=first, ending=False, keepers=[])
    leftovers = Leftovers(life)  # type: ignore[arg-type]
    setup = FilesSetup("k", read_store_settings(os.environ), Surroundings())
    leftovers._savers().save(_held(tmp_path), setup, None)
    leftovers._savers().close()
    (told,) = first.told
    life.host = second
    leftovers.tell_of_earlier("k")
    assert [fields["path"] for fields in second.told] == [told["path"]]
    leftovers.person_told(1, {"path": told["path"]})
    assert second.replies == [(1, True)]
    life.host = third = Host()
    leftovers.tell_of_earlier("k")
    assert third.told == []


def test_what_another_process_has_saved_is_told_where_nobody_was_told_yet(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files_process, "MEMORY_BYTES", 8 << 30)
    monkeypatch.setenv("SENTINEL_ARTIFACTS", str(tmp_path / "store"))
    killed, host = Host(), Host()
    setup = FilesSetup("k", read_store_settings(os.environ), Surroundings())
    held = _held(tmp_path)
    for one in (killed, host):
        saving = Saving(lambda one=one: one, {})  # type: ignore[arg-type,misc]
        saving.save(held.duplicate(), setup, None)
        saving.close()
    held.close()
    assert len(list((tmp_path / "store").glob("[0-9]*"))) == 1
    assert [fields["files"] for fields in host.told] == [1]


def test_it_is_given_up_where_there_is_no_process_for_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = Host()
    saving = Saving(lambda: host, {})  # type: ignore[arg-type,return-value]
    setup = FilesSetup("k", read_store_settings({"HOME": str(tmp_path)}), Surroundings())
    monkeypatch.setattr(os, "fork", _no_process)
    monkeypatch.setattr(module, "_GIVE_UP_SECONDS", 0.0)
    saving.save(_held(tmp_path), setup, None)
    assert not saving.pending
    assert host.told[0]["skipped"] == ["the rest: Resource temporarily unavailable"]
