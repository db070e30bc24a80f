"""Calls that are held for a person: one question for all that ask the same, answered, refused in time, or given up.

Only calls that are decided by registers are held here (policy/asking.py), so that a yes may let the Linux kernel go on.
Whatever goes wrong, and every answer but a clear yes, refuses.
"""

from __future__ import annotations

import errno
import os
import time

from sentinel_kernel.policy.asking import (
    CROWD,
    INTERRUPTED,
    NO,
    NOBODY,
    ONCE,
    SESSION,
    TIMEOUT,
    UNRECORDED,
    question_key,
)
from sentinel_kernel.record import MutableRecord, Record, fresh, replace
from sentinel_kernel.supervisor.keeper import Keeper

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from sentinel_kernel.linux.seccomp import Notification
    from sentinel_kernel.policy.request import Request
    from sentinel_kernel.policy.stack_dump import Place
    from sentinel_kernel.policy.verdict import Verdict
    from sentinel_kernel.policy.violation import Violation
    from sentinel_kernel.supervisor.current import Current
    from sentinel_kernel.supervisor.ledger import Ledger

MOST_QUESTIONS = 8
"""So many may be open at once; a person reads them one after the other. What comes on top is refused."""

MOST_HELD = 256
_LINE_SECONDS = 1.0
"""How long a question waits for the line that it is about, which the worker's other threads can tell."""

_NOTE_SECONDS, _RETRY_SECONDS = 3.0, 0.1
"""How long a yes waits until it is noted, and how often that is tried: who keeps notes may have to start first."""

_ALIVE_SECONDS = 0.5
"""How often to look whether those who ask still live: the Linux kernel does not tell."""


class _Held(Record):
    """One call that waits."""

    notification: Notification
    request: Request


class _Question(MutableRecord):
    """What is asked, and the calls that its answer is for."""

    violation: Violation
    verdict: Verdict
    key: tuple[object, ...]
    tell_at: float
    deadline: float
    told: bool = False
    answer: str = ""
    """A yes that could not be noted yet."""
    retry_at: float = 0.0
    held: list[_Held] = fresh(default_factory=list)


