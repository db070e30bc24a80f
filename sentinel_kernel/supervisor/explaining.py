"""Finds out whether the sandbox caused a cell's error: asked by the host, before it shows the error."""

from __future__ import annotations

import errno
import os
import sys
import time
from functools import partial

from sentinel_kernel.errors import ProtocolError
from sentinel_kernel.policy.attribution import (
    FULL,
    absent_call,
    failed_lookup,
    is_absent_package,
    is_sure,
    limit_names,
    refused_call,
    silent_socket,
    told_limit,
    wants_paths,
)
from sentinel_kernel.policy.failure_report import PROGRAM, UNOPENED, read_report, typed, with_printed
from sentinel_kernel.policy.host_attribution import refused_host
from sentinel_kernel.policy.occurrence import make_occurrence
from sentinel_kernel.policy.packages import slip_of
from sentinel_kernel.policy.path_attribution import (
    HIDDEN,
    asks_host,
    normal,
    numbers_untold,
    read_seen,
    why_not_renamed,
    why_path,
)
from sentinel_kernel.policy.request import Request
from sentinel_kernel.policy.text import shown
from sentinel_kernel.policy.verdict import Verdict
from sentinel_kernel.policy.violation import Frame, Subject, Surfaced, describe_rule, make_violation
from sentinel_kernel.record import replace
from sentinel_kernel.supervisor import protocol
from sentinel_kernel.supervisor.keeper import Keeper
from sentinel_kernel.supervisor.lookups import Lookups
from sentinel_kernel.supervisor.network.elsewhere import elsewhere

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from typing import Any

    from sentinel_kernel.policy.compiled import CompiledRule
    from sentinel_kernel.policy.failure_report import Entry, Failure
    from sentinel_kernel.policy.violation import Violation
    from sentinel_kernel.supervisor.current import Current
    from sentinel_kernel.supervisor.ledger import Ledger
    from sentinel_kernel.supervisor.limit_evidence import LimitEvidence

    Done = Callable[[dict[str, Any]], None]
    """Takes the answer's fields: ``violation``, or ``limit`` (which was told of) and ``place``; none: not ours.


    ``likely``: what is told happened for certain, and only likely is what the error came from. ``meant``: not ours, but
    a slip of the keys; the module that is there, and that was meant.
    """

_PATHS_A_REPORT = 4
NOTHING: dict[str, Any] = {}


