"""What a program is refused can't make the supervisor keep more and more, nor look at more and more stacks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sentinel_kernel.policy.request import Request
from sentinel_kernel.policy.violation import Argument, Violation
from sentinel_kernel.supervisor.ledger import Ledger
from sentinel_kernel.supervisor.placing import Places

if TYPE_CHECKING:
    from collections.abc import Callable

WORKER = 2


class NoStack:
    """Stands in for HeldLine: nobody has a stack; counts who was asked."""

    def __init__(self) -> None:
        self.asked = 0

    def ask_held(self, _: int, __: int, done: Callable[[None], object], answer: Callable[[], object]) -> None:
        self.asked += 1
        done(None)
        answer()


def test_kinds_without_end_are_counted_and_no_longer_looked_at() -> None:
    line: Any = NoStack()
    ledger = Ledger(lambda _: True)
    nobody: Any = None
    places = Places(ledger, line, nobody, WORKER)
    places.begin_cell()
    request = Request(49, 0, (0, 0, 0, 0, 0, 0), WORKER, WORKER, "", is_worker=True)
    answered = []
    for number in range(1000):
        made = Violation(
            id=str(number),
            version=2,
            profile="strict",
            rule="bind",
            origin="strict.json",
            action="ERRNO",
            outcome="refused",
            first_time_ms=0,
            last_time_ms=0,
            syscall="bind",
            arguments=(Argument("port", number, str(number)),),
        )
        places.refuse(made, request, None, lambda: answered.append(1))
    assert len(answered) == 1000
    assert line.asked == 256
    # A kind is recorded before its line is looked for: each counts once, or once more where it has no line.
    assert ledger.total >= 1000
    places.begin_cell()
    assert places.refuse(made, request, None, lambda: answered.append(1))
    assert line.asked == 257
