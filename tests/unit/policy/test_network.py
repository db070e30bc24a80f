"""Rules of hosts: what is one, which names and addresses it means, and what no name makes reachable."""

from __future__ import annotations

import socket

import pytest

from sentinel_kernel.policy.network import (
    LISTED,
    LOOPBACK,
    METADATA,
    MULTICAST,
    NO_NETWORK,
    NOT_LISTED,
    OWN,
    PORT,
    PRIVATE,
    PUBLIC,
    RESERVED,
    SHARED,
    UNREADABLE,
    NetworkPolicy,
    host_name,
    kind_of,
    parse_address,
    parse_rule,
)

PUBLIC_ADDRESS = bytes([203, 0, 113, 7])


def packed(text: str) -> bytes:
    """Return the bytes of an address in its usual form."""
    return socket.inet_pton(socket.AF_INET6 if ":" in text else socket.AF_INET, text)


def policy(*rules: str, own: tuple[str, ...] = ()) -> NetworkPolicy:
    """Return the policy of ``rules`` on a machine with the addresses ``own``."""
    return NetworkPolicy(tuple(parse_rule(rule) for rule in rules), frozenset(packed(one) for one in own))


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("PyPI.org", "pypi.org"),
        ("pypi.org.", "pypi.org"),
        ("pypi.org:443", "pypi.org:443"),
        ("*.Example.org:8000-8999", "*.example.org:8000-8999"),
        ("bücher.example", "xn--bcher-kva.example"),
        ("10.1.2.0/24:5432", "10.1.2.0/24:5432"),
        ("0x0a.1", "10.0.0.1"),
        ("167772161:80", "10.0.0.1:80"),
        ("012.0.0.1", "10.0.0.1"),
        ("203.0.113.7/32", "203.0.113.7"),
        ("2001:db8::1", "2001:db8::1"),
        ("[2001:DB8:0::1]:443", "[2001:db8::1]:443"),
        ("[2001:db8::/32]:443", "[2001:db8::/32]:443"),
        ("2001:db8::/32", "2001:db8::/32"),
        ("::ffff:203.0.113.7", "203.0.113.7"),
        ("_dmarc.example.org", "_dmarc.example.org"),
    ],
)
def test_rules_are_shown_in_their_usual_form(written: str, shown: str) -> None:
    """Reading what was shown gives the same rule."""
    assert parse_rule(written).text == shown
    assert parse_rule(shown) == parse_rule(written)


@pytest.mark.parametrize(
    "written",
    [
        "", "*", "*.", "*.*.org", "a.*.org", "*foo.org", "-/24", "pypi.org/24", "pypi.org:0", "pypi.org:65536",
        "pypi.org:443-80", "pypi.org:", "pypi.org:a", "https://pypi.org", "pypi.org/simple", "user@pypi.org", "a b",
        "a..b", "a" * 64 + ".org", "a." * 127 + "org", "10.1.2.3/24", "10.0.0.0/33", "[2001:db8::1", "2001:db8::1]:1",
        "[fe80::1%eth0]", "127.0.0.1", "::1", "127.0.0.0/8:80", "0.0.0.0:80", "1.2.3.4.5", "256.1.1.1", "exa\0mple.org",
        "example.123", "pypi.org:\u0661", "::ffff:127.0.0.1", "*.10.0.0.1",
    ],
)  # fmt: skip
def test_what_is_no_rule_is_an_error(written: str) -> None:
    """Nothing is guessed: a rule that could be read in two ways would be read in the worse one."""
    with pytest.raises(ValueError, match=r"\S"):
        parse_rule(written)


@pytest.mark.parametrize(
    ("rule", "name", "named"),
    [
        ("example.org", "example.org", True),
        ("example.org", "EXAMPLE.org.", True),
        ("example.org", "www.example.org", False),
        ("example.org", "badexample.org", False),
        ("*.example.org", "www.example.org", True),
        ("*.example.org", "a.b.example.org", True),
        ("*.example.org", "example.org", False),
        ("*.example.org", "badexample.org", False),
        ("*.example.org", "example.org.evil.net", False),
        ("203.0.113.7", "203.0.113.7", False),
        ("example.org", "example.org\0.evil.net", False),
        ("example.org", "", False),
    ],
)
def test_names_are_resolved_where_a_rule_names_them(rule: str, name: str, named: bool) -> None:
    """A wildcard means what is below it, at any depth, and no name that merely ends alike."""
    assert policy(rule).resolves(name) is named


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("0x7f.1", "127.0.0.1"), ("0x7f000001", "127.0.0.1"), ("2130706433", "127.0.0.1"), ("0177.0.0.1", "127.0.0.1"),
        ("127.1", "127.0.0.1"), ("127.0.0.1.", "127.0.0.1"), ("[::ffff:7f00:1]", "127.0.0.1"), ("10.258", "10.0.1.2"),
        ("::1", "::1"), ("0", "0.0.0.0"), ("0xa9fea9fe", "169.254.169.254"), ("0x", "0.0.0.0"),
    ],
)  # fmt: skip
def test_numeric_forms_are_the_addresses_that_they_are(text: str, address: str) -> None:
    """As inet_aton(3) has it; none of them passes for a name."""
    assert parse_address(text) == packed(address)
    assert host_name(text) == ""


@pytest.mark.parametrize(
    "text", ["pypi.org", "1.2.3.4.5", "256.1", "0x100000000", "08.1", "1..2", "", "::g", "fe80::1%lo"]
)
def test_what_is_no_address_is_none(text: str) -> None:
    """A name, or nothing at all."""
    assert parse_address(text) is None


