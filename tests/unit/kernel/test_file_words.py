"""What is said where files do not come along, and where they were saved."""

from __future__ import annotations

import pytest

from sentinel_kernel.kernel import words
from sentinel_kernel.kernel.switch_words import SwitchWords


@pytest.mark.parametrize("language", ["en", "zh"])
def test_a_fresh_sandbox_is_asked_about_with_what_becomes_of_files(language: str) -> None:
    said = SwitchWords(language)
    for ask in (said.choice, said.choose):
        assert "sentinel-kernel artifacts" not in ask("web", "why")
        told = ask("web", "why", 3)
        assert "3" in told
        assert "%sentinel_commit" in told
        assert "sentinel-kernel artifacts list" in told


@pytest.mark.parametrize("language", ["en", "zh"])
def test_saved_files_are_told_of_with_the_command_that_brings_them_back(language: str) -> None:
    told = words.artifacts("/home/u/store/20261130-070000-abcdef", 2)
    assert "sentinel-kernel artifacts restore 20261130-070000-abcdef" in told.hint(language)