class Explaining(Keeper):
    """Answers OP_EXPLAIN. ``tell`` sends an event to the host."""

    def __init__(
        self, tell: Callable[[str, dict[str, Any]], None], ledger: Ledger, evidence: LimitEvidence
    ) -> None:
        """Look at refusals in ``ledger``, at limits through ``evidence``."""
        self._tell = tell
        self._ledger = ledger
        self._evidence = evidence
        self._lookups = Lookups()

    def explain(self, current: Current, generation: int, message: Mapping[str, Any], done: Done) -> None:
        """Call ``done`` with why the error of ``message`` came about, now or before long."""
        try:
            failure = read_report(message.get("report"))
        except ProtocolError:
            done(NOTHING)
            return
        if current.held_line is not None:
            failure = typed(failure, current.held_line.names)
        failure = with_printed(failure, message.get("suspects") or ())
        msg_id = str(message.get("msg_id") or "")
        # Innermost first: what it was made from says more than what was made of it.
        for entry in reversed(failure.chain):
            found = self._at_once(current, generation, entry, failure, msg_id)
            if found:
                done(found)
                return
        self._look_up(current, failure, done)

    def _at_once(
        self, current: Current, generation: int, entry: Entry, failure: Failure, msg_id: str
    ) -> dict[str, Any]:
        """Return what is known without a look at any file."""
        violations, now_ms = self._ledger.violations(), int(time.time() * 1000)
        coarse = self._ledger.coarse()
        host = refused_host(entry, failure, violations, now_ms)
        if host is not None:
            return _told(host[0], entry, failure, sure=host[1])
        refused = refused_call(entry, failure, violations, now_ms, coarse)
        if refused is not None:
            sure = is_sure(refused, entry, failure)
            if refused.resource == "outside-network" and refused.cause == "call":
                refused = _recast(refused, "network_unreachable", None, address=True)
            return _told(refused, entry, failure, sure=sure)
        lookup = failed_lookup(entry, failure, violations, now_ms, coarse)
        if lookup is not None:
            sure = is_sure(lookup, entry, failure)
            return _told(_recast(lookup, "name_lookup", entry.host), entry, failure, sure=sure)
        there = elsewhere(current, entry)
        if there is not None:
            return _told(there, entry, failure)
        limit = self._limit(current, generation, entry, _place(entry, failure), msg_id)
        if limit is not None:
            return {"limit": dict(limit), "place": _place(entry, failure)}
        answered = _answered_by_filter(current, entry)
        return NOTHING if answered is None else _told(answered, entry, failure)

    def _limit(
        self, current: Current, generation: int, entry: Entry, place: dict[str, Any], msg_id: str
    ) -> Mapping[str, Any] | None:
        for name in limit_names(entry):
            told = told_limit(name, entry, self._evidence.told(), msg_id)
            if told is not None:
                return told
            measured = self._evidence.measured(current, name, entry)
            if measured is not None:
                sure = {"confidence": "likely"} if measured.pop("guessed", name == FULL) else {}
                event = {**measured, "place_of": {**place, **sure}, "msg_id": msg_id}
                if event["name"] == "pids":
                    return {**self._evidence.owe(event), "owed": True}
                self._tell(protocol.EVENT_LIMIT, {"generation": generation, "limit": event})
                return event
        return None

    # --- paths and programs, which are looked up by a process of its own

    def _look_up(self, current: Current, failure: Failure, done: Done) -> None:
        questions: list[dict[str, Any]] = []
        judges: list[Callable[[Mapping[str, Any]], dict[str, Any]]] = []
        for entry in reversed(failure.chain):
            if is_absent_package(entry) and len(questions) < _PATHS_A_REPORT:
                folders = current.preparation.module_directories
                questions.append(
                    {"module": entry.name, "folders": folders, "meant": slip_of(entry.name or "")}
                )
                judges.append(partial(_package, current, entry, failure))
                continue
            if not wants_paths(entry) or len(questions) >= _PATHS_A_REPORT:
                continue
            if entry.site == PROGRAM and entry.path is not None and "/" not in entry.path:
                questions.append({"program": entry.path[:255], **_search_paths(current)})
                judges.append(partial(_program, current, entry, failure))
                continue
            for path, judge in _judged_paths(current, entry, failure):
                questions.append({"path": path, "host": asks_host(path)})
                judges.append(judge)
        if not questions:
            done(NOTHING)
            return

        def answered(answers: list[dict[str, Any]]) -> None:
            # What could not be looked up is no answer but for a package, whose absence is then only likely.
            known = answers or [{}] * len(judges)
            found = (judge(answer) for judge, answer in zip(judges, known, strict=False))
            done(next(filter(None, found), NOTHING))

        root = current.sandbox.pid if current.rung == "full" else 0
        self._lookups.ask(root, questions, answered)

    def descriptors(self) -> Iterable[int]:
        """Return where answers come from."""
        return self._lookups.descriptors()

    def serve(self, ready: dict[int, int]) -> None:
        """Take the answers."""
        self._lookups.serve(ready)

    def due_seconds(self) -> float | None:
        """Return when a look-up has taken too long."""
        return self._lookups.due_seconds()

    def catch_up(self) -> dict[str, Any] | None:
        """Give up what has taken too long."""
        self._lookups.catch_up()
        return None

    def close(self) -> None:
        """End what is under way."""
        self._lookups.close()