@pytest.mark.parametrize(
    ("address", "kind"),
    [
        ("203.0.113.7", PUBLIC), ("8.8.8.8", PUBLIC), ("2606:4700::1111", PUBLIC), ("127.8.8.8", LOOPBACK),
        ("0.0.0.0", LOOPBACK), ("::", LOOPBACK), ("::1", LOOPBACK), ("::ffff:127.0.0.1", LOOPBACK),
        ("0.1.2.3", RESERVED),
        ("10.0.0.1", PRIVATE), ("172.31.255.255", PRIVATE), ("172.32.0.1", PUBLIC), ("192.168.1.1", PRIVATE),
        ("100.64.0.1", SHARED), ("100.128.0.1", PUBLIC), ("169.254.1.1", "link-local"), ("169.254.169.254", METADATA),
        ("100.100.100.200", METADATA), ("168.63.129.16", METADATA), ("fd00:ec2::254", METADATA),
        ("224.0.0.1", MULTICAST),
        ("255.255.255.255", RESERVED), ("198.19.0.1", RESERVED), ("fc00::1", PRIVATE), ("fe80::1", "link-local"),
        ("ff02::1", MULTICAST), ("64:ff9b::a00:1", PRIVATE), ("64:ff9b::cb00:7107", PUBLIC),
        ("2002:7f00:1::", LOOPBACK),
        ("2002:a9fe:a9fe::", METADATA), ("2001:0:1::", RESERVED), ("::7f00:1", RESERVED), ("4000::1", RESERVED),
        ("64:ff9b:1::1", PRIVATE), ("::ffff:10.0.0.1", PRIVATE), ("2001:db8::1", PUBLIC),
    ],
)  # fmt: skip
def test_addresses_are_of_their_kind(address: str, kind: str) -> None:
    """IPv4 within IPv6 is what the IPv4 is."""
    assert kind_of(packed(address)) == kind


@pytest.mark.parametrize(
    ("rules", "name", "address", "port", "reason"),
    [
        (("example.org",), "example.org", "203.0.113.7", 80, LISTED),
        (("example.org:443",), "example.org", "203.0.113.7", 80, PORT),
        (("example.org:443",), "", "203.0.113.7", 443, NOT_LISTED),
        (("*.example.org",), "a.example.org", "2606:4700::1", 443, LISTED),
        # What a name leads to is not made public by the name.
        (("example.org",), "example.org", "10.0.0.1", 80, PRIVATE),
        (("example.org",), "example.org", "169.254.169.254", 80, METADATA),
        (("example.org",), "example.org", "127.0.0.1", 80, LOOPBACK),
        (("example.org",), "example.org", "::ffff:10.0.0.1", 80, PRIVATE),
        (("example.org",), "example.org", "198.51.100.1", 80, OWN),
        (("example.org", "10.0.0.0/8:80"), "example.org", "10.0.0.1", 80, LISTED),
        (("10.0.0.0/8:80",), "", "10.0.0.1", 81, PORT),
        (("0.0.0.0/0",), "", "203.0.113.7", 80, LISTED),
        # Everything means everything public.
        (("0.0.0.0/0",), "", "10.0.0.1", 80, PRIVATE),
        (("0.0.0.0/0",), "", "169.254.169.254", 80, METADATA),
        (("0.0.0.0/0",), "", "198.51.100.1", 80, OWN),
        (("169.254.0.0/16",), "", "169.254.1.1", 80, LISTED),
        (("169.254.0.0/16",), "", "169.254.169.254", 80, METADATA),
        (("169.254.169.254",), "", "169.254.169.254", 80, LISTED),
        (("198.51.100.0/24",), "", "198.51.100.1", 80, OWN),
        (("198.51.100.1:22",), "", "198.51.100.1", 22, LISTED),
        (("::/0",), "", "fc00::1", 80, PRIVATE),
        (("fc00::/7",), "", "fc00::1", 80, LISTED),
        (("::/0",), "", "203.0.113.7", 80, NOT_LISTED),
        ((), "", "203.0.113.7", 80, NO_NETWORK),
        (("example.org",), "example.org", "203.0.113.7", 0, UNREADABLE),
        (("example.org",), "example.org", "203.0.113.7", 65536, UNREADABLE),
    ],
)
def test_a_connection_is_decided(
    rules: tuple[str, ...], name: str, address: str, port: int, reason: str
) -> None:
    """By the name that led there, or by a rule that lists the address; what is not public by the latter alone."""
    decided = policy(*rules, own=("198.51.100.1",)).decide(name, packed(address), port)
    assert decided.reason == reason
    assert decided.allowed == (reason == LISTED)


@pytest.mark.parametrize("address", [b"", b"1", bytes(5), bytes(17)])
def test_what_is_no_address_is_refused(address: bytes) -> None:
    """Deciding is total."""
    assert policy("0.0.0.0/0", "::/0").decide("example.org", address, 80).reason == UNREADABLE


def test_the_rule_that_allows_is_told() -> None:
    """As the profile means it, not as it is written."""
    assert policy("Example.ORG:443").decide("example.org", PUBLIC_ADDRESS, 443).rule == "example.org:443"


def test_a_url_in_place_of_a_host_is_answered_with_the_host() -> None:
    with pytest.raises(ValueError, match=r"leave out http:// and the path: write example\.com"):
        parse_rule("http://example.com/data")
