"""The violation: one refusal, limit, failure or death that the sandbox caused, as a typed value and as JSON."""

from __future__ import annotations

import errno as errno_numbers

from sentinel_kernel.abi.architecture import audit_name
from sentinel_kernel.policy.action import ActionKind
from sentinel_kernel.policy.cause import CALL
from sentinel_kernel.policy.decode import Argument, clone_flags_text, decode_arguments, family_text
from sentinel_kernel.policy.resource import resource_of
from sentinel_kernel.policy.sockaddr import read_address
from sentinel_kernel.policy.text import shown
from sentinel_kernel.record import Record, as_dict, fresh

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from sentinel_kernel.policy.compiled import CompiledPolicy, CompiledRule
    from sentinel_kernel.policy.request import Request
    from sentinel_kernel.policy.verdict import Verdict

VERSION = 2
"""Of the record, and of violation.schema.json: raised by whatever a reader of the last one could stumble over."""

OUTCOMES = {"refuse": "refused", "continue": "continued", "kill": "killed", "ask": "asked"}
"""A verdict's kind -> what became of the call."""

_COMMAND_CHARACTERS = 120
_ENDS = ("worker_killed", "worker_crashed")
_NO_COPY: Mapping[int, bytes] = {}


class Process(Record):
    """Whose doing it was; ``pid`` as the host sees it, ``command`` as the process says (untrusted)."""

    pid: int
    command: str
    is_worker: bool


class Text(Record):
    """Words in both languages."""

    en: str
    zh: str


class Frame(Record):
    """One line of code: ``file`` shortened to what a person needs (``requests/adapters.py``), untrusted."""

    file: str
    line: int
    function: str


class Limit(Record):
    """A limit that was reached: ``used`` and ``allowed`` in ``unit`` (bytes, seconds, count; None: not known).

    ``stage`` is one of cause.STAGES, ``own`` tells whether the person has set it (else the profile), ``backend``
    who keeps it.
    """

    name: str
    stage: str
    used: float | None
    allowed: float | None
    unit: str
    own: bool
    backend: str


class Subject(Record):
    """What was reached for: ``kind`` is path, host, package, program or address; ``text`` is untrusted."""

    kind: str
    text: str


class Surfaced(Record):
    """The exception that the program saw; ``ename`` is what the sandbox says (untrusted)."""

    ename: str
    errno_name: str | None


class Remedy(Record):
    """What truly changes the outcome, checked against the policy before it is proposed.

    ``kind`` magic: ``text`` is the line to put on top of the cell. Kind code: ``text`` says what changes, ``code`` is
    the whole changed cell. Kind command: ``text`` is a command for a terminal of the host.
    """

    kind: str
    text: str
    why: Text | None = None
    code: str | None = None


