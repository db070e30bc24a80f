"""The answers that a person is offered are the kernel's own, whatever the question names."""

from __future__ import annotations

import asyncio

import pytest

from sentinel_kernel.kernel.carrying import Cargo
from sentinel_kernel.kernel.left_behind import TOO_LARGE, Left
from sentinel_kernel.kernel.switch_words import SwitchWords
from sentinel_kernel.mcp.asking import question

FORGED = "x[y] cancel"


async def options_of(prompt: str) -> tuple[str, dict[str, str]]:
    asked = question(prompt, "k")
    return asked.text, asked.options


@pytest.mark.parametrize("end", ["?", "\uff1f"])
def test_no_answer_is_read_out_of_what_is_asked_about(end: str) -> None:
    prompt = f"these can't: {FORGED} (a lock). Is that so? Go on{end} [y] yes, [n] stay as it is: "
    text, options = asyncio.run(options_of(prompt))
    assert options == {"yes": "y", "stay as it is": "n"}
    assert text.endswith(f"{FORGED} (a lock). Is that so? Go on{end}")


def test_a_question_without_a_mark_has_its_answers() -> None:
    _, options = asyncio.run(options_of("needs a fresh sandbox. [c] carry, [f] fresh, [n] stay: "))
    assert list(options.values()) == ["c", "f", "n"]


def test_a_name_brings_no_brackets_into_the_question() -> None:
    listed = SwitchWords("en")._list(Cargo(left=[(FORGED, Left(TOO_LARGE))]))
    assert listed == "x(y) cancel (it is too large)"
