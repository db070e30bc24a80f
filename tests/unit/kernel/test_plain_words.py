"""Numbers take their plural, and Chinese pages are Chinese: amounts, quotes, prompts, profiles."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from sentinel_kernel.kernel.ceiling import Ceiling
from sentinel_kernel.kernel.gauge_controls import GaugeControls
from sentinel_kernel.kernel.profiles_page import profiles_page
from sentinel_kernel.kernel.settings import read_settings
from sentinel_kernel.kernel.store_words import leaving
from sentinel_kernel.kernel.switch_words import SwitchWords
from sentinel_kernel.policy.hints import complete
from sentinel_kernel.policy.mapping import fill
from sentinel_kernel.policy.occurrence import limit_violation
from sentinel_kernel.policy.sizes_in_words import amount, counted

SOURCES = Path(__file__).parents[3] / "sentinel_kernel"


@pytest.mark.parametrize(
    ("number", "thing", "told"), [(0, "file", "0 files"), (1, "row", "1 row"), (2_500, "row", "2,500 rows")]
)
def test_one_is_no_plural(number: int, thing: str, told: str) -> None:
    assert counted(number, thing) == told


def test_messages_with_one_of_a_thing_say_so() -> None:
    assert amount(1, "seconds") == "1 second"
    assert "in 1 day:" in leaving(1, 1).message_en
    assert "in 7 days:" in leaving(2, 7).message_en
    cargo: Any = SimpleNamespace(carried=[1], size_bytes=10, left=[])
    assert "1 variable (" in SwitchWords("en").leaves(cargo)
    told = {"name": "pids", "stage": "refused", "allowed": 8, "unit": "count"}
    for more, said in (
        ({"ended": "1"}, "The one that this cell had started was ended"),
        ({"ended": "3"}, "The 3 that this cell had started were ended"),
        ({"left": "1"}, "One is left that is older than this cell or its own thread: end it"),
        ({"left": "4"}, "4 are left that are older than this cell or its own threads: end those"),
    ):
        message = complete(limit_violation({**told, **more}, id="v", time_ms=0)).message
        assert message is not None
        assert said in message.en


def test_no_blank_stands_between_chinese_words() -> None:
    assert fill("若它在 {grace} 内没有结束", {"grace": "5 秒"}) == "若它在 5 秒内没有结束"
    assert fill("等待 {n} 个", {"n": "5"}) == "等待 5 个"
    told = {"name": "cpu_seconds", "stage": "interrupt", "allowed": 5, "grace_seconds": 5, "unit": "seconds"}
    done = complete(limit_violation(told, id="v", time_ms=0))
    assert done.message is not None
    assert done.hint is not None
    for text in (done.message.zh, done.hint.zh):
        assert not re.search(r"[\u4e00-\u9fff] [\u4e00-\u9fff]", text)
        assert "5 秒" in text


def test_chinese_words_have_chinese_quotes_and_answers() -> None:
    wrong = [
        f"{path.name}:{number}"
        for path in SOURCES.glob("kernel/*.py")
        for number, line in enumerate(path.read_text().split("\n"), 1)
        if re.search(r"[\u4e00-\u9fff]", line)
        and re.search(r"[\u4e00-\u9fff：，（] ?(?:\{[^{}]+!r\}|'\{)|？ ?\[y/n\]", line)
    ]
    assert wrong == []


def test_what_the_shipped_profiles_are_for_is_told_in_chinese() -> None:
    settings = read_settings(["-f", "-"], {}, ".")
    page = profiles_page((), Ceiling(settings), "strict", chinese=True)["text/plain"]
    rows = [
        line
        for line in str(page).split("\n")
        if re.match(r"\s*(?:sentinelbox/)?(?:strict|datascience|web)\b", line)
    ]
    assert len(rows) == 6
    english = re.compile(r"Code you|Your own|As datascience|no network|more memory|outgoing")
    assert not english.search(str(page))
    assert "用于未读过的代码" in str(page)
    assert "Code you have not read" in str(profiles_page((), Ceiling(settings), "strict", chinese=False))


def test_the_gauge_offers_no_profile_that_is_broken(tmp_path: Path) -> None:
    (tmp_path / "broken.json").write_text("{")
    (tmp_path / "whole.json").write_text('{"extends": "strict"}')
    (tmp_path / "inuse.json").write_text("{")
    host: Any = SimpleNamespace(
        magics=SimpleNamespace(choices=lambda: ["strict", "whole"]),
        lifecycle=SimpleNamespace(profile="inuse"),
        settings=SimpleNamespace(profile_directories=(str(tmp_path),)),
    )
    choices = dict(GaugeControls(host, lambda: None).choices())
    assert "broken" not in choices
    assert choices["whole"]
    assert choices["inuse"]  # what is in force stays selected
    assert choices["web"] is False  # beyond the ceiling
