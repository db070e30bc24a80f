"""The sentence that says what helps: the same facts in both languages, and sentences."""

from __future__ import annotations

import importlib
import pkgutil
from string import Formatter

import pytest
from sample_violations import occurred

from sentinel_kernel import policy
from sentinel_kernel.policy import remedy_words
from sentinel_kernel.policy.hints import complete
from sentinel_kernel.policy.leeway import Leeway
from sentinel_kernel.policy.profile import list_profiles, load_profile
from sentinel_kernel.policy.violation import Limit, Text, Violation

LEEWAY = Leeway(
    profiles=tuple(load_profile(name) for name in list_profiles()),
    sizes={"wall_seconds": None, "memory_bytes": 1 << 30, "pids": 128},
    most={"wall_seconds": None, "memory_bytes": 10 << 30, "pids": 4096},
)
POOL = "from concurrent.futures import ThreadPoolExecutor\npool = ThreadPoolExecutor(max_workers=500)"


def limited(name: str, allowed: float, unit: str) -> Violation:
    return occurred(name, limit=Limit(name, "refused", None, allowed, unit, own=False, backend="x"))


def placeholders(template: str) -> set[str]:
    return {name for _, name, _, _ in Formatter().parse(template) if name is not None}


def words_of(module: str) -> list[tuple[str, Text]]:
    return [
        (name, value)
        for name, value in vars(importlib.import_module(module)).items()
        if isinstance(value, Text)
    ]


def test_words_are_found_to_be_compared() -> None:
    assert len(words_of(remedy_words.__name__)) > 20


@pytest.mark.parametrize(
    "module", [f"{policy.__name__}.{one.name}" for one in pkgutil.iter_modules(policy.__path__)]
)
def test_both_languages_tell_the_same_values(module: str) -> None:
    for name, words in words_of(module):
        assert placeholders(words.en) == placeholders(words.zh), name


@pytest.mark.parametrize("own", ["wall=1", "pids=20"])
def test_a_limit_that_the_cell_sets_itself_is_named_in_a_sentence_of_both_languages(own: str) -> None:
    code = f"%sentinel_limit {own}\nimport time\ntime.sleep(3)"
    done = complete(limited("wall_seconds", 1, "seconds"), leeway=LEEWAY, code=code)
    assert done.hint is not None
    [line] = [remedy.text for remedy in done.remedies]
    assert (
        f"Write `{line}` in the line in which the cell sets limits itself. %sentinel_explain" in done.hint.en
    )
    assert f"在单元格自行设定限制的那一行写 `{line}`。%sentinel_explain" in done.hint.zh


def test_a_changed_cell_is_told_of_in_both_languages() -> None:
    done = complete(limited("pids", 128, "count"), leeway=LEEWAY, code=POOL)
    assert done.hint is not None
    assert "Use at most 32 workers. %sentinel_explain shows" in done.hint.en
    assert (
        "32 个并行工作单元不会超出进程和线程数限制；任务由它们分担。%sentinel_explain 可显示" in done.hint.zh
    )
