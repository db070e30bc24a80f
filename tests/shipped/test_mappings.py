"""The words that ship: every refused call and every cause has its own, in both languages, and says what to do."""

from __future__ import annotations

import json
import re
from errno import errorcode
from pathlib import Path

import pytest

from sentinel_kernel.abi.architecture import ARCHITECTURES
from sentinel_kernel.policy.action import ActionKind
from sentinel_kernel.policy.cause import CALL, CAUSES, STAGES
from sentinel_kernel.policy.compiled import compile_policy
from sentinel_kernel.policy.mapping import FILE_NAME, PSEUDO_CALLS, load_mappings, parse_mapping
from sentinel_kernel.policy.profile import list_profiles, load_profile
from sentinel_kernel.policy.resource import resources
from sentinel_kernel.policy.shipped import shipped_directory

PATH = Path(shipped_directory("mappings"), FILE_NAME)
DOCUMENT = json.loads(PATH.read_text())
LISTS = {"groups": "syscalls", "causes": "causes", "errors": "errors"}
GROUPS = [DOCUMENT["default"], *(group for name in LISTS for group in DOCUMENT[name])]
CHINESE = re.compile(r"[\u4e00-\u9fff]")


def refused_calls() -> set[str]:
    return {
        rule.syscall
        for name in list_profiles()
        for machine in ARCHITECTURES
        for rules in compile_policy(load_profile(name), machine.machine).rules.values()
        for rule in rules
        if rule.action.kind is not ActionKind.ALLOW
    }


def test_every_refused_call_has_words_of_its_own() -> None:
    mappings = load_mappings()
    assert [call for call in sorted({*refused_calls(), *PSEUDO_CALLS}) if not mappings.has(call)] == []


@pytest.mark.parametrize(
    "group",
    GROUPS,
    ids=lambda group: next((group[key][0] for key in LISTS.values() if key in group), "default"),
)
def test_each_group_speaks_both_languages(group: dict[str, object]) -> None:
    hint = group["hint"]
    assert isinstance(hint, dict)
    for english, chinese in ((group["en"], group["zh"]), (hint["en"], hint["zh"])):
        assert isinstance(english, str)
        assert isinstance(chinese, str)
        assert not CHINESE.search(english)
        assert CHINESE.search(chinese)
        assert english.endswith((".", ")", "{ended}"))
        assert chinese.endswith(("。", "）", "{ended}"))
        placeholders = re.findall(r"{(\w+)}", english)
        assert sorted(placeholders) == sorted(re.findall(r"{(\w+)}", chinese))


def test_every_cause_has_words_of_its_own_and_so_has_each_of_its_variants() -> None:
    written = {key for group in DOCUMENT["causes"] for key in group["causes"]}
    for cause in CAUSES.values():
        if cause.name == CALL:
            continue
        assert cause.name in written
        assert {f"{cause.name}:{variant}" for variant in cause.variants if variant not in STAGES} <= written


@pytest.mark.parametrize("error", [PermissionError(1, ""), OSError(30, ""), OSError(28, ""), MemoryError()])
def test_an_error_of_which_no_more_is_known_has_words_too(error: Exception) -> None:
    names = [errorcode.get(getattr(error, "errno", None) or 0, ""), type(error).__name__]
    words = load_mappings().error_words(names, "strict")
    assert words is not None
    assert words.message_en
    assert words.hint_zh
    assert load_mappings().error_words(["ValueError"]) is None


def test_the_readmes_example_of_words_of_ones_own_can_be_used() -> None:
    readme = Path(__file__).parents[2].joinpath("README.md").read_text()
    start = readme.rindex("{", 0, readme.index('"$schema_version"'))
    example, _ = json.JSONDecoder().raw_decode(readme[start:])
    assert parse_mapping(json.dumps(example), whole=False).layers[0].causes


@pytest.mark.parametrize("name", LISTS)
def test_no_key_is_in_two_groups(name: str) -> None:
    keys = [key for group in DOCUMENT[name] for key in group[LISTS[name]]]
    assert len(keys) == len(set(keys))


def test_uses_are_real_ones() -> None:
    for group in DOCUMENT["groups"]:
        for key in group["syscalls"]:
            _, colon, use = key.partition(":")
            assert not colon or use in resources()


def test_hints_name_no_profile() -> None:
    """Which profile would help is found by trying it, not written down where it can become untrue."""
    for group in GROUPS:
        for text in group["hint"].values():
            assert not re.search(r"datascience|strict\b|\bweb\b|%sentinel_profile", text)
