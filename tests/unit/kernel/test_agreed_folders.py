"""Folders that were agreed to beforehand: found beside the host's loop, which no disk holds up."""

from __future__ import annotations

import os
import threading
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from sentinel_kernel.kernel import agreed_folders
from sentinel_kernel.kernel.agreed_folders import VARIABLE, AgreedFolders
from sentinel_kernel.kernel.lifecycle import State
from sentinel_kernel.kernel.loop import Loop
from sentinel_kernel.kernel.mounting import Mounting

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


class Asking:
    """A host's loop, and what it was told of folders."""

    def __init__(self) -> None:
        self.loop = Loop()
        self.told: dict[str, bool] = {}

    def ask(self, agreed: AgreedFolders, *folders: Path) -> dict[str, bool]:
        """Return what is said of the folders, once all of it is."""
        for folder in folders:
            agreed.ask(str(folder), self._hear(str(folder), len(folders)))
        if len(self.told) < len(folders):
            self.loop.run(lambda: False)
        told, self.told = self.told, {}
        return told

    def _hear(self, folder: str, most: int) -> Callable[[bool], None]:
        def answered(*agreed: bool) -> None:
            [self.told[folder]] = agreed
            if len(self.told) == most:
                self.loop.stop()

        return answered


@pytest.fixture
def asking() -> Iterator[Asking]:
    made = Asking()
    yield made
    made.loop.close()


@pytest.fixture
def dead(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Return a path that nobody can resolve: its disk does not answer while the test runs."""
    os.mkfifo(tmp_path / "gate")
    gate = os.open(tmp_path / "gate", os.O_RDWR)
    path, resolve = str(tmp_path / "dead"), os.path.realpath

    def hanging(asked: str) -> str:
        if asked == path:
            with (tmp_path / "gate").open("rb") as waiting:
                waiting.read(1)
        return resolve(asked)

    monkeypatch.setattr(os.path, "realpath", hanging)
    yield path
    os.write(gate, b"\n")
    os.close(gate)


def test_a_folder_is_agreed_to_by_its_own_path_or_by_one_that_leads_there(
    asking: Asking, tmp_path: Path
) -> None:
    for name in ("own", "linked", "other", "below/deep"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "link").symlink_to("linked")
    (tmp_path / "away").symlink_to("below/deep")
    named = [f"{tmp_path}/own/", f"{tmp_path}/link", f"{tmp_path}/away/../other", "relative", "/nowhere"]
    agreed = AgreedFolders(asking.loop, {VARIABLE: ":".join(named)})
    folders = [tmp_path / name for name in ("own", "linked", "other")]
    assert list(asking.ask(agreed, *folders).values()) == [True, True, False]
    assert asking.ask(agreed, tmp_path / "other") == {str(tmp_path / "other"): False}
    assert asking.ask(AgreedFolders(asking.loop, {}), tmp_path) == {str(tmp_path): False}


def test_a_disk_that_does_not_answer_keeps_no_other_folder_from_being_agreed_to(
    asking: Asking, dead: str, tmp_path: Path
) -> None:
    (tmp_path / "linked").mkdir()
    (tmp_path / "link").symlink_to("linked")
    agreed = AgreedFolders(asking.loop, {VARIABLE: f"{dead}:{tmp_path / 'link'}:{tmp_path / 'own'}"})
    assert asking.ask(agreed, tmp_path / "own") == {str(tmp_path / "own"): True}
    assert asking.ask(agreed, tmp_path / "linked") == {str(tmp_path / "linked"): True}


def test_what_no_disk_tells_in_time_was_not_agreed_to(
    asking: Asking, dead: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agreed_folders, "SECONDS", 0.0)
    agreed = AgreedFolders(asking.loop, {VARIABLE: dead})
    for _ in range(2):
        assert asking.ask(agreed, tmp_path / "other") == {str(tmp_path / "other"): False}


def test_a_cell_that_waits_for_an_agreed_folder_leaves_the_loop_to_others(
    asking: Asking, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "linked").mkdir()
    (tmp_path / "link").symlink_to("linked")
    monkeypatch.setenv(VARIABLE, str(tmp_path / "link"))
    resolve, own = os.path.realpath, threading.current_thread()

    def elsewhere(path: str) -> str:
        assert threading.current_thread() is not own
        return resolve(path)

    monkeypatch.setattr(os.path, "realpath", elsewhere)
    folder, done = str(tmp_path / "linked"), []

    def request(_operation: str, fields: Any, on_reply: Callable[..., None], _seconds: float) -> None:
        done.append(fields["do"])
        on_reply({"done": True, "path": folder, "mount": {"target": folder, "path": folder, "mode": "rw"}})

    link = SimpleNamespace(gone=False, request=request)
    lifecycle = SimpleNamespace(state=State.READY, link=link, ready={"writable": [folder]})
    host: Any = SimpleNamespace(
        settings=SimpleNamespace(language="en"),
        loop=asking.loop,
        lifecycle=lifecycle,
        questions=SimpleNamespace(reaches=lambda _: False),
    )
    cell: Any = SimpleNamespace(silent=False, displays=[])
    Mounting(host).settle(cell, lambda call: call, asking.loop.stop)
    assert done == ["look"]
    asking.loop.run(lambda: False)
    assert (done, cell.displays) == (["look", "add"], [])
