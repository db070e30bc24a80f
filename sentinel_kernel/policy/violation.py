"""The violation: one refused, killed or reported call as a typed value, and its JSON form."""

from __future__ import annotations

import errno as errno_numbers

from sentinel_kernel.abi.architecture import audit_name
from sentinel_kernel.errors import ProtocolError
from sentinel_kernel.policy.action import ActionKind
from sentinel_kernel.policy.decode import Argument, clone_flags_text, decode_arguments, family_text
from sentinel_kernel.policy.resource import resource_of
from sentinel_kernel.policy.sockaddr import read_address
from sentinel_kernel.policy.text import shown
from sentinel_kernel.record import Record, as_dict, field_names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from sentinel_kernel.policy.compiled import CompiledPolicy, CompiledRule
    from sentinel_kernel.policy.request import Request
    from sentinel_kernel.policy.verdict import Verdict

VERSION = 1
OUTCOMES = {"refuse": "refused", "continue": "continued", "kill": "killed", "ask": "asked"}
_CONFIDENCES = ("certain", "likely")
_LONGEST_TEXT = 4000
_COMMAND_CHARACTERS = 120
_MOST_ITEMS = 16
_NO_COPY: Mapping[int, bytes] = {}


class Process(Record):
    """Who made the call; ``pid`` as the host sees it, ``command`` as the process says (untrusted)."""

    pid: int
    command: str
    is_worker: bool


class Text(Record):
    """Words in both languages."""

    en: str
    zh: str


class Remedy(Record):
    """What truly changes the outcome: a magic to type, a profile to start with, or a change of code."""

    kind: str
    text: str


class Violation(Record):
    """One kind of refused call in one cell; ``count`` says how often. Times are epoch milliseconds.

    ``resource`` names what was reached for, ``values`` holds decoded values that are ours to vouch for (names
    of constants, numeric addresses): they alone may stand in message and hint. ``errno`` is None where the
    caller never got one. The fields from ``cell`` on are completed by the host.
    """

    id: str
    version: int
    syscall: str
    number: int
    architecture: str
    arguments: tuple[Argument, ...]
    values: Mapping[str, str]
    resource: str
    profile: str
    rule: str
    origin: str
    action: str
    errno: int | None
    errno_name: str | None
    outcome: str
    process: Process
    count: int
    first_time_ms: int
    last_time_ms: int
    confidence: str = "certain"
    cell: str | None = None
    execution_count: int | None = None
    line: int | None = None
    source: str | None = None
    message: Text | None = None
    hint: Text | None = None
    remedies: tuple[Remedy, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the violation as JSON values."""
        document = as_dict(self)
        document["arguments"] = [as_dict(argument) for argument in self.arguments]
        document["values"] = dict(self.values)
        document["process"] = as_dict(self.process)
        document["message"] = None if self.message is None else as_dict(self.message)
        document["hint"] = None if self.hint is None else as_dict(self.hint)
        document["remedies"] = [as_dict(remedy) for remedy in self.remedies]
        return document

    @classmethod
    def from_json(cls, document: object) -> Violation:
        """Return the violation that :meth:`to_json` wrote.

        Raises:
            ProtocolError: a field is missing, unknown, of the wrong type or too long.

        """
        return _read(document)


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


# --- strict reading ---


def _read(document: object) -> Violation:
    values = dict(_object(document, "violation", _names(Violation)))
    for name in ("id", "syscall", "architecture", "resource", "profile", "rule", "origin"):
        _text(values[name], name)
    for name in ("version", "number", "count", "first_time_ms", "last_time_ms"):
        _integer(values[name], name)
    _read_optional(values)
    if values["version"] != VERSION:
        raise ProtocolError(f"A violation has version {values['version']}, not {VERSION}.")
    _choice(values["action"], "action", [kind.value for kind in ActionKind])
    _choice(values["outcome"], "outcome", OUTCOMES.values())
    _choice(values["confidence"], "confidence", _CONFIDENCES)
    decoded = values["values"]
    if not isinstance(decoded, dict) or len(decoded) > _MOST_ITEMS:
        raise ProtocolError("A violation's values are no small object.")
    for name, value in decoded.items():
        _text(name, "values")
        _text(value, "values")
    values["arguments"] = tuple(_argument(item) for item in _list(values["arguments"], "arguments"))
    values["process"] = _process(values["process"])
    for name in ("message", "hint"):
        values[name] = None if values[name] is None else _words(values[name], name)
    values["remedies"] = tuple(_remedy(item) for item in _list(values["remedies"], "remedies"))
    return Violation(**values)


def _read_optional(values: Mapping[str, Any]) -> None:
    for name in ("errno", "execution_count", "line"):
        if values[name] is not None:
            _integer(values[name], name)
    for name in ("errno_name", "cell", "source"):
        if values[name] is not None:
            _text(values[name], name)


def _names(kind: type) -> frozenset[str]:
    return frozenset(field_names(kind))


def _object(value: object, what: str, names: frozenset[str]) -> Mapping[str, Any]:
    if not isinstance(value, dict) or value.keys() != names:
        raise ProtocolError(f"A {what} does not have the fields of one.")
    return value


def _argument(value: object) -> Argument:
    item = _object(value, "argument", _names(Argument))
    _text(item["name"], "argument")
    _text(item["text"], "argument")
    _integer(item["value"], "argument")
    return Argument(item["name"], item["value"], item["text"], _flag(item["untrusted"], "argument"))


def _process(value: object) -> Process:
    item = _object(value, "process", _names(Process))
    _integer(item["pid"], "process")
    _text(item["command"], "process")
    return Process(item["pid"], item["command"], _flag(item["is_worker"], "process"))


def _words(value: object, what: str) -> Text:
    item = _object(value, what, _names(Text))
    _text(item["en"], what)
    _text(item["zh"], what)
    return Text(item["en"], item["zh"])


def _remedy(value: object) -> Remedy:
    item = _object(value, "remedy", _names(Remedy))
    _choice(item["kind"], "remedy", ("magic", "profile", "code"))
    _text(item["text"], "remedy")
    return Remedy(item["kind"], item["text"])


def _list(value: object, what: str) -> list[Any]:
    if not isinstance(value, list) or len(value) > _MOST_ITEMS:
        raise ProtocolError(f"A violation's {what} are no short list.")
    return value


def _text(value: object, what: str) -> None:
    if not isinstance(value, str) or len(value) > _LONGEST_TEXT:
        raise ProtocolError(f"A violation's {what} is no text, or too long.")


def _integer(value: object, what: str) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not -(1 << 63) <= value < 1 << 64:
        raise ProtocolError(f"A violation's {what} is no number.")


def _flag(value: object, what: str) -> bool:
    if not isinstance(value, bool):
        raise ProtocolError(f"A violation's {what} is neither true nor false.")
    return value


def _choice(value: object, what: str, choices: Any) -> None:  # noqa: ANN401 - any collection of texts
    if not isinstance(value, str) or value not in choices:
        raise ProtocolError(f"A violation's {what} is unknown.")
