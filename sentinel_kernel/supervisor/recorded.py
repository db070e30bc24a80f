"""What the audit is told, as columns: refusals with their counts, a run's facts, how cells end and workers die."""

from __future__ import annotations

import json
import os
import time

from sentinel_kernel import __version__
from sentinel_kernel.record import MutableRecord, as_dict

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

    from sentinel_kernel.policy.violation import Violation
    from sentinel_kernel.record import Record

_FIRST_WINDOW = 0.25
_LONGEST_WINDOW = 64.0
"""Repeats are one row for a window of time that doubles up to this: a flood of days is some thousand rows."""

_REMEMBERED = 1000
_MOST_KINDS = 4 * _REMEMBERED
"""So many kinds may wait to be reported; beyond, the oldest is dropped, and counted."""
ALLOWED = ("once", "session")
"""The answers that let a call be made."""
_TEXT_CHARACTERS = 2000
_ENCODE = json.JSONEncoder(separators=(",", ":"), ensure_ascii=True).encode

Report = tuple[str, "dict[str, Any]"]


class _Kind(MutableRecord):
    """One kind of refused (or asked) call in one cell, and how much of it is reported."""

    violation: Violation
    number: int | None
    cell: dict[str, Any]
    count: int
    last_ts: int
    action: str
    """The rule's, whatever the refusal is found to mean later."""
    answer: str = ""
    noted: str = ""
    reported: int = 0
    line_reported: bool = False
    cause_reported: str = ""
    words: dict[str, Any] | None = None
    window: float = _FIRST_WINDOW
    next_at: float = 0.0


class Refusals:
    """The refusals of the cells that run, and of some that ended: their words come a moment later."""

    def __init__(self) -> None:
        """Start without any."""
        self._kinds: dict[str, _Kind] = {}
        self._dirty: dict[str, None] = {}
        self.dropped = 0
        """How many kinds were dropped with something of them unreported."""
        self._cells: dict[int | None, dict[str, Any]] = {}
        self._totals: dict[int | None, int] = {}

    @property
    def due(self) -> bool:
        """Whether there is something to report."""
        return bool(self._dirty)

    def due_seconds(self, least: float) -> float:
        """Return in how many seconds the first of what waits is due."""
        now = time.monotonic()
        return max(least, min(self._kinds[name].next_at for name in self._dirty) - now)

    def begin(self, number: int, msg_id: str, message: Mapping[str, Any], sandbox: Mapping[str, Any]) -> None:
        """Take note of the cell that later refusals are of."""
        self._cells[number] = {
            "msg": msg_id,
            "cell_id": message.get("cell_id"),
            "source_sha256": message.get("code_sha256"),
            "rung": sandbox.get("rung"),
        }
        while len(self._cells) > _REMEMBERED:
            self._totals.pop(next(iter(self._cells)), None)
            self._cells.pop(next(iter(self._cells)))

    def total(self, number: int | None) -> int:
        """Return how many calls were refused in one execution."""
        return self._totals.get(number, 0)

    def add(self, violation: Violation, number: int | None) -> None:
        """Take note of a refusal as it stands now."""
        kind = self._kinds.get(violation.id)
        if kind is None:
            cell = self._cells.get(number, {})
            kind = _Kind(violation, number, cell, 0, violation.last_time_ms, violation.action)
            self._keep(violation.id, kind)
        if violation.number is not None:
            more = max(0, violation.count - kind.count)
            self._totals[kind.number] = self._totals.get(kind.number, 0) + more
        kind.violation = violation
        kind.count = max(kind.count, violation.count)
        kind.last_ts = violation.last_time_ms
        self._dirty[violation.id] = None

    def answer(self, violation: Violation, answer: str, number: int | None) -> bool:
        """Take note of an answer; True where it is one more of a kind that was reported already.

        What is allowed for the session is asked once, and made as often as a program likes: those are counted.
        """
        if answer not in ALLOWED:
            self.add(violation, number)
            kind = self._kinds[violation.id]
            known = kind.answer == answer and kind.reported > 0
            kind.answer = answer
            return known
        arguments = tuple(argument.text for argument in violation.arguments)
        name = repr((number, violation.syscall, violation.rule, arguments, answer))
        if name not in self._kinds:
            cell = self._cells.get(number, {})
            made = _Kind(violation, number, cell, 0, violation.last_time_ms, violation.action, answer)
            self._keep(name, made)
        kind = self._kinds[name]
        known = answer == "session" and kind.reported > 0
        if kind.noted != violation.id:  # an answer that did not get onto the disk in time is noted again
            kind.noted = violation.id
            kind.count += 1
            kind.last_ts = int(time.time() * 1000)
        if not known:
            kind.next_at = 0.0
        if kind.count > kind.reported:
            self._dirty[name] = None
        return known

    def words(self, message: Mapping[str, Any]) -> bool:
        """Add the words that the person was shown; False where the refusal is not known any more."""
        kind = self._kinds.get(str(message.get("violation") or ""))
        if kind is None:
            return False
        names = ("semantic_msg", "semantic_msg_zh", "hint", "hint_zh", "remedy")
        kind.words = {name: str(message.get(name) or "")[:_TEXT_CHARACTERS] for name in names}
        self._dirty[str(message["violation"])] = None
        return True

    def reports(self, *, final: int | None = None, everything: bool = False) -> Iterator[Report]:
        """Yield what is due; all of the execution ``final``, which ends."""
        now = time.monotonic()
        for name in list(self._dirty):
            kind = self._kinds[name]
            ends = everything or (final is not None and kind.number == final)
            if (final is None or ends) and (ends or now >= kind.next_at or kind.words is not None):
                yield self._report(kind, now)
                del self._dirty[name]

    def _report(self, kind: _Kind, now: float) -> Report:
        violation = kind.violation
        row = {
            "exec": kind.number,
            "ts": kind.last_ts if kind.reported else violation.first_time_ms,
            "last_ts": kind.last_ts,
            "violation_id": violation.id,
            "count": kind.count - kind.reported,
            "syscall_nr": violation.number,
            "syscall_name": violation.syscall,
            "action": kind.action,
            "result": f"asked: {kind.answer}" if kind.answer else violation.outcome,
            **kind.cell,
        }
        if not kind.reported:
            row |= _described(violation)
        if violation.cause != kind.cause_reported:
            row["cause"] = kind.cause_reported = violation.cause
        # The line of an earlier cell, whose thread it was, is none of this execution.
        if violation.line is not None and violation.cell is None and not kind.line_reported:
            row["line"], kind.line_reported = violation.line, True
            row["function"] = violation.function
        if kind.words is not None:
            row |= kind.words
            kind.words = None
        kind.reported = kind.count
        kind.next_at, kind.window = now + kind.window, min(kind.window * 2, _LONGEST_WINDOW)
        return ("event", row)

    def _keep(self, name: str, kind: _Kind) -> None:
        self._kinds[name] = kind
        for old in list(self._kinds):
            if len(self._kinds) <= _REMEMBERED:
                break
            if old != name and old not in self._dirty:
                del self._kinds[old]
        while len(self._dirty) >= _MOST_KINDS:
            oldest = next(old for old in self._dirty if old != name)
            del self._dirty[oldest], self._kinds[oldest]
            self.dropped += 1


