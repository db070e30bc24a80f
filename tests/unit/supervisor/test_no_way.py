"""Where an unreachable network is the sandbox's doing, and which addresses are named in words of ours."""

from __future__ import annotations

import errno
from types import SimpleNamespace
from typing import Any

import pytest

from sentinel_kernel.policy.failure_report import read_report
from sentinel_kernel.supervisor.network.elsewhere import elsewhere
from sentinel_kernel.supervisor.network.no_way import numeric


def _explained(*, way_out: bool = False, rung: str = "full", **said: Any) -> Any:
    current: Any = SimpleNamespace(
        handler=SimpleNamespace(way_out=object() if way_out else None),
        preparation=SimpleNamespace(
            plan=SimpleNamespace(lists=None if rung == "full" else object()),
            profile=SimpleNamespace(name="strict"),
        ),
    )
    entry = {"ename": "OSError", "base": "OSError", "by": "call", "errno": errno.ENETUNREACH, "lines": []}
    return elsewhere(current, read_report({"chain": [{**entry, **said}]}).chain[0])


def test_in_a_network_of_its_own_no_way_is_the_sandboxs_doing() -> None:
    found = _explained(host="192.0.2.1:80")
    assert (found.cause, found.errno, found.values["address"]) == (
        "network_unreachable",
        errno.ENETUNREACH,
        "192.0.2.1:80",
    )
    assert found.subject.text == "192.0.2.1:80"
    assert _explained().subject is None


def test_where_a_way_leads_out_it_may_be_the_network_outside() -> None:
    assert _explained(way_out=True, host="192.0.2.1:80") is None
    assert _explained(way_out=True, site="datagram").values["socket"] == "datagram"


@pytest.mark.parametrize("said", [{"by": "raise"}, {"by": "library"}, {"rung": "landlock"}])
def test_what_a_program_says_itself_or_the_hosts_network_does_is_left_alone(said: dict[str, str]) -> None:
    assert _explained(host="192.0.2.1:80", **said) is None


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("192.0.2.1:80", "192.0.2.1:80"),
        ("[2001:DB8::1]:0443", "[2001:db8::1]:443"),
        ("rivers.example.org:80", ""),
        ("192.0.2.1", ""),
        ("192.0.2.1:99999", ""),
        ("192.0.2.1:000000" + "9" * 9, ""),
        ("`x`:80", ""),
        ("192.0.2.1\0:80", ""),
    ],
)
def test_only_an_address_that_is_one_is_named(text: str, address: str) -> None:
    assert numeric(text) == address
