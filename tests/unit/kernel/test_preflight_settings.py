"""What a kernel does about lines that will be refused: who says so, and who has the last word."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from sentinel_kernel.kernel import settings
from sentinel_kernel.kernel.lab_config import LabConfig
from sentinel_kernel.kernel.preflight_magic import PreflightChange, read_change, too_little
from sentinel_kernel.kernel.settings import read_settings, stricter
from sentinel_kernel.record import replace

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

LAB = LabConfig("/etc/x", "strict", "datascience", False, None, "", False, ())


def modes(arguments: Sequence[str] = (), environment: Mapping[str, str] | None = None) -> tuple[str, str]:
    found = read_settings(["-f", "connection.json", *arguments], environment or {}, "/")
    assert not [one for one in found.worker_arguments if "preflight" in one or "dangerous" in one]
    return found.preflight, found.dangerous


@pytest.fixture(autouse=True)
def no_lab(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings, "read_lab_config", lambda: None)


def test_advice_is_given_and_dangerous_code_is_left_alone_by_itself() -> None:
    assert modes() == ("advise", "off")


def test_an_argument_goes_before_the_environment() -> None:
    environment = {"SENTINEL_PREFLIGHT": "OFF", "SENTINEL_DANGEROUS": "advise"}
    assert modes((), environment) == ("off", "advise")
    assert modes(["--SentinelKernel.preflight=refuse"], environment) == ("refuse", "advise")
    assert modes(["--SentinelKernel.dangerous=refuse"], environment) == ("off", "refuse")


@pytest.mark.parametrize("text", ["on", "refused", "1", "advise,refuse"])
def test_what_is_no_mode_is_the_strictest(text: str) -> None:
    environment = {"SENTINEL_PREFLIGHT": text, "SENTINEL_DANGEROUS": text}
    assert modes((), environment) == ("refuse", "refuse")
    assert modes([f"--SentinelKernel.preflight={text}"]) == ("refuse", "off")
    assert modes((), {"SENTINEL_PREFLIGHT": "", "SENTINEL_DANGEROUS": " Off "}) == ("advise", "off")


def test_a_lab_s_word_is_the_least(monkeypatch: pytest.MonkeyPatch) -> None:
    lab = replace(LAB, preflight="refuse", dangerous="advise")
    monkeypatch.setattr(settings, "read_lab_config", lambda: lab)
    assert modes((), {"SENTINEL_PREFLIGHT": "off", "SENTINEL_DANGEROUS": "off"}) == ("refuse", "advise")
    assert modes((), {"SENTINEL_DANGEROUS": "refuse"}) == ("refuse", "refuse")
    assert stricter("off", "") == "off"


def test_a_magic_s_words_are_read() -> None:
    assert read_change(["refuse"]) == PreflightChange("refuse", "")
    assert read_change(["--dangerous", "advise"]) == PreflightChange("", "advise")
    assert read_change(["off", "--dangerous", "off"]) == PreflightChange("off", "off")
    assert read_change([]) == PreflightChange()
    for words in (
        ["no"],
        ["--dangerous"],
        ["--dangerous", "x"],
        ["off", "off"],
        ["--dangerous", "off", "off"],
    ):
        assert read_change(words) is None


def test_what_was_started_to_refuse_is_not_talked_out_of_it() -> None:
    assert too_little(PreflightChange("advise"), "refuse", "off")
    assert too_little(PreflightChange("", "off"), "advise", "refuse")
    assert not too_little(PreflightChange("refuse"), "refuse", "refuse")
    assert not too_little(PreflightChange("off", "off"), "advise", "advise")
