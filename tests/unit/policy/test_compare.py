"""What one profile gives that another does not: the same answer in words, in a question and for the ceiling."""

from __future__ import annotations

import itertools

import pytest

from sentinel_kernel.policy.compare import Surplus, is_within, surplus
from sentinel_kernel.policy.compiled import compile_policy
from sentinel_kernel.policy.in_words import network
from sentinel_kernel.policy.profile import load_profile
from sentinel_kernel.policy.profile_document import parse_profile


@pytest.mark.parametrize(
    ("inner", "outer"), list(itertools.permutations(("strict", "datascience", "web", "sentinelbox/web"), 2))
)
def test_what_goes_beyond_a_ceiling_can_be_named(inner: str, outer: str) -> None:
    profile, ceiling = load_profile(inner), load_profile(outer)
    assert (surplus(profile, ceiling, "x86_64") == Surplus()) is is_within(profile, ceiling, "x86_64")


def test_web_gives_names_and_hosts_alone_and_says_so() -> None:
    web, datascience = load_profile("web"), load_profile("datascience")
    assert surplus(web, datascience, "x86_64") == Surplus(names=True, hosts=web.network.hosts)
    assert web.resources == datascience.resources
    told = network(compile_policy(web, "x86_64"))
    assert told != network(compile_policy(datascience, "x86_64"))
    assert "pypi.org:443" in told
    assert "package index" in web.description


def test_folders_are_named() -> None:
    strict = load_profile("strict")
    more = parse_profile("more", '{"extends": "strict", "filesystem": {"mounts": [{"path": "/data"}]}}')
    hides = parse_profile("hides", '{"extends": "strict", "filesystem": {"hidden": ["secret"]}}')
    assert surplus(more, strict, "x86_64") == Surplus(folders=("/data (ro)",))
    assert surplus(strict, hides, "x86_64") == Surplus(unhidden=("secret",))


def test_new_files_that_reach_the_host_by_themselves_are_more() -> None:
    strict, datascience = load_profile("strict"), load_profile("datascience")
    assert (strict.filesystem.commit, datascience.filesystem.commit) == ("none", "new")
    assert load_profile("web").filesystem.commit == "new"
    holds = parse_profile("holds", '{"extends": "datascience", "filesystem": {"commit": "none"}}')
    assert surplus(datascience, holds, "x86_64") == Surplus(commits=True)
    assert is_within(holds, datascience, "x86_64")
