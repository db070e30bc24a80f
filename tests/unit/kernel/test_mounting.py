"""What the host says of a folder that a profile wants written, where the supervisor does not show it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from sentinel_kernel.kernel.lifecycle import State
from sentinel_kernel.kernel.loop import Loop
from sentinel_kernel.kernel.mount_arguments import MountWanted
from sentinel_kernel.kernel.mounting import Mounting

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

FOLDER = "/srv/results"
GIVEN = {"name": FOLDER, "target": FOLDER, "path": FOLDER, "mode": "rw"}
BESIDE = {**GIVEN, "name": "results", "target": "/mnt/results"}


class Desk:
    """A host whose person agrees to all, and whose supervisor finds the folder and does not show it."""

    def __init__(
        self,
        loop: Loop,
        code: str,
        mounts: list[dict[str, str]],
        state: State = State.READY,
        ends: State = State.READY,
    ) -> None:
        """``ends`` is the state behind the supervisor's refusal."""
        self.code = code
        self.ends = ends
        self.cell: Any = SimpleNamespace(silent=False, displays=[])
        link = SimpleNamespace(gone=False, request=self._request)
        ready = {"writable": [FOLDER], "mounts": mounts}
        self.host: Any = SimpleNamespace(
            settings=SimpleNamespace(language="en", workspace="/srv"),
            loop=loop,
            lifecycle=SimpleNamespace(state=state, link=link, ready=ready, profile="writing"),
            questions=SimpleNamespace(reaches=lambda _: True, ask=lambda *asked: asked[-1]("yes")),
        )

    def _request(self, _operation: str, fields: Any, on_reply: Callable[..., None], _seconds: float) -> None:
        if fields["do"] == "look":
            on_reply({"done": True, "path": FOLDER, "identity": [1, 2]})
            return
        self.host.lifecycle.state = self.ends
        on_reply({"done": False, "code": self.code})

    def settle(self) -> str:
        """Return what the cell that settles it is told."""
        done: list[bool] = []
        Mounting(self.host).settle(self.cell, lambda call: call, lambda: done.append(True))
        assert done == [True]
        [page] = self.cell.displays
        return str(page["text/plain"])

    def ask(self) -> str:
        """Return why the magic is refused."""
        refused: list[str] = []
        wanted = MountWanted(path=FOLDER, mode="rw")
        Mounting(self.host).run(
            self.cell, wanted, lambda call: call, self.cell.displays.append, refused.append
        )
        [why] = refused
        return why


@pytest.fixture
def loop() -> Iterator[Loop]:
    made = Loop()
    yield made
    made.close()


@pytest.mark.parametrize("code", ["replaced", "host_runs", "absent"])
def test_cells_that_were_given_a_folder_before_are_said_to_write_to_that(loop: Loop, code: str) -> None:
    page = Desk(loop, code, [GIVEN]).settle()
    assert "cells write to a former folder" in page
    assert "can only be read" not in page
    for told in (page, Desk(loop, code, [GIVEN]).ask()):
        assert "what cells write here goes to the folder that they were given before" in told
        assert "`%sentinel_reset` shows what is there now" in told
        assert "can't change it" not in told


def test_one_that_is_shown_beside_it_makes_no_difference(loop: Loop) -> None:
    page = Desk(loop, "no_layer", [BESIDE]).settle()
    assert "a folder can only be read" in page
    for told in (page, Desk(loop, "no_layer", [BESIDE]).ask()):
        assert "cells can't change it" in told


def test_where_the_folder_is_to_be_had_in_a_moment_nothing_is_to_be_given_up_for_it(loop: Loop) -> None:
    page = Desk(loop, "busy", [GIVEN]).settle()
    assert "cells write to a former folder" in page
    for told in (page, Desk(loop, "busy", [GIVEN]).ask()):
        assert "what cells write here goes to the folder that they were given before" in told
        assert "Run the cell again in a moment." in told
        assert "%sentinel_reset" not in told


@pytest.mark.parametrize(
    ("state", "ends", "code"),
    [
        (State.STARTING, State.STARTING, ""),  # the host asks nobody
        (State.READY, State.READY, "no_sandbox"),  # the supervisor knows before the host
        (State.READY, State.STARTING, ""),  # and this one is gone before it answers
    ],
)
def test_without_a_sandbox_no_cell_is_said_to_have_a_folder(
    loop: Loop, state: State, ends: State, code: str
) -> None:
    settled, asked = Desk(loop, code, [GIVEN], state, ends), Desk(loop, code, [GIVEN], state, ends)
    page = settled.settle()
    assert "a folder can only be read" in page
    for told in (page, asked.ask()):
        assert "given before" not in told
        assert "%sentinel_reset" not in told
        assert ("no sandbox runs at the moment" in told) is (code == "no_sandbox" or state is State.STARTING)