def _judged_paths(
    current: Current, entry: Entry, failure: Failure
) -> Iterator[tuple[str, Callable[[Mapping[str, Any]], dict[str, Any]]]]:
    """Yield the paths to look up, and who judges what was found there."""
    if entry.errno == errno.EXDEV:
        # What can't be renamed is the old one of two.
        if entry.path is not None and entry.path2 is not None and entry.path.startswith("/"):
            yield normal(entry.path), partial(_renamed, current, entry, failure)
        return
    for path in (entry.path, entry.path2):
        if path is not None and path.startswith("/"):
            yield normal(path), partial(_path, current, entry, failure, normal(path))


def _search_paths(current: Current) -> dict[str, str]:
    inside = str(current.preparation.plan.environment.get("PATH") or os.defpath)
    return {"inside": inside, "outside": os.environ.get("PATH") or os.defpath}


def _package(current: Current, entry: Entry, failure: Failure, answer: Mapping[str, Any]) -> dict[str, Any]:
    if answer.get("present") is True:
        return NOTHING
    if isinstance(answer.get("meant"), str):
        return {"meant": answer["meant"]}
    sure = answer.get("present") is False and entry.name not in sys.stdlib_module_names
    made = _made(
        "package_absent", current.preparation.profile.name, "installed in the kernel's environment: no"
    )
    subject = _subject("package", entry.name)
    made = replace(made, subject=subject, confidence="certain" if sure else "likely")
    return _told(made, entry, failure)


def _program(current: Current, entry: Entry, failure: Failure, answer: Mapping[str, Any]) -> dict[str, Any]:
    if answer.get("outside") is not True or answer.get("inside") is not False or entry.errno != 2:
        return NOTHING
    made = _made("program_absent", current.preparation.profile.name, "program shown: no", number=entry.errno)
    return _told(replace(made, subject=_subject("program", entry.path)), entry, failure)


def _renamed(current: Current, entry: Entry, failure: Failure, answer: Mapping[str, Any]) -> dict[str, Any]:
    if not answer or entry.path is None or entry.path2 is None:
        return NOTHING
    old, new = normal(entry.path), normal(entry.path2)
    found = why_not_renamed(old, new, read_seen(answer), current.preparation.plan)
    if found is None:
        return NOTHING
    made = _made(found.cause, current.preparation.profile.name, found.rule, number=entry.errno)
    return _told(replace(made, subject=_subject("path", old)), entry, failure)


def _path(
    current: Current, entry: Entry, failure: Failure, path: str, answer: Mapping[str, Any]
) -> dict[str, Any]:
    if not answer:
        return NOTHING
    seen = read_seen(answer)
    program = entry.site == PROGRAM
    plan = current.preparation.plan
    numbers: tuple[int, ...] = (entry.errno or 0,)
    if entry.site == UNOPENED and entry.errno in (None, errno.ENOENT):
        numbers = numbers_untold(path, seen, plan, makes=entry.base == "OperationalError" and entry.writes)
    looks = ((one, why_path(one, path, seen, plan, program=program, writes=entry.writes)) for one in numbers)
    number, found = next((look for look in looks if look[1] is not None), (0, None))
    if found is None:
        return NOTHING
    outside = seen.outside
    is_program = program and found.cause == HIDDEN and outside is not None and bool(outside.mode & 0o111)
    is_program = is_program and outside is not None and (outside.mode & 0o170000) == 0o100000
    cause, kind = ("program_absent", "program") if is_program else (found.cause, "path")
    made = _made(cause, current.preparation.profile.name, found.rule, number=number or None)
    does = "write" if cause == HIDDEN and entry.writes and outside is None else found.does
    values = {**made.values, "does": does} if does else made.values
    made = replace(made, subject=_subject(kind, path), confidence=found.confidence, values=values)
    return _told(made, entry, failure)


# --- records


def _made(cause: str, profile: str, rule: str, number: int | None = None) -> Violation:
    return make_occurrence(
        cause,
        id=os.urandom(8).hex(),
        profile=profile,
        rule=rule,
        time_ms=int(time.time() * 1000),
        errno=number,
    )


