"""Looks at many held files wait for a pause, for a bounded time, and tell of all cells that they are for."""

from __future__ import annotations

import pytest

from sentinel_kernel.supervisor import quiet_looks
from sentinel_kernel.supervisor.quiet_looks import QuietLooks


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [100.0]
    monkeypatch.setattr(quiet_looks.time, "monotonic", lambda: now[0])
    return now


def test_a_look_is_due_after_a_pause_and_for_all_cells_since(clock: list[float]) -> None:
    looks = QuietLooks()
    assert looks.due_seconds() is None
    assert looks.put_off("4")
    clock[0] += 0.02
    assert looks.put_off("5")
    due = looks.due_seconds()
    assert due is not None
    assert due > 0.02
    clock[0] += due
    assert looks.due_seconds() == 0.0
    assert looks.take() == "4-5"
    assert not looks.wait
    assert looks.take("6") == "6"
    assert looks.take() == ""


@pytest.mark.parametrize("cells", [("", "5", "6"), ("4", "", "6"), ("4", "5", ""), ("", "", "")])
def test_a_look_for_cells_of_which_one_has_no_number_is_in_nobodys_name(
    clock: list[float], cells: tuple[str, str, str]
) -> None:
    looks = QuietLooks()
    for cell in cells[:-1]:
        looks.put_off(cell)
    clock[0] += 0.01
    assert looks.take(cells[-1]) == ""
    looks.put_off("7")  # positive control
    assert looks.take("8") == "7-8"


def test_a_look_is_put_off_for_two_seconds_at_most(clock: list[float]) -> None:
    looks = QuietLooks()
    asked = [looks.put_off("1")]
    for _ in range(100):
        clock[0] += 0.021
        asked.append(looks.put_off("2"))
    assert asked[0]
    assert not asked[-1]
    assert looks.take("2") == "1-2"
