"""A host that is refused: the words name the kind of refusal, and the remedy is a command with a checked host in it."""

from __future__ import annotations

import pytest

from sentinel_kernel.policy.hints import complete
from sentinel_kernel.policy.leeway import Leeway
from sentinel_kernel.policy.occurrence import host_refusal
from sentinel_kernel.record import replace


def made(host: str, port: int = 443, reason: str = "not-listed", **more: str) -> object:
    return host_refusal(host, port, reason, id="v", profile="web", time_ms=1, **more)


@pytest.mark.parametrize(
    ("host", "port", "reason", "address", "command"),
    [
        ("example.org", 443, "not-listed", "192.0.2.1", "%sentinel_allow example.org:443"),
        ("example.org", 0, "not-listed", "", "%sentinel_allow example.org"),
        ("example.org", 22, "port", "", "%sentinel_allow example.org:22"),
        ("192.0.2.1", 443, "not-listed", "", "%sentinel_allow 192.0.2.1:443"),
        ("2001:db8::1", 443, "not-listed", "", "%sentinel_allow [2001:db8::1]:443"),
        ("inside.example.org", 443, "private", "10.1.2.3", "%sentinel_allow 10.1.2.3:443"),
        ("inside.example.org", 443, "private", "", ""),
        ("metadata.example.org", 80, "metadata", "169.254.169.254", ""),
        ("127.0.0.1", 80, "loopback", "", ""),
        ("169.254.169.254", 80, "no-network", "", ""),
        ("api.example.org", 80, "rule", "", ""),
        ("x y; rm -rf /", 80, "not-listed", "", ""),
        ("*.example.org", 80, "not-listed", "", ""),
        ("192.0.2.0/24", 80, "not-listed", "", ""),
        ("a." * 60 + "org", 80, "not-listed", "", ""),
    ],
)
def test_the_remedy_is_the_command_that_opens_this_host_or_none(
    host: str, port: int, reason: str, address: str, command: str
) -> None:
    told = complete(made(host, port, reason, address=address), leeway=Leeway(asks=True))
    assert [remedy.text for remedy in told.remedies] == ([command] if command else [])
    assert (command or "%sentinel_allow") in told.hint.en or not command
    assert host not in told.message.en
    assert told.message.zh


def test_the_words_say_what_kind_of_refusal_it_is() -> None:
    words = [
        complete(made("h.example.org", 80, reason)).message.en
        for reason in ("port", "private", "rule", "loopback")
    ]
    assert len(set(words)) == 4


def test_under_a_labs_ceiling_nobody_is_asked() -> None:
    leeway = Leeway(ceiling="web", asks=True)
    assert complete(made("h.example.org"), leeway=leeway).remedies
    for bound in (replace(leeway, lab=True), replace(leeway, locked=True)):
        told = complete(made("h.example.org"), leeway=bound)
        assert told.remedies == ()
        assert "%sentinel_allow" not in told.hint.en
        assert "nobody can be asked here" not in told.hint.en


def test_where_nobody_can_be_asked_it_is_said_to_be_the_persons_to_decide() -> None:
    told = complete(made("h.example.org"), leeway=Leeway(ceiling="web"))
    assert told.remedies == ()
    assert "the person's to decide, and nobody can be asked here" in told.hint.en
    assert "须由用户本人决定，而这里无法询问任何人" in told.hint.zh
    assert "%sentinel_allow" not in told.hint.en + told.hint.zh
