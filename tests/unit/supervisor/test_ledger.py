"""Counting refusals: which entries have repeats of other lines in them."""

from __future__ import annotations

from typing import Any

from sentinel_kernel.policy.violation import VERSION, Process, Violation
from sentinel_kernel.supervisor.ledger import Ledger


def refusal(name: str, **facts: Any) -> Violation:
    """Return a refusal of one kind."""
    fields: dict[str, Any] = {
        "id": name,
        "version": VERSION,
        "profile": "strict",
        "rule": "NOTIFY socket",
        "origin": "profile",
        "action": "NOTIFY",
        "outcome": "refused",
        "first_time_ms": 1,
        "last_time_ms": 1,
        "syscall": "socket",
        "process": Process(8, "python", is_worker=True),
    }
    return Violation(**(fields | facts))


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
