"""A profile's hosts: read strictly, added up, and compared, so that no profile gives more unseen."""

from __future__ import annotations

import json
import platform
from typing import Any

import pytest

from sentinel_kernel.errors import ProfileError
from sentinel_kernel.policy.compare import is_within, least_first, surplus
from sentinel_kernel.policy.network_document import hosts_beyond, rules_of
from sentinel_kernel.policy.profile import Network, Profile, load_profile
from sentinel_kernel.policy.profile_document import parse_profile

MACHINE = platform.machine()


def profile(name: str, *hosts: str, extends: str = "datascience", **network: Any) -> Profile:
    """Return a profile with these hosts."""
    wanted = {"allow": True, "allow_dns": True, "hosts": list(hosts), **network}
    return parse_profile(name, json.dumps({"extends": extends, "network": wanted}))


def test_hosts_add_up_and_are_kept_in_their_usual_form() -> None:
    """What a profile extends keeps its hosts."""
    made = profile("mine", "Example.ORG:443", "example.org:443", extends="web")
    assert made.network.hosts == (*load_profile("web").network.hosts, "example.org:443")


def test_web_leads_to_the_package_index_and_the_others_nowhere() -> None:
    """The shipped profiles."""
    assert load_profile("web").network.hosts == ("pypi.org:443", "files.pythonhosted.org:443")
    assert load_profile("web").network.leads_out
    assert not load_profile("datascience").network.leads_out
    assert not load_profile("strict").network.leads_out
    assert not load_profile("sentinelbox/web").network.leads_out


@pytest.mark.parametrize(
    ("network", "place"),
    [
        ({"hosts": ["*"]}, "$.network.hosts[0]"),
        ({"hosts": ["pypi.org", "127.0.0.1"]}, "$.network.hosts[1]"),
        ({"hosts": "pypi.org"}, "$.network.hosts"),
        ({"hosts": [""]}, "$.network.hosts[0]"),
        ({"hosts": ["pypi.org"], "allow_dns": False}, "$.network.hosts"),
        ({"hosts": ["a.org"] * 201}, "$.network.hosts"),
        ({"hosts": [], "host": 1}, "$.network.host"),
    ],
)
def test_what_is_no_list_of_hosts_is_an_error_at_its_place(network: dict[str, Any], place: str) -> None:
    """As everywhere in a profile."""
    with pytest.raises(ProfileError) as caught:
        profile("mine", **network)
    assert caught.value.json_path == place


@pytest.mark.parametrize("base", ["strict", "datascience"])
def test_who_lists_hosts_means_them_to_be_reached(base: str) -> None:
    """Nothing else has to be written; what is written counts."""
    text = json.dumps({"extends": base, "network": {"hosts": ["a.org:443"]}})
    made = parse_profile("mine", text).network
    assert (made.allow, made.allow_dns, made.leads_out) == (True, True, True)
    assert not parse_profile("mine", text.replace('"hosts"', '"allow": false, "hosts"')).network.leads_out


def test_a_network_that_is_closed_leads_nowhere() -> None:
    """Hosts that were taken over have no effect."""
    closed = profile("mine", extends="web", allow=False)
    assert closed.network.hosts
    assert not closed.network.leads_out
    assert rules_of(closed.network) == ()


@pytest.mark.parametrize(
    ("hosts", "given", "beyond"),
    [
        (["a.org:443"], ["a.org"], []),
        (["a.org"], ["a.org:443"], ["a.org"]),
        (["a.org:80-90"], ["a.org:80-85"], ["a.org:80-90"]),
        (["x.a.org", "*.x.a.org", "*.a.org"], ["*.a.org"], []),
        (["a.org"], ["*.a.org"], ["a.org"]),
        (["*.a.org"], ["a.org"], ["*.a.org"]),
        (["203.0.113.7"], ["203.0.113.0/24"], []),
        (["203.0.113.0/24"], ["203.0.113.7"], ["203.0.113.0/24"]),
        (["10.0.0.0/8"], ["10.0.0.0/8"], []),
        # A wide range means public addresses alone: a private one within it is more.
        (["10.0.0.1"], ["0.0.0.0/0"], ["10.0.0.1"]),
        (["10.0.0.0/8"], ["0.0.0.0/0"], ["10.0.0.0/8"]),
        (["203.0.113.7"], ["a.org"], ["203.0.113.7"]),
        (["a.org"], ["203.0.113.7"], ["a.org"]),
        (["2001:db8::1"], ["0.0.0.0/0"], ["2001:db8::1"]),
    ],
)
def test_more_hosts_is_more(hosts: list[str], given: list[str], beyond: list[str]) -> None:
    """Only what is certain to be given counts as given."""
    wanted, ceiling = (Network(True, True, tuple(one)) for one in (hosts, given))
    assert list(hosts_beyond(wanted, ceiling)) == beyond


def test_profiles_are_compared_by_their_hosts() -> None:
    """A ceiling holds them, and the one that gives least comes first."""
    web, science = load_profile("web"), load_profile("datascience")
    more = profile("more", "example.org", extends="web")
    assert is_within(science, web, MACHINE)
    assert is_within(web, more, MACHINE)
    assert not is_within(more, web, MACHINE)
    assert surplus(more, web, MACHINE).hosts == ("example.org",)
    assert [one.name for one in least_first([more, web, science], MACHINE)] == ["datascience", "web", "more"]