def _answered_by_filter(current: Current, entry: Entry) -> Violation | None:
    """Return the violation for a call that the filter answered by itself, told to nobody.

    That the call was made at all is the worker's word alone: never more than likely.
    """
    policy = current.handler.policy
    rule = absent_call(entry, policy.rules)
    if rule is not None:
        profile = current.preparation.profile.name
        made = _made("call_absent", profile, describe_rule(rule), number=entry.errno)
        return replace(made, values={**made.values, "name": rule.syscall}, confidence="likely")
    rule = silent_socket(entry, policy.rules.get(policy.architecture.syscalls["socket"], ()))
    return None if rule is None else replace(_silent_call(rule, current), confidence="likely")


def _silent_call(rule: CompiledRule, current: Current) -> Violation:
    """Return the violation for a call that the filter answered by itself, as far as its rule tells of it."""
    arguments = [0] * 6
    for test in rule.tests:
        arguments[test.index] = test.value
    policy, pid = current.handler.policy, current.worker_pid
    one, two, three, four, five, six = arguments
    request = Request(
        rule.number,
        policy.architecture.audit_arch,
        (one, two, three, four, five, six),
        pid,
        pid,
        "",
        is_worker=True,
    )
    verdict = Verdict("refuse", rule.action.errno_seen, rule, report=True)
    return make_violation(request, verdict, policy, os.urandom(8).hex(), int(time.time() * 1000))


def _subject(kind: str, text: str | None) -> Subject | None:
    return None if text is None else Subject(kind, shown(text, 200))


def _recast(violation: Violation, cause: str, host: str | None, *, address: bool = False) -> Violation:
    """Return a refused call as what it meant to the program; it keeps its id, and so its display, and the call."""
    subject = _subject("host", host)
    if address:
        subject = _subject("address", violation.values.get("address") or None)
    return replace(
        violation,
        cause=cause,
        action="NETWORK",
        subject=subject,
    )


def _place(entry: Entry, failure: Failure) -> dict[str, Any]:
    """Return the place that an error came from: the cell's innermost line on its way, or on that of those around."""
    at = next((one for one in (entry, *reversed(failure.chain)) if one.lines), entry)
    library = entry.library and _frame(*entry.library)
    if not at.lines:
        return {"line": None, "function": None, "library": library}
    line = at.lines[0]
    guessed = {} if line.sure else {"confidence": "likely"}
    return {"line": line.number, "function": shown(line.function, 200), "library": library, **guessed}


def _name(ename: str) -> str:
    """Return an exception's name; what is none, as a sentence that a class was named, is not passed on."""
    parts = ename[:200].split(".")
    return ename[:200] if all(part.isidentifier() or part == "<locals>" for part in parts) else "Exception"


def _frame(file: str, line: int, function: str) -> dict[str, Any]:
    return {"file": shown(file, 200), "line": line, "function": shown(function, 200)}


def _told(violation: Violation, entry: Entry, failure: Failure, *, sure: bool = True) -> dict[str, Any]:
    """Return the answer for a violation, completed by the error and, where it has none, by the error's place."""
    place = _place(entry, failure)
    name = violation.errno_name
    surfaced = Surfaced(_name(failure.chain[0].ename), name)
    violation = replace(violation, error=surfaced)
    if violation.line is None and place["line"] is not None:
        confidence = place.get("confidence", violation.confidence)
        # The line is the running cell's; what started the process may have been an earlier one.
        started = violation.started_line if violation.cell is None else None
        violation = replace(
            violation,
            cell=None,
            line=place["line"],
            function=place["function"],
            started_line=started,
            confidence=confidence,
        )
        if place["library"] is not None and violation.library is None:
            violation = replace(violation, library=Frame(**place["library"]))
    return {"violation": violation.to_json(), **({} if sure else {"likely": True})}