def _described(violation: Violation) -> dict[str, Any]:
    killed = violation.outcome == "killed"
    arguments = [f"{argument.name}={argument.text}" for argument in violation.arguments]
    subject, process = violation.subject, violation.process
    if subject is not None and not arguments:
        arguments = [f"{subject.kind}={subject.text}"]
    return {
        "pid": None if process is None else process.pid,
        "path": subject.text if subject is not None and subject.kind == "path" else None,
        "errno": violation.errno,
        "signal_name": "SIGKILL" if killed else violation.errno_name or "OK",
        "resource": violation.resource,
        "arguments": ", ".join(arguments),
        "process": None if process is None else process.command,
        "profile": violation.profile,
        "rule": violation.rule,
        "origin": violation.origin,
    }


def started(message: Mapping[str, Any], environment: Mapping[str, str], python: str) -> dict[str, Any]:
    """Return a run's columns, from the start request and the kernel's environment."""
    machine = os.uname()
    client = message.get("client") or environment.get("SENTINEL_CLIENT")
    return {
        "id": str(message.get("run") or os.urandom(8).hex()),
        "started_ts": int(time.time() * 1000),
        "kernel": str(message.get("kernel") or ""),
        "workspace": str(message.get("workspace") or ""),
        "uid": os.geteuid(),
        "hub_user": environment.get("JUPYTERHUB_USER"),
        "client": str(client)[:200] if client else None,
        "sentinel_version": __version__,
        "python_version": python,
        "worker_python": str(message.get("python") or ""),
        "linux_version": machine.release,
        "machine": machine.nodename,
    }


def ended(message: Mapping[str, Any]) -> tuple[str, str]:
    """Return status (completed, error or killed) and result of a cell that the host says has ended."""
    said = str(message.get("status") or "ok")
    ename = str(message.get("ename") or "")[:200]
    status = {"ok": "completed", "died": "killed"}.get(said, "error")
    return status, ename or said


def died(cause: Mapping[str, Any]) -> tuple[str, str]:
    """Return status and result of the cells that a worker's death ended; without a cause it was ended on purpose."""
    if not cause:
        return "killed", "sandbox ended"
    kind = str(cause.get("kind") or "")
    limit = cause.get("limit")
    more = {
        "rule_kill": cause.get("detail"),
        "signal": cause.get("signal"),
        "exit": cause.get("status"),
        "limit": limit.get("name") if isinstance(limit, dict) else None,
    }.get(kind)
    return "killed", f"{kind} {more}" if more is not None else kind


def in_force(sizes: Record) -> str:
    """Return the limits in force as the text that many rows hold: those that there are."""
    return _ENCODE({name: value for name, value in as_dict(sizes).items() if value is not None})


def note(kind: str, name: str, detail: Mapping[str, Any], number: int | None) -> dict[str, Any]:
    """Return the columns of one row of session_events."""
    return {"exec": number, "ts": int(time.time() * 1000), "kind": kind, "name": name, "detail": detail}


def used(sample: Mapping[str, Any]) -> dict[str, Any]:
    """Return the columns of one sample (EVENT_USAGE's)."""
    return {
        "ts": sample.get("ms"),
        "mem_bytes": sample.get("memory_bytes"),
        "cpu_usec": int(float(sample.get("cpu_seconds") or 0) * 1e6),
        "cpu_pct": sample.get("cpu_percent"),
        "mem_peak_bytes": sample.get("memory_peak_bytes"),
        "pids": sample.get("pids"),
        "disk_bytes": sample.get("disk_bytes"),
    }
