"""What magics answer: a mistake is said once, and the help names every switch."""

from __future__ import annotations

import pytest

from sentinel_kernel.kernel.ceiling import Ceiling
from sentinel_kernel.kernel.magics import Magics, UsageError
from sentinel_kernel.kernel.settings import read_settings
from sentinel_kernel.worker.leading_block import parse_leading_block


def _magics(language: str) -> Magics:
    settings = read_settings(["-f", "-"], {}, ".")
    return Magics(language, (), Ceiling(settings), lambda: "strict", list)


@pytest.mark.parametrize(
    ("language", "told"),
    [
        ("en", "line 1: There is no profile 'nonsense'. Known: strict, "),
        ("zh", "没有名为 'nonsense' 的配置。"),
    ],
)
def test_a_profile_that_there_is_not_is_said_once(language: str, told: str) -> None:
    with pytest.raises(UsageError) as caught:
        _magics(language).check(parse_leading_block("%sentinel_profile nonsense").lines)
    assert told in str(caught.value)
    assert str(caught.value).count("nonsense") == 1
    assert "sentinelbox/web" in str(caught.value)


@pytest.mark.parametrize("language", ["en", "zh"])
def test_the_help_names_the_switch_for_dangerous_code(language: str) -> None:
    page = str(_magics(language)._help_page())
    assert "%sentinel_preflight --dangerous refuse" in page
