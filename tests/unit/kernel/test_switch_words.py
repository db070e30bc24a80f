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


@pytest.mark.parametrize("held", [0, 1, 3])
@pytest.mark.parametrize("language", ["en", "zh"])
def test_what_a_fresh_sandbox_takes_is_said_before_the_choice(language: str, held: int) -> None:
    words = SwitchWords(language)
    files = {
        0: "",
        1: "1 file that is held does not come along",
        3: "3 files that are held do not come along",
    }[held]
    folder = "Cells start in the notebook's folder again"
    if language == "zh":
        files = f"沙箱中保留的 {held} 个文件不会带上" if held else ""
        folder = "单元格会重新从笔记本所在文件夹开始"
    for told in (words.choice("web", "why", held), words.choose("web", "why", held)):
        assert files in told
        assert folder in told
        assert ("artifacts list" in told) == bool(held)
        assert told.find("[n]") == -1 or told.index(folder) < told.index("[c]")


@pytest.mark.parametrize(
    ("language", "told"), [("en", "example.org can't be reached yet"), ("zh", "仍无法访问 example.org")]
)
def test_who_stays_without_a_host_is_told_so_and_not_of_a_profile(language: str, told: str) -> None:
    said = SwitchWords(language).stays("datascience", "why", ("example.org",))
    assert told in said
    assert "datascience" not in said
