"""A change that takes a fresh sandbox: what is tried before anything is given up, and when it is tried again."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from sentinel_kernel.kernel.lifecycle import State
from sentinel_kernel.kernel.magics import Switch
from sentinel_kernel.kernel.profile_switch import ProfileSwitch, Turn
from sentinel_kernel.kernel.settings import read_settings

if TYPE_CHECKING:
    from collections.abc import Callable


def steps(how: str, answer: str = "", tried: dict[str, Any] | None = None) -> list[str]:
    """Return what is done one after the other for a change to a profile with other folders.

    ``tried`` is what the supervisor answers where it is asked what the start fails by; by default: by nothing.
    """
    done: list[str] = []
    told: dict[str, Any] = {
        "profile": {"live": False, "obstacles": ["filesystem"]},
        "try": {"ok": True, "problem": {}} if tried is None else tried,
    }

    def request(operation: str, _fields: object, on_reply: Callable[..., None], _seconds: float) -> None:
        done.append(operation)
        on_reply(told[operation])

    def step(name: str, *values: object) -> Callable[..., None]:
        def take(*arguments: Any) -> None:
            done.append(name)
            arguments[-1](*values)

        return take

    cargo = SimpleNamespace(fault=None, left=())
    host: Any = SimpleNamespace(
        settings=read_settings(["-f", "-"], {}, "/"),
        lifecycle=SimpleNamespace(
            state=State.READY,
            link=SimpleNamespace(request=request),
            profile="strict",
            ready={},
            own_limits={},
            granted_limits=(),
            granted_hosts=(),
            switch=step("start", True),
        ),
        files=SimpleNamespace(held=(0, 0)),
        execution=SimpleNamespace(last_cell=object(), last_count=1),
        questions=SimpleNamespace(reaches=lambda _: True, ask=step("ask", answer)),
        carrying=SimpleNamespace(save=step("save", cargo), load=step("load", cargo)),
        magics=SimpleNamespace(switched=lambda *_: {}),
        give_up_worker=lambda **_: done.append("give up"),
    )
    cell: Any = SimpleNamespace(displays=[])
    switch = Switch("folder", "profile", how=how)
    turn = Turn(cell, switch, lambda: done.append("run"), done.append, lambda call: call)
    ProfileSwitch(host).begin(turn)
    return done


@pytest.mark.parametrize(
    ("how", "answer", "expected"),
    [
        # What was found out a moment ago holds: a disk may be slow.
        ("fresh", "", "profile try give up start run"),
        # Nobody knows how long an answer, or the variables, took.
        ("", "fresh", "profile try ask try give up start run"),
        ("carry", "", "profile try save try give up start load run"),
    ],
)
def test_the_start_is_tried_before_each_wait_and_once_without_one(
    how: str, answer: str, expected: str
) -> None:
    assert " ".join(steps(how, answer)) == expected


@pytest.mark.parametrize(
    "tried", [{"ok": False, "message": "the supervisor stumbled over the request"}, {}, {"ok": True}]
)
def test_what_could_not_be_tried_costs_no_variable(tried: dict[str, Any]) -> None:
    *done, refusal = steps("fresh", tried=tried)
    assert done == ["profile", "try"]
    assert "could not be found out" in refusal
    assert "kept with all its variables" in refusal
