"""Rules of HTTP, secrets and the index of packages in a profile: what is read, what matches, what is more."""

from __future__ import annotations

import json
import platform
from typing import Any

import pytest

from sentinel_kernel.errors import ProfileError
from sentinel_kernel.policy.compare import is_within, surplus
from sentinel_kernel.policy.http_rules import HttpPolicy, path_matches, plain_host
from sentinel_kernel.policy.network import NetworkPolicy
from sentinel_kernel.policy.profile_document import parse_profile

MACHINE = platform.machine()
RULE = {"method": "GET", "host": "api.example.org", "path": "/v1/*"}


def read(name: str = "mine", **network: Any) -> Any:
    return parse_profile(name, json.dumps({"extends": "datascience", "network": network}))


@pytest.mark.parametrize(
    ("network", "place"),
    [
        ({"http": {}}, "$.network.http"),
        ({"http": ["GET"]}, "$.network.http[0]"),
        ({"http": [{}]}, "$.network.http[0]"),
        ({"http": [{**RULE, "method": "get"}]}, "$.network.http[0].method"),
        ({"http": [{**RULE, "method": "GET POST"}]}, "$.network.http[0].method"),
        ({"http": [{**RULE, "method": "TRACE"}]}, "$.network.http[0].method"),
        ({"http": [{**RULE, "method": "CONNECT, GET"}]}, "$.network.http[0].method"),
        ({"http": [{**RULE, "method": "CONNECT"}]}, "$.network.http[0].path"),
        ({"http": [{**RULE, "host": "*"}]}, "$.network.http[0].host"),
        ({"http": [{**RULE, "host": "api.example.org:80-90"}]}, "$.network.http[0].host"),
        ({"http": [{**RULE, "host": "https://api.example.org"}]}, "$.network.http[0].host"),
        ({"http": [{**RULE, "path": "v1"}]}, "$.network.http[0].path"),
        ({"http": [{**RULE, "path": "/v1?x=1"}]}, "$.network.http[0].path"),
        ({"http": [{**RULE, "scheme": "ftp"}]}, "$.network.http[0].scheme"),
        ({"http": [{**RULE, "verb": "GET"}]}, "$.network.http[0].verb"),
        (
            {"secrets": [{"host": "api.example.org", "header": "X", "from": "env:A"}]},
            "$.network.secrets[0].host",
        ),
        ({"index": "pypi.org"}, "$.network.index"),
        ({"index": "https://me:pw@pypi.org/simple"}, "$.network.index"),
    ],
)
def test_what_can_not_be_used_is_named_by_its_place(network: dict[str, Any], place: str) -> None:
    with pytest.raises(ProfileError) as caught:
        read(**network)
    assert caught.value.json_path == place


@pytest.mark.parametrize(
    ("changed", "place"),
    [
        ({"host": "*.example.org"}, "host"),
        ({"host": "10.0.0.0/8"}, "host"),
        ({"header": "Host"}, "header"),
        ({"header": "A B"}, "header"),
        ({"header": "Transfer-Encoding"}, "header"),
        ({"from": "A"}, "from"),
        ({"from": "env:A-B"}, "from"),
        ({"from": "file:/etc/passwd"}, "from"),
        ({"from": "keyring:service"}, "from"),
        ({"prefix": "a\nb"}, "prefix"),
    ],
)
def test_a_secret_is_one_header_of_one_host(changed: dict[str, str], place: str) -> None:
    secret = {"host": "api.example.org", "header": "Authorization", "from": "env:TOKEN", **changed}
    with pytest.raises(ProfileError) as caught:
        read(http=[RULE, {**RULE, "host": "*.example.org"}], secrets=[secret])
    assert caught.value.json_path == f"$.network.secrets[0].{place}"


def test_a_request_is_matched_by_method_host_port_and_path() -> None:
    rules = [
        RULE,
        {"host": "*.deep.example.org:8443", "scheme": "http"},
        {"method": "CONNECT", "host": "t.example.org"},
    ]
    policy = HttpPolicy(NetworkPolicy(), read(http=rules).network.http)
    by = policy.rule_for_request
    assert by("GET", "api.example.org", 80, "/v1/x") is policy.rules[0]
    assert by("GET", "api.example.org", 443, "/v1/") is policy.rules[0]
    assert by("GET", "api.example.org", 8080, "/v1/x") is None
    assert by("POST", "api.example.org", 80, "/v1/x") is None
    assert by("GET", "api.example.org", 80, "/v2/x") is None
    assert by("GET", "api.example.org", 80, None) is None
    assert by("GET", "x.api.example.org", 80, "/v1/x") is None
    assert by("PUT", "a.deep.example.org", 8443, None) is policy.rules[1]
    assert by("PUT", "deep.example.org", 8443, "/") is None
    assert by("PUT", "a.deep.example.org", 80, "/") is None
    assert policy.rule_for_tunnel("t.example.org", 443) is policy.rules[2]
    assert policy.rule_for_tunnel("api.example.org", 443) is None
    assert by("GET", "t.example.org", 443, "/") is None


@pytest.mark.parametrize(
    ("pattern", "path", "matches"),
    [
        ("/a", "/a", True),
        ("/a", "/a/", False),
        ("/a/*", "/a/", True),
        ("/a/*", "/a", False),
        ("/a/*/c", "/a/b/c", True),
        ("/a/*/c", "/a/c", False),
        ("/a*a", "/a", False),
        ("/*b*", "/aabaa", True),
        ("*", "/x", True),
    ],
)
def test_a_star_stands_for_any_characters(pattern: str, path: str, matches: bool) -> None:
    assert path_matches(pattern, path) is matches


@pytest.mark.parametrize(
    ("text", "host"),
    [
        ("API.Example.ORG.", "api.example.org"),
        ("192.0.2.1", "192.0.2.1"),
        ("[2001:db8::1]", "2001:db8::1"),
        ("0x7f.1", ""),
        ("127.1", ""),
        ("2130706433", ""),
        ("0177.0.0.1", ""),
        ("a_b.example.org", "a_b.example.org"),
        ("a b", ""),
        ("", ""),
    ],
)
def test_a_host_has_one_form(text: str, host: str) -> None:
    assert plain_host(text) == host


def test_more_requests_and_more_secrets_are_more_for_a_ceiling() -> None:
    secret = {"host": "api.example.org", "header": "Authorization", "from": "env:TOKEN"}
    least, more = read("least", http=[RULE]), read("more", http=[RULE], secrets=[secret])
    none = read("none")
    assert is_within(none, least, MACHINE)
    assert is_within(least, more, MACHINE)
    assert not is_within(least, none, MACHINE)
    assert not is_within(more, least, MACHINE)
    assert surplus(more, none, MACHINE).requests == ("HTTP api.example.org", "env:TOKEN")


def test_rules_are_added_to_those_of_the_extended_profile() -> None:
    network = read(http=[RULE], index="https://pypi.example.org/simple").network
    assert len(network.http) == 1
    assert network.index == "https://pypi.example.org/simple"
    assert read().network.http == ()
