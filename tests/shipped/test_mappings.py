"""The words that ship: every refused call has its own, in both languages, and says something to do."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from sentinel_kernel.abi.architecture import ARCHITECTURES
from sentinel_kernel.policy.action import ActionKind
from sentinel_kernel.policy.compiled import compile_policy
from sentinel_kernel.policy.mapping import FILE_NAME, PSEUDO_CALLS, load_mappings
from sentinel_kernel.policy.profile import list_profiles, load_profile
from sentinel_kernel.policy.resource import resources
from sentinel_kernel.policy.shipped import shipped_directory

PATH = Path(shipped_directory("mappings"), FILE_NAME)
DOCUMENT = json.loads(PATH.read_text())
GROUPS = [DOCUMENT["default"], *DOCUMENT["groups"]]
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


@pytest.mark.parametrize("group", GROUPS, ids=lambda group: group.get("syscalls", ["default"])[0])
def test_each_group_speaks_both_languages(group: dict[str, object]) -> None:
    hint = group["hint"]
    assert isinstance(hint, dict)
    for english, chinese in ((group["en"], group["zh"]), (hint["en"], hint["zh"])):
        assert isinstance(english, str)
        assert isinstance(chinese, str)
        assert not CHINESE.search(english)
        assert CHINESE.search(chinese)
        assert english.endswith((".", ")"))
        assert chinese.endswith(("。", "）"))
        placeholders = re.findall(r"{(\w+)}", english)
        assert sorted(placeholders) == sorted(re.findall(r"{(\w+)}", chinese))


def test_no_call_is_in_two_groups() -> None:
    keys = [key for group in DOCUMENT["groups"] for key in group["syscalls"]]
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