class Questions(Keeper):
    """Holds what a rule says ASK about. ``tell`` sends the host an event of EVENT_ASK.

    ``keepers`` are asked, before a call is answered, to make a lasting note of it.
    """

    def __init__(
        self, tell: Callable[[dict[str, Any]], None], ledger: Ledger, keepers: Sequence[Keeper]
    ) -> None:
        """Start without any question; nobody can be asked before :meth:`configure`."""
        self._tell = tell
        self._ledger = ledger
        self._keepers = keepers
        self._seconds = 0.0
        self._current: Current | None = None
        self._generation = 0
        self._open: dict[str, _Question] = {}
        self._allowed: set[tuple[object, ...]] = set()
        self._look_at = 0.0
        self._dry = False
        """A dry run is under way: nobody is asked, and nothing that was agreed to counts."""

    def configure(self, seconds: float) -> None:
        """Take note of how long an answer may take; 0: nobody can be asked."""
        self._seconds = seconds

    def forget(self) -> None:
        """Forget what was allowed for the session: it has ended."""
        self._allowed.clear()

    @property
    def waiting(self) -> int:
        """Return how many calls wait for an answer."""
        return sum(len(question.held) for question in self._open.values())

    # --- the sandbox's life (Keeper)

    def sandbox_ready(self, current: Current, generation: int) -> None:
        """Hold what this sandbox asks from here on."""
        self._open.clear()
        self._current, self._generation = current, generation
        current.handler.questions = self

    def sandbox_gone(self, cause: dict[str, Any]) -> None:  # noqa: ARG002 - whatever it died of
        """Give up every question: its calls have ended with the worker."""
        self._current = None
        for identifier in list(self._open):
            self._close(identifier)

    def begin_cell(self, message: dict[str, Any]) -> None:
        """Ask nobody while a dry run is under way."""
        self._dry = bool(message.get("dry_run"))

    def due_seconds(self) -> float | None:
        """Return in how many seconds a question is to be told, looked after, or given up."""
        if not self._open:
            return None
        dues = [
            question.retry_at or (question.deadline if question.told else question.tell_at)
            for question in self._open.values()
        ]
        return max(0.0, min(self._look_at, *dues) - time.monotonic())

    def catch_up(self) -> dict[str, Any] | None:
        """Tell the host what waited for its line; give up what nobody answered, or nobody asks any more."""
        now = time.monotonic()
        for identifier, question in list(self._open.items()):
            if not question.told and now >= question.tell_at:
                self._ask(question)
            if question.answer and now >= question.retry_at:
                self.answer(identifier, question.answer)
            elif now >= question.deadline:
                self.answer(identifier, TIMEOUT)
        if self._open and now >= self._look_at:
            self._look_at = now + _ALIVE_SECONDS
            self._drop_the_dead()
        return None

    # --- asking

    def hold(self, notification: Notification, request: Request, verdict: Verdict) -> None:
        """Hold a call until its question is answered; at once where the answer is known, or can't be had."""
        current = self._current
        if current is None:
            return
        rule = verdict.rule
        key = question_key(rule.place or rule.origin, rule.syscall, request.arguments)
        held = _Held(notification, request)
        known = next((question for question in self._open.values() if question.key == key), None)
        if self._dry:
            self._refuse(current, held, verdict, NOBODY)
        elif key in self._allowed:
            if self._note(self._described(current, request, verdict), SESSION):
                self._allow(current, held)
            else:
                self._refuse(current, held, verdict, UNRECORDED)
        elif known is not None and self.waiting < MOST_HELD:
            known.held.append(held)
        elif self._seconds <= 0 or len(self._open) >= MOST_QUESTIONS or self.waiting >= MOST_HELD:
            self._refuse(current, held, verdict, NOBODY if self._seconds <= 0 else CROWD)
        else:
            self._begin(current, held, verdict, key)

    def _begin(self, current: Current, held: _Held, verdict: Verdict, key: tuple[object, ...]) -> None:
        now = time.monotonic()
        violation = self._described(current, held.request, verdict)
        question = _Question(violation, verdict, key, now + _LINE_SECONDS, now + self._seconds)
        question.held.append(held)
        if not self._open:
            self._look_at = now + _ALIVE_SECONDS
        self._open[violation.id] = question
        for keeper in self._keepers:
            keeper.asking(violation)
        line = current.held_line
        waiting = {item.request.tid for other in self._open.values() for item in other.held}

        def found(place: Place | None) -> None:
            self._place(violation.id, place)

        process, is_main = held.request.pid, held.request.tid == held.request.pid
        ours = held.request.is_worker
        if line is None or not (ours and line.ask_beside(process, waiting, found, main=is_main)):
            self._ask(question)

    def _described(self, current: Current, request: Request, verdict: Verdict) -> Violation:
        # By now it is there; at the supervisor's start it would be too early.
        from sentinel_kernel.policy.violation import make_violation  # noqa: PLC0415

        made = make_violation(
            request, verdict, current.handler.policy, os.urandom(8).hex(), int(time.time() * 1000)
        )
        places = current.handler.places
        return made if places is None else places.described(made, request)

    def _place(self, identifier: str, place: Place | None) -> None:
        """Add the line that a question is about, and ask it."""
        from sentinel_kernel.supervisor.placing import placed  # noqa: PLC0415 - as above

        question = self._open.get(identifier)
        if question is not None and not question.told:
            question.violation = placed(question.violation, place)
            self._ask(question)

    def _ask(self, question: _Question) -> None:
        question.told = True
        self._tell(
            {
                "generation": self._generation,
                "ask": question.violation.to_json(),
                "why": question.verdict.rule.reason,
                "seconds": max(0.0, question.deadline - time.monotonic()),
            }
        )

    # --- answers

    def answer(self, identifier: str, answer: str) -> bool:
        """Answer every call that waits for this question; False where there is no such question any more.

        A yes counts once it is noted; until then the calls wait on.
        """
        question = self._open.get(identifier)
        current = self._current
        if question is None or current is None:
            return False
        yes = answer in (ONCE, SESSION)
        if yes and not self._note(question.violation, answer):
            if self._wait_for_note(question, answer):
                return True
            answer, yes = UNRECORDED, False
        del self._open[identifier]
        if answer == SESSION:
            self._allowed.add(question.key)
        for held in question.held:
            try:
                if yes:
                    self._allow(current, held)
                elif answer == INTERRUPTED:
                    current.sandbox.listener.refuse(held.notification.id, errno.EINTR)
                else:
                    self._refuse(current, held, question.verdict, answer, question.violation)
            except Exception:  # noqa: BLE001 - fail closed: whatever went wrong here, the call is refused
                current.sandbox.listener.refuse(held.notification.id, errno.EPERM)
        if answer in (TIMEOUT, INTERRUPTED):
            self._told_closed(identifier, answer)
        return True

    def _wait_for_note(self, question: _Question, answer: str) -> bool:
        """Let a yes wait; False where it has waited long enough."""
        now = time.monotonic()
        if not question.answer:
            question.answer, question.deadline = answer, now + _NOTE_SECONDS
        question.retry_at = now + _RETRY_SECONDS
        return now < question.deadline

    def interrupt(self) -> None:
        """Let every held call fail with EINTR: no signal breaks it while it is held (WAIT_KILLABLE_RECV).

        To be called once the signal is out: it is delivered when the call returns, and code that makes the call again
        after EINTR, as Python does (PEP 475), sees it before.
        """
        for identifier in list(self._open):
            self.answer(identifier, INTERRUPTED)

    def _allow(self, current: Current, held: _Held) -> None:
        from sentinel_kernel.policy.verdict import ASK, CONTINUE, judge  # noqa: PLC0415 - as above

        # The profile may have changed since it was asked.
        now = judge(held.request, current.handler.policy)
        if now.kind in (ASK, CONTINUE):
            current.sandbox.listener.proceed(held.notification.id)
        else:
            self._refuse(current, held, now, "")

    def _refuse(
        self,
        current: Current,
        held: _Held,
        verdict: Verdict,
        answer: str,
        asked: Violation | None = None,
    ) -> None:
        from sentinel_kernel.policy.verdict import REFUSE  # noqa: PLC0415 - as above

        # A rule that kills by now kills at the next such call; this one is only refused.
        refused = replace(verdict, kind=REFUSE)
        made = self._described(current, held.request, refused)
        if answer:
            made = replace(made, values={**made.values, "answer": answer})
        if asked is not None:
            made = replace(
                made,
                cell=asked.cell,
                line=asked.line,
                function=asked.function,
                library=asked.library,
                confidence=asked.confidence,
            )
        recorded = self._ledger.record(made)
        self._note(recorded, answer or NO)  # a keeper counts what is late: nothing can be more than refused
        current.sandbox.listener.refuse(held.notification.id, verdict.errno)

    def _note(self, violation: Violation, answer: str) -> bool:
        """Have a lasting note made; False where that failed."""
        failed = [keeper for keeper in self._keepers if not keeper.answering(violation, answer)]
        return not failed

    # --- ends

    def _drop_the_dead(self) -> None:
        current = self._current
        if current is None:
            return
        for identifier, question in list(self._open.items()):
            question.held = [
                held for held in question.held if current.sandbox.listener.is_valid(held.notification.id)
            ]
            if not question.held:
                self._close(identifier)

    def _close(self, identifier: str) -> None:
        """Take back a question that nobody asks any more."""
        if self._open.pop(identifier).told:
            self._told_closed(identifier, "gone")

    def _told_closed(self, identifier: str, why: str) -> None:
        self._tell({"generation": self._generation, "closed": identifier, "why": why})
