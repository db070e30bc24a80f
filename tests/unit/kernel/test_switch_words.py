"""What a person is asked about a profile beyond the ceiling: it says what that gives."""

from __future__ import annotations

import pytest

from sentinel_kernel.kernel.switch_words import SwitchWords
from sentinel_kernel.policy.compare import Surplus, surplus
from sentinel_kernel.policy.profile import load_profile


@pytest.mark.parametrize(
    ("language", "words"),
    [
        ("en", "the hosts pypi.org:443, files.pythonhosted.org:443"),
        ("zh", "主机 pypi.org:443, files.pythonhosted.org:443"),
    ],
)
def test_the_question_says_what_the_profile_gives_more(language: str, words: str) -> None:
    more = surplus(load_profile("web"), load_profile("datascience"), "x86_64")
    assert words in SwitchWords(language).beyond("web", "datascience", more)


def test_calls_and_folders_are_named() -> None:
    more = Surplus(calls=tuple(f"call{n}" for n in range(10)), network=True, folders=("/data (ro)",))
    asked = SwitchWords("en").beyond("mine", "strict", more)
    assert "sockets within the sandbox; the folders /data (ro); the calls call0" in asked
    assert "call7 +2. Allow it?" in asked
    assert "'strict' (the ceiling). Allow it?" in SwitchWords("en").beyond("mine", "strict", Surplus())
