"""What programs inside are told of their way out: nothing without one, the index, the wheels and the proxy with one."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from sentinel_kernel.policy.installing import way_out_sockets, way_out_variables
from sentinel_kernel.policy.profile_document import parse_profile

if TYPE_CHECKING:
    from sentinel_kernel.policy.profile import Network

RULE = {"method": "GET", "host": "api.example.org"}
HOSTS = {"allow": True, "allow_dns": True, "hosts": ["pypi.org:443"]}


def network(**said: Any) -> Network:
    return parse_profile("mine", json.dumps({"extends": "datascience", "network": said})).network


@pytest.mark.parametrize(
    ("said", "expected", "absent"),
    [
        ({}, {}, ["PIP_RETRIES", "PIP_INDEX_URL", "HTTP_PROXY", "PIP_FIND_LINKS"]),
        (HOSTS, {"PIP_RETRIES": "1", "UV_HTTP_RETRIES": "1"}, ["PIP_INDEX_URL", "HTTP_PROXY"]),
        (
            {**HOSTS, "index": "https://pypi.org/simple"},
            {"PIP_INDEX_URL": "https://pypi.org/simple", "UV_DEFAULT_INDEX": "https://pypi.org/simple"},
            ["PIP_TRUSTED_HOST"],
        ),
        (
            {**HOSTS, "index": "http://pypi.org:8080/simple"},
            {"PIP_TRUSTED_HOST": "pypi.org:8080", "UV_INSECURE_HOST": "pypi.org:8080"},
            [],
        ),
        (
            {"allow": True, "http": [RULE]},
            {"HTTP_PROXY": "http://127.0.0.1:3128", "https_proxy": "http://127.0.0.1:3128"},
            ["PIP_INDEX_URL"],
        ),
        ({"allow": False, "http": [RULE]}, {}, ["HTTP_PROXY", "http_proxy"]),
    ],
)
def test_variables_say_what_the_profile_gives(
    said: dict[str, Any], expected: dict[str, str], absent: list[str]
) -> None:
    variables = way_out_variables(network(**said))
    assert expected.items() <= variables.items()
    assert not set(absent) & variables.keys()


def test_wheels_are_told_to_both_installers() -> None:
    variables = way_out_variables(network(), "/home/ada/.cache/sentinel-kernel/wheels")
    assert (
        variables["PIP_FIND_LINKS"] == variables["UV_FIND_LINKS"] == "/home/ada/.cache/sentinel-kernel/wheels"
    )


def test_the_proxys_socket_is_bound_where_it_is_named() -> None:
    assert way_out_sockets(network(allow=True, http=[RULE])) == (("proxy", "tcp", "127.0.0.1", 3128),)
    assert way_out_sockets(network(**HOSTS)) == ()
    assert way_out_sockets(network(allow=False, http=[RULE])) == ()
