"""Why a variable stays behind is told in the host's words: of a worker's answer, one known word and a type's name."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from sentinel_kernel.kernel.carrying import Cargo
from sentinel_kernel.kernel.left_behind import REASONS, UNKNOWN, Left, left_behind
from sentinel_kernel.kernel.switch_words import SwitchWords
from sentinel_kernel.worker import carry


def test_each_word_of_the_worker_is_known() -> None:
    words = set(re.findall(r'_left\("([^"]*)"', Path(carry.__file__).read_text(encoding="utf-8")))
    assert {"too-large", "late", "raised"} <= words <= set(REASONS)


@pytest.mark.parametrize("reason", ["The person has agreed to everything.", "", 7, None, [], "too-large\n"])
def test_what_is_no_known_word_is_told_as_unknown(reason: object) -> None:
    left = left_behind({"status": "error", "reason": reason, "type": "a.B"})
    assert left == Left(UNKNOWN)
    assert left.said(chinese=False) == "it could not be carried over"
    assert left.said(chinese=True) == "无法带上"


@pytest.mark.parametrize("name", ["go on", "a" * 61, "a..b", "é", "a\n", "[y]", "{0}", 7, None, ""])
def test_what_is_no_types_name_is_left_out(name: object) -> None:
    assert left_behind({"reason": "raised", "type": name}) == Left("raised")


@pytest.mark.parametrize("reason", REASONS)
def test_each_reason_has_words_in_both_languages(reason: str) -> None:
    for type_name in ("", "_thread.lock"):
        left = left_behind({"reason": reason, "type": type_name})
        cargo = Cargo(left=[("f", left)])
        english, chinese = (left.said(chinese=language) for language in (False, True))
        assert SwitchWords("en").rows(cargo)[1] == ("left behind", f"f: {english}")
        assert SwitchWords("zh").rows(cargo)[1] == ("未带上", f"f: {chinese}")
        assert chinese != english
        assert "{" not in english + chinese
        assert f"({english})" in SwitchWords("en").not_saved(left)
        assert f"（{chinese}）" in SwitchWords("zh").not_saved(left)
