"""Preflight where hosts may be reached: it names the host that is not listed, and is silent about all that may work."""

from __future__ import annotations

import json

import pytest

from sentinel_kernel.policy.compiled import compile_policy
from sentinel_kernel.policy.leeway import Leeway
from sentinel_kernel.policy.preflight import check
from sentinel_kernel.policy.preflight_expected import with_remedies
from sentinel_kernel.policy.preflight_finding import Facts
from sentinel_kernel.policy.profile import load_profile
from sentinel_kernel.policy.profile_document import parse_profile
from sentinel_kernel.record import replace

LISTED = {
    "allow": True,
    "allow_dns": True,
    "hosts": ["pypi.org:443", "*.example.org", "192.0.2.0/24:443"],
    "http": [{"method": "GET", "host": "api.example.com"}],
}


def facts(**network: object) -> Facts:
    profile = parse_profile("mine", json.dumps({"extends": "datascience", "network": {**LISTED, **network}}))
    return Facts(policy=compile_policy(profile, "x86_64"), writable=("/tmp",))


NAMES_ALONE = facts(hosts=["pypi.org:443", "*.example.org"])


@pytest.mark.parametrize(
    ("code", "cause"),
    [
        ("import requests\nrequests.get('https://pypi.org/simple')", None),
        ("import requests\nrequests.get('https://PyPI.org/simple')", None),
        ("import requests\nrequests.get('https://a.example.org/x')", None),
        ("import requests\nrequests.get('http://api.example.com/x')", None),
        ("import requests\nrequests.get(url)", None),
        ("import requests\nrequests.get('http://localhost:8000/')", None),
        ("import requests\nrequests.get('https://other.net/x')", "host_refused"),
        ("import requests\nrequests.get('https://example.org/x')", "host_refused"),
        ("import socket\nsocket.create_connection(('198.51.100.7', 80))", "host_refused"),
        ("import socket\nsocket.gethostbyname('other.net')", "host_refused"),
        ("!curl -s https://other.net/x", "host_refused"),
        ("!curl -s https://pypi.org/x", None),
        ("!git clone https://other.net/x.git", "host_refused"),
        ("%pip install polars", None),
        ("!pip install polars", None),
        ("!conda install -y polars", None),
        ("!apt-get install -y gcc", "name_lookup"),
    ],
)
def test_a_host_that_is_not_listed_is_named(code: str, cause: str | None) -> None:
    assert [one.cause for one in check(code, NAMES_ALONE)] == ([] if cause is None else [cause])


def test_where_ranges_are_listed_a_name_may_lead_there() -> None:
    assert check("import requests\nrequests.get('https://other.net/x')", facts()) == ()
    numeric = check("import socket\nsocket.create_connection(('198.51.100.7', 80))", facts())
    assert [one.cause for one in numeric] == ["host_refused"]
    assert check("import socket\nsocket.create_connection(('192.0.2.7', 443))", facts()) == ()


def test_what_the_person_has_allowed_is_no_finding() -> None:
    code = "import requests\nrequests.get('https://other.net/x')"
    assert check(code, replace(NAMES_ALONE, granted=("other.net:443",))) == ()
    plain = Facts(policy=compile_policy(load_profile("datascience"), "x86_64"), writable=("/tmp",))
    assert [one.cause for one in check(code, plain)] == ["name_lookup"]
    assert check(code, replace(plain, granted=("other.net",))) == ()


def test_wheels_that_were_fetched_are_installed_without_an_index() -> None:
    plain = Facts(policy=compile_policy(load_profile("datascience"), "x86_64"), writable=("/tmp",))
    assert [one.cause for one in check("%pip install polars", plain)] == ["name_lookup"]
    assert check("%pip install polars", replace(plain, has_wheels=True)) == ()


def test_the_finding_has_the_words_and_the_remedy_of_the_refusal() -> None:
    code = "import requests\nrequests.get('https://other.net/x')"
    [found] = check(code, NAMES_ALONE)
    assert "other.net" not in found.message.en
    told = with_remedies(found, NAMES_ALONE.policy, code, Leeway(ceiling="web", asks=True))
    assert [remedy.text for remedy in told.remedies] == ["%sentinel_allow other.net"]
    assert "%sentinel_allow other.net" in told.hint.en
    assert "%sentinel_allow other.net" in told.hint.zh
    # Nothing ran, so that there is nothing to say of what was sent; also where nobody is asked.
    alone = with_remedies(found, NAMES_ALONE.policy, code, Leeway(ceiling="web"))
    for hint in (told.hint, alone.hint):
        assert "sent" not in hint.en.split()
        assert "发送" not in hint.zh
    assert "A profile that lists the host" in alone.hint.en
