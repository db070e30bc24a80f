"""What the supervisor has its files process look at, by which rule, in whose name, and who waits for it."""

from __future__ import annotations

import os
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from sentinel_kernel.supervisor import files as module
from sentinel_kernel.supervisor.files import Files

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class Process:
    """A files process that is given work, and says what the test has it say."""

    gone = False

    def __init__(self) -> None:
        self.given: list[dict[str, Any]] = []

    def give(self, packet: dict[str, Any]) -> None:
        """Take a packet."""
        self.given.append(packet)


class Held:
    """The files of a sandbox: ``usage`` is how its layers are, ``filesystem.commit`` what its profile lets out."""

    def __init__(self, upper: int) -> None:
        self.usage = 0
        self.told: list[dict[str, Any]] = []
        self.process = Process()
        self.filesystem = SimpleNamespace(commit="none")
        sandbox = SimpleNamespace(
            held=SimpleNamespace(folders=[SimpleNamespace(upper=upper)]), keep_room=lambda *_: None
        )
        profile = SimpleNamespace(filesystem=self.filesystem)
        preparation = SimpleNamespace(profile=profile, plan=SimpleNamespace(sizes=None))
        self.files = Files(lambda _event, fields: self.told.append(fields), lambda: None)
        self.files._process = self.process  # type: ignore[assignment]
        self.files.sandbox_ready(SimpleNamespace(sandbox=sandbox, preparation=preparation), 1)  # type: ignore[arg-type]

    def cell(self, number: int) -> None:
        """Let a cell change something and end."""
        self.usage += 1
        self.files.end_cell({"execution_count": number})

    def settled(self) -> None:
        """Have the process say that it has dealt with what it was given last."""
        token = self.process.given[-1]["token"]
        self.files._hear({"say": "settled", "token": token, "told": False, "fields": {}})

    def kept(self) -> None:
        """Have it say that copies are made, too: one file is held."""
        self.settled()
        state = {"held": 1, "history": [0, 0], "stamp": 1, "unwritten": False}
        self.files._hear({"say": "kept", "token": self.process.given[-1]["token"], "changed": False, **state})


@pytest.fixture
def held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Held]:
    upper = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    now: list[Held] = []
    monkeypatch.setattr(module, "usage_of", lambda *_: (0, 0, now[0].usage if now else 0))
    now.append(Held(upper))
    yield now[0]
    os.close(upper)


def test_a_request_comes_with_the_rule_in_force(held: Held) -> None:
    def rule() -> object:
        held.files.request(1, {"op": "files", "id": 1, "do": "discard"}, held.told.append)
        assert held.process.given[-1]["request"] == {"do": "discard"}
        return held.process.given[-1]["commit"]

    assert rule() == "none"
    held.filesystem.commit = "new"
    assert rule() == "new"
    held.files.configure({"commit": "none"})  # SENTINEL_COMMIT
    assert rule() == "none"


def test_what_is_found_at_a_change_of_profile_is_the_last_cells_doing(held: Held) -> None:
    held.cell(3)
    held.kept()
    held.usage += 1  # by a thread, or a cell that still runs
    held.files.profile_changes()
    assert [one["cell"] for one in held.process.given] == ["3", "3"]


def test_what_a_cell_without_a_number_did_is_not_the_one_befores_doing(held: Held) -> None:
    held.cell(3)
    held.kept()
    held.usage += 1
    held.files.end_cell({"execution_count": None})
    held.kept()
    held.usage += 1
    held.files.profile_changes()
    assert [one["cell"] for one in held.process.given] == ["3", "", ""]


@pytest.mark.parametrize("changed", [False, True])
def test_an_end_that_waits_goes_on_waiting_when_the_profile_is_changed(held: Held, changed: bool) -> None:
    held.cell(3)
    held.kept()
    assert not held.files.busy
    held.cell(4)
    until = held.files._until
    assert held.files.busy
    held.usage += changed
    held.files.profile_changes()
    assert len(held.process.given) == 3
    assert held.files.busy
    assert held.files._until == until
    held.cell(5)  # is told of when the copies are made
    assert len(held.process.given) == 3
    held.settled()
    assert not held.files.busy
