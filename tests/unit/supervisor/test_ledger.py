"""Counting refusals: which entries have repeats of other lines in them."""

from __future__ import annotations

from typing import Any

from sample_violations import refusal

from sentinel_kernel.policy.violation import Argument, Process, Violation
from sentinel_kernel.supervisor.ledger import Ledger


def test_repeats_of_the_same_line_do_not_make_an_entry_coarse() -> None:
    ledger = Ledger(lambda _: True)
    ledger.record(refusal("a"))
    ledger.change("a", lambda one: refusal(one.id, line=3))
    ledger.record(refusal("b", line=3))
    ledger.record(refusal("c", line=5))
    assert [(one.id, one.count) for one in ledger.violations()] == [("a", 2), ("c", 1)]
    assert ledger.coarse() == set()


def test_repeats_without_a_line_make_their_entry_coarse() -> None:
    ledger = Ledger(lambda _: True)
    ledger.record(refusal("a", line=3))
    ledger.record(refusal("b"), ("registers",))
    assert ledger.coarse() == {"a"}
    ledger.begin_cell()
    ledger.record(refusal("c", line=3), ("registers",))
    assert ledger.coarse() == set()
    assert ledger.repeat(("registers",))
    assert ledger.coarse() == {"c"}


def _socket(name: str, family: str, kind: str = "SOCK_STREAM", **facts: Any) -> Violation:
    words = (("family", family), ("type", kind), ("protocol", "0"))
    arguments = tuple(Argument(name=word, value=0, text=text) for word, text in words)
    values = {"family": family}
    return refusal(name, arguments=arguments, values=values, resource="network", errno=1, **facts)


def test_one_mistake_that_tries_both_families_is_one_entry_a_line() -> None:
    ledger = Ledger(lambda _: True)
    ledger.record(_socket("a", "AF_INET", "SOCK_DGRAM|SOCK_CLOEXEC", line=2))
    for family in ("AF_INET", "AF_INET6"):
        assert ledger.knows(_socket("b", family, "SOCK_STREAM|SOCK_CLOEXEC"))
        ledger.record(_socket("b", family, "SOCK_STREAM|SOCK_CLOEXEC", line=2))
    ledger.record(_socket("c", "AF_INET6", line=5))
    assert [(one.id, one.line, one.count) for one in ledger.violations()] == [("a", 2, 3), ("c", 5, 1)]


def test_what_differs_in_more_than_its_address_is_an_entry_of_its_own() -> None:
    ledger = Ledger(lambda _: True)
    ledger.record(_socket("a", "AF_INET", line=2))
    others = [
        _socket("raw", "AF_INET", "SOCK_RAW", line=2),
        _socket("unix", "AF_UNIX", line=2),
        _socket("rule", "AF_INET6", line=2, rule="ERRNO socket"),
        _socket("call", "AF_INET", line=2, syscall="socketpair"),
        _socket("child", "AF_INET", line=2, process=Process(9, "curl", is_worker=False)),
    ]
    for one in others:
        assert not ledger.knows(one)
        ledger.record(one)
    assert [one.id for one in ledger.violations()] == ["a", *(one.id for one in others)]


def test_each_kind_of_arguments_is_looked_at_for_its_line() -> None:
    ledger = Ledger(lambda _: True)
    assert ledger.kind(_socket("a", "AF_INET")) != ledger.kind(_socket("b", "AF_INET6"))
    assert ledger.kind(_socket("a", "AF_INET")) == ledger.kind(_socket("b", "AF_INET"))
