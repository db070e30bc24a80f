"""Who is asked to allow a rule is told what it opens beyond one host."""

from __future__ import annotations

import pytest

from sentinel_kernel.policy.network import parse_rule
from sentinel_kernel.policy.network_opening import opens


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        ("0.0.0.0/0", "every host of the internet"),
        ("[::/0]:443", "every host of the internet"),
        ("8.0.0.0/8:443", "16,777,216 addresses"),
        ("*.com", "every name that ends in .com"),
        ("*.co.uk:443", "every name that ends in .co.uk"),
        ("169.254.169.254", "credentials"),
        ("169.254.169.254:80", "credentials"),
        ("10.0.0.0/8", "network around this machine"),
        ("192.168.1.10:22", "network around this machine"),
    ],
)
def test_what_is_more_than_a_host_is_said(rule: str, said: str) -> None:
    english, chinese = opens(rule)
    assert said in english
    assert chinese


@pytest.mark.parametrize(
    "rule", ["pypi.org", "*.example.org:443", "192.0.2.10:80", "192.0.2.0/24", "2001:db8::1"]
)
def test_a_host_is_what_it_is(rule: str) -> None:
    assert opens(rule) == ("", "")


@pytest.mark.parametrize("rule", ["localhost", "localhost:22", "LOCALHOST.:80", "a.localhost", "*.localhost"])
def test_this_machines_own_loopback_is_no_host(rule: str) -> None:
    with pytest.raises(ValueError, match="loopback is the sandbox's own"):
        parse_rule(rule)