class Violation(Record):
    """One refusal, limit, failure or death in one cell; ``count`` says how often. Times are epoch milliseconds.

    ``cause`` is one of cause.CAUSES; syscall, number, architecture and arguments are there for calls alone.
    ``resource`` names what was reached for, ``rule`` the rule or the limit that said no. ``values`` holds decoded
    values that are ours to vouch for (names of constants, numeric addresses): they alone may stand in message and
    hint. ``subject``, ``error``, ``library``, ``function``, ``thread``, ``source`` and the process's ``command``
    are the sandbox's own words: to be shown, never to be believed. ``errno`` is None where the caller never got one.
    ``line``, ``source`` and ``function`` are the cell's, ``library`` the innermost frame outside it where that made
    the call, ``thread`` the name of a thread other than the main one, ``started_line`` the cell's line that started
    the process. Words, remedies and the cell are completed by the host.
    """

    id: str
    version: int
    profile: str
    rule: str
    origin: str
    action: str
    outcome: str
    first_time_ms: int
    last_time_ms: int
    cause: str = CALL
    syscall: str | None = None
    number: int | None = None
    architecture: str | None = None
    arguments: tuple[Argument, ...] = ()
    values: Mapping[str, str] = fresh(default_factory=dict)
    resource: str = ""
    errno: int | None = None
    errno_name: str | None = None
    process: Process | None = None
    count: int = 1
    confidence: str = "certain"
    cell: str | None = None
    execution_count: int | None = None
    line: int | None = None
    source: str | None = None
    function: str | None = None
    library: Frame | None = None
    thread: str | None = None
    started_line: int | None = None
    limit: Limit | None = None
    subject: Subject | None = None
    error: Surfaced | None = None
    message: Text | None = None
    hint: Text | None = None
    remedies: tuple[Remedy, ...] = ()

    @property
    def loses_variables(self) -> bool:
        """Whether the notebook's Python ended, so that its variables are lost."""
        if self.cause == CALL:
            return self.outcome == "killed"
        return self.cause in _ENDS or (self.limit is not None and self.resource == "worker")

    def to_json(self) -> dict[str, Any]:
        """Return the violation as JSON values (violation.schema.json)."""
        document = as_dict(self)
        document["values"] = dict(self.values)
        document["arguments"] = [as_dict(argument) for argument in self.arguments]
        for name in ("process", "library", "limit", "subject", "error", "message", "hint"):
            if document[name] is not None:
                document[name] = as_dict(document[name])
        document["remedies"] = [
            {**as_dict(remedy), "why": None if remedy.why is None else as_dict(remedy.why)}
            for remedy in self.remedies
        ]
        return document

    @classmethod
    def from_json(cls, document: object) -> Violation:
        """Return the violation that :meth:`to_json` wrote.

        Raises:
            ProtocolError: a field is missing, unknown, of the wrong type or too long.

        """
        from sentinel_kernel.policy.violation_reading import read_violation  # noqa: PLC0415 - the supervisor only writes

        return read_violation(document)


def make_violation(
    request: Request,
    verdict: Verdict,
    policy: CompiledPolicy,
    id: str,  # noqa: A002 - the field's name
    time_ms: int,
) -> Violation:
    """Return the violation for one judged call, without the words that the host adds."""
    rule = verdict.rule
    machine = audit_name(request.architecture)
    copied = request.copied if rule.origin != "foreign" else _NO_COPY
    values = _values(rule.syscall, request.arguments, copied)
    number = _errno_seen(verdict)
    name = errno_numbers.errorcode.get(number) if number is not None else None
    if name is not None:
        values["errno"] = name
    return Violation(
        id=id,
        version=VERSION,
        cause=CALL,
        syscall=rule.syscall,
        number=request.number,
        architecture="x32" if rule.syscall == "x32_call" else machine,
        arguments=decode_arguments(rule.syscall, request.arguments, copied),
        values=values,
        resource=resource_of(rule.syscall, request.arguments, copied),
        profile=policy.profile_name,
        rule=describe_rule(rule),
        origin=rule.origin,
        action=rule.action.kind.value,
        errno=number,
        errno_name=name,
        outcome=OUTCOMES[verdict.kind],
        process=Process(request.pid, shown(request.command, _COMMAND_CHARACTERS), request.is_worker),
        count=1,
        first_time_ms=time_ms,
        last_time_ms=time_ms,
    )


def describe_rule(rule: CompiledRule) -> str:
    """Return one short line that says which rule it was."""
    if rule.origin == "default":
        return f"{rule.action} by default"
    tests = f" where {' and '.join(map(str, rule.tests))}" if rule.tests and rule.origin == "profile" else ""
    everywhere = ", in every profile" if rule.origin in ("floor", "foreign", "worker") else ""
    everywhere = ", on the landlock rung" if rule.origin == "rung" else everywhere
    return f"{rule.action} {rule.syscall}{tests}{everywhere}"


def _errno_seen(verdict: Verdict) -> int | None:
    if verdict.rule.action.kind is ActionKind.KILL:
        return None
    return verdict.errno or None


def _values(syscall: str, arguments: tuple[int, ...], copied: Mapping[int, bytes]) -> dict[str, str]:
    """Return decoded values that hold nothing the sandbox could have worded."""
    values: dict[str, str] = {}
    if syscall in ("socket", "socketpair"):
        values["family"] = family_text(arguments[0])
    elif syscall in ("connect", "bind"):
        address = read_address(copied.get(1, b""))
        values["family"], values["address"] = address.family, address.numeric
    elif syscall in ("clone", "unshare", "setns"):
        values["flags"] = clone_flags_text(arguments[1 if syscall == "setns" else 0])
    return {name: value for name, value in values.items() if value}
