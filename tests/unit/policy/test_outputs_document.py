"""The section `outputs` of a profile: what is read, what is refused, and which of two profiles gives more."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sentinel_kernel.errors import ProfileError
from sentinel_kernel.policy.compare import is_within, surplus
from sentinel_kernel.policy.profile import Outputs, Profile, load_profile
from sentinel_kernel.policy.profile_document import parse_profile


def profile(name: str = "own", **outputs: Any) -> Profile:
    return parse_profile(name, json.dumps({"extends": "strict", "outputs": outputs}))


def test_lists_add_up_and_what_is_not_said_is_the_parents() -> None:
    made = profile(
        html="sanitize", hosts=["cdn.plot.ly"], types=["application/geo+json"], comm_targets=["a-b"]
    )
    assert made.outputs == Outputs(
        html="sanitize", hosts=("cdn.plot.ly",), types=("application/geo+json",), comm_targets=("a-b",)
    )
    assert load_profile("strict").outputs == Outputs()


@pytest.mark.parametrize(
    ("outputs", "place"),
    [
        ({"html": "run"}, "$.outputs.html"),
        ({"javascript": "run"}, "$.outputs.javascript"),
        ({"hosts": ["localhost"]}, "$.outputs.hosts[0]"),
        ({"hosts": ["a.b.org", "127.0.0.1"]}, "$.outputs.hosts[1]"),
        ({"hosts": ["https://a.org"]}, "$.outputs.hosts[0]"),
        ({"hosts": ["a.org:8443"]}, "$.outputs.hosts[0]"),
        ({"hosts": ["a.org; script-src *"]}, "$.outputs.hosts[0]"),
        ({"hosts": ["*"]}, "$.outputs.hosts[0]"),
        ({"hosts": ["*.org"]}, "$.outputs.hosts[0]"),
        ({"hosts": ["jupyter.internal"]}, "$.outputs.hosts[0]"),
        ({"types": ["application/javascript"]}, "$.outputs.types[0]"),
        ({"types": ["application/vnd.sentinel.violation+json"]}, "$.outputs.types[0]"),
        ({"types": ["html"]}, "$.outputs.types[0]"),
        ({"widget_modules": ["a b"]}, "$.outputs.widget_modules[0]"),
        ({"hosts": ["a.org"] * 101}, "$.outputs.hosts"),
        ({"scripts": True}, "$.outputs.scripts"),
    ],
)
def test_what_is_not_understood_is_refused_with_its_place(outputs: dict[str, Any], place: str) -> None:
    with pytest.raises(ProfileError) as caught:
        profile(**outputs)
    assert caught.value.json_path == place


def test_a_ceiling_bounds_what_outputs_may_do() -> None:
    ceiling = profile("ceiling", html="sanitize", hosts=["*.example.org"], widget_modules=["ipyvolume"])
    within = profile("within", html="plain", hosts=["a.example.org", "*.b.example.org"])
    beyond = profile("beyond", html="frame", hosts=["example.org", "a.example.org"], comm_targets=["x"])
    assert is_within(within, ceiling, "x86_64")
    assert not is_within(beyond, ceiling, "x86_64")
    assert surplus(beyond, ceiling, "x86_64").outputs == ("html: frame", "example.org", "x")
