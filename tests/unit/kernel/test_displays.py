"""The box of a refusal: shown at once, and changed once where its line and an error's words come behind it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from sentinel_kernel.kernel.cells import Cell
from sentinel_kernel.kernel.displays import Displays
from sentinel_kernel.kernel.output_rule import VIOLATION_TYPE
from sentinel_kernel.kernel.words import SCRIPT_HELD

if TYPE_CHECKING:
    from collections.abc import Callable

REFUSED = {
    "id": "v", "version": 2, "cause": "call", "syscall": "socket", "profile": "strict", "rule": "NOTIFY socket",
    "count": 1, "confidence": "certain", "process": {"pid": 1, "command": "python", "is_worker": True},
}  # fmt: skip


class Shop:
    """A host's displays, with timers that ring when the test says so."""

    def __init__(self) -> None:
        self.timers: list[Callable[[], None]] = []
        self.shown: list[tuple[bool, dict[str, Any]]] = []
        self.parents: list[str] = []
        self.noted: list[dict[str, Any]] = []
        loop: Any = SimpleNamespace(call_later=lambda _seconds, call: self.timers.append(call))
        told = SimpleNamespace(note=self.noted.append, settle=lambda _parent: None)
        outbox: Any = SimpleNamespace(told=told, display=self._display)
        self.displays = Displays(loop, outbox, "en", dict)
        self.cell = self.new_cell("m")

    def new_cell(self, msg_id: str, *, began: bool = True, idle: bool = False, silent: bool = False) -> Cell:
        request: Any = SimpleNamespace(msg_id=msg_id, header=msg_id, content={"code": "import x\nx.get()"})
        return Cell(
            request,
            "import x\nx.get()",
            silent=silent,
            allow_stdin=True,
            stop_on_error=True,
            magics=(),
            began=began,
            idle=idle,
        )

    def _display(self, bundle: Any, parent: Any, _display_id: str, *, update: bool = False) -> None:
        self.parents.append(parent)
        self.shown.append((update, dict(bundle.get(VIOLATION_TYPE) or {"text": bundle["text/plain"]})))

    def ring(self) -> None:
        waiting, self.timers = self.timers, []
        for call in waiting:
            call()


def test_line_and_error_change_a_box_once() -> None:
    shop = Shop()
    shop.displays.refused(REFUSED, shop.cell)
    shop.displays.refused({**REFUSED, "line": 2, "count": 2}, shop.cell)
    shop.displays.add("v", {"cause": "name_lookup", "line": 2}, shop.cell)
    shop.ring()
    shop.displays.bring_up_to_date(shop.cell, ended=True)
    assert [update for update, _ in shop.shown] == [False, True]
    assert shop.shown[0][1].get("line") is None
    assert (shop.shown[1][1]["line"], shop.shown[1][1]["cause"], shop.shown[1][1]["count"]) == (
        2,
        "name_lookup",
        2,
    )


def test_a_line_alone_is_shown_in_a_moment_or_at_the_cells_end() -> None:
    for ends in (False, True):
        shop = Shop()
        shop.displays.refused(REFUSED, shop.cell)
        shop.displays.refused({**REFUSED, "line": 2}, shop.cell)
        assert len(shop.shown) == 1
        if ends:
            shop.displays.bring_up_to_date(shop.cell, ended=True)
        else:
            shop.ring()
        assert [(update, record.get("line")) for update, record in shop.shown] == [(False, None), (True, 2)]
        shop.ring()
        shop.displays.bring_up_to_date(shop.cell, ended=True)
        assert len(shop.shown) == 2


def test_what_is_refused_behind_a_cell_that_the_host_answered_is_kept_and_shown_in_the_next() -> None:
    shop = Shop()
    shop.displays.bring_up_to_date(shop.cell, ended=True)
    answered, following = shop.new_cell("answered", began=False, idle=True), shop.new_cell("next")
    shop.displays.refused({**REFUSED, "id": "its", "cell": "m", "line": 2}, answered)
    shop.displays.refused({**REFUSED, "id": "unknown"}, answered)
    assert shop.shown == []
    assert [(record["id"], record.get("cell"), record.get("source")) for record in shop.noted] == [
        ("its", "m", "x.get()"),
        ("unknown", None, None),
    ]
    shop.displays.refused({**REFUSED, "id": "its", "count": 3}, answered)
    shop.displays.bring_up_to_date(following)
    shop.displays.bring_up_to_date(following, ended=True)
    assert [(record["id"], record["count"]) for _, record in shop.shown] == [("its", 3), ("unknown", 1)]
    assert shop.parents == ["next", "next"]
    assert shop.displays.refusals == 4


def test_what_is_refused_behind_one_such_cell_is_among_the_pages_of_the_next_one() -> None:
    shop = Shop()
    shop.displays.refused(REFUSED, shop.new_cell("answered", began=False, idle=True))
    following = shop.new_cell("next", began=False)
    for _ in range(2):
        shop.displays.hand_over(following)
    assert [bundle[VIOLATION_TYPE]["id"] for bundle in following.displays] == ["v"]


@pytest.mark.parametrize("began", [False, True])
def test_what_a_silent_cell_is_refused_is_shown_in_the_next_before_its_idle_and_behind(began: bool) -> None:
    shop = Shop()
    silent, following = shop.new_cell("silent", began=began, silent=True), shop.new_cell("next")
    shop.displays.refused({**REFUSED, "id": "before"}, silent)
    shop.displays.refused({**REFUSED, "id": "before", "line": 2, "count": 3}, silent)
    shop.displays.bring_up_to_date(silent, ended=True)
    silent.idle = True
    shop.displays.refused({**REFUSED, "id": "behind", "cell": "silent", "line": 1}, silent)
    shop.ring()
    assert shop.shown == []
    assert {record["id"] for record in shop.noted} == {"before", "behind"}
    shop.displays.bring_up_to_date(following)
    shop.displays.bring_up_to_date(following, ended=True)
    assert [
        (record["id"], record["count"], record["cell"], record["source"]) for _, record in shop.shown
    ] == [("before", 3, "silent", "x.get()"), ("behind", 1, "silent", "import x")]
    assert shop.parents == ["next", "next"]


def test_what_waits_for_a_cell_is_not_shown_behind_the_idle_of_one_whose_reply_is_missing() -> None:
    shop = Shop()
    shop.cell.idle = True
    shop.displays.waiting.append(SCRIPT_HELD)
    shop.displays.show_waiting(shop.cell)
    shop.displays.bring_up_to_date(shop.cell)
    assert shop.shown == []
    shop.displays.show_waiting(shop.new_cell("next"))
    assert shop.parents == ["next"]
