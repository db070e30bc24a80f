"""Reads a violation from JSON: every field is there, known, of its type and no longer than it may be."""

from __future__ import annotations

from sentinel_kernel.errors import ProtocolError
from sentinel_kernel.policy.action import ActionKind
from sentinel_kernel.policy.cause import CALL, CAUSES, OUTCOMES, STAGES
from sentinel_kernel.policy.decode import Argument
from sentinel_kernel.policy.violation import (
    VERSION,
    Frame,
    Limit,
    Process,
    Remedy,
    Subject,
    Surfaced,
    Text,
    Violation,
)
from sentinel_kernel.record import field_names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping
    from typing import Any

CONFIDENCES = ("certain", "likely")
REMEDIES = ("magic", "code", "command")
SUBJECTS = ("path", "host", "package", "program", "address")
UNITS = ("bytes", "seconds", "count")
LONGEST_TEXT = 4000
LONGEST_UNTRUSTED = 200
"""The most characters of a text that the sandbox worded."""
LONGEST_CODE = 200_000
"""The most characters of a whole changed cell."""
MOST_ITEMS = 16


def read_violation(document: object) -> Violation:
    """Return the violation that ``Violation.to_json`` wrote.

    Raises:
        ProtocolError: a field is missing, unknown, of the wrong type or too long.

    """
    values = dict(_object(document, "violation", Violation))
    if values["version"] != VERSION:
        raise ProtocolError(f"A violation has version {str(values['version'])[:20]}, not {VERSION}.")
    for name in ("id", "resource", "profile", "rule", "origin"):
        _text(values[name], name)
    for name in ("version", "count", "first_time_ms", "last_time_ms"):
        _integer(values[name], name)
    for name in ("errno", "execution_count", "line", "started_line", "number"):
        _optional(values[name], name, _integer)
    for name in ("errno_name", "cell", "syscall", "architecture"):
        _optional(values[name], name, _text)
    for name in ("source", "function", "thread"):
        _optional(values[name], name, _untrusted)
    _choice(values["cause"], "cause", CAUSES)
    _check_cause(values)
    _choice(values["outcome"], "outcome", OUTCOMES)
    _choice(values["confidence"], "confidence", CONFIDENCES)
    decoded = values["values"]
    if not isinstance(decoded, dict) or len(decoded) > MOST_ITEMS:
        raise ProtocolError("A violation's values are no small object.")
    for name, value in decoded.items():
        _text(name, "values")
        _text(value, "values")
    values["arguments"] = tuple(_argument(item) for item in _list(values["arguments"], "arguments"))
    for name, read in _PARTS.items():
        values[name] = None if values[name] is None else read(values[name])
    values["remedies"] = tuple(_remedy(item) for item in _list(values["remedies"], "remedies"))
    return Violation(**values)


def _check_cause(values: Mapping[str, Any]) -> None:
    """Check what belongs to the cause: a rule's action and its call, or neither."""
    cause = CAUSES[values["cause"]]
    if cause.name == CALL:
        _choice(values["action"], "action", [kind.value for kind in ActionKind])
        for name in ("syscall", "number", "architecture", "process"):
            if values[name] is None:
                raise ProtocolError(f"A violation about a call has no {name}.")
    else:
        _choice(values["action"], "action", (cause.action,))


def _object(value: object, what: str, kind: type) -> Mapping[str, Any]:
    if not isinstance(value, dict) or value.keys() != frozenset(field_names(kind)):
        raise ProtocolError(f"A {what} does not have the fields of one.")
    return value


def _argument(value: object) -> Argument:
    item = _object(value, "argument", Argument)
    _text(item["name"], "argument")
    _text(item["text"], "argument")
    _integer(item["value"], "argument")
    return Argument(item["name"], item["value"], item["text"], _flag(item["untrusted"], "argument"))


def _process(value: object) -> Process:
    item = _object(value, "process", Process)
    _integer(item["pid"], "process")
    _untrusted(item["command"], "process")
    return Process(item["pid"], item["command"], _flag(item["is_worker"], "process"))


def _frame(value: object) -> Frame:
    item = _object(value, "frame", Frame)
    _untrusted(item["file"], "frame")
    _integer(item["line"], "frame")
    _untrusted(item["function"], "frame")
    return Frame(item["file"], item["line"], item["function"])


def _limit(value: object) -> Limit:
    item = _object(value, "limit", Limit)
    _text(item["name"], "limit")
    _choice(item["stage"], "limit", STAGES)
    _optional(item["used"], "limit", _number)
    _optional(item["allowed"], "limit", _number)
    _choice(item["unit"], "limit", UNITS)
    _flag(item["own"], "limit")
    _text(item["backend"], "limit")
    return Limit(**item)


def _subject(value: object) -> Subject:
    item = _object(value, "subject", Subject)
    _choice(item["kind"], "subject", SUBJECTS)
    _untrusted(item["text"], "subject")
    return Subject(item["kind"], item["text"])


def _error(value: object) -> Surfaced:
    item = _object(value, "error", Surfaced)
    _untrusted(item["ename"], "error")
    _optional(item["errno_name"], "error", _text)
    return Surfaced(item["ename"], item["errno_name"])


def _words(value: object) -> Text:
    item = _object(value, "text", Text)
    _text(item["en"], "text")
    _text(item["zh"], "text")
    return Text(item["en"], item["zh"])


def _remedy(value: object) -> Remedy:
    item = _object(value, "remedy", Remedy)
    _choice(item["kind"], "remedy", REMEDIES)
    _text(item["text"], "remedy")
    if item["code"] is not None:
        _text(item["code"], "remedy", LONGEST_CODE)
    why = None if item["why"] is None else _words(item["why"])
    return Remedy(item["kind"], item["text"], why, item["code"])


_PARTS: Mapping[str, Callable[[object], object]] = {
    "process": _process,
    "library": _frame,
    "limit": _limit,
    "subject": _subject,
    "error": _error,
    "message": _words,
    "hint": _words,
}


def _list(value: object, what: str) -> list[Any]:
    if not isinstance(value, list) or len(value) > MOST_ITEMS:
        raise ProtocolError(f"A violation's {what} are no short list.")
    return value


def _text(value: object, what: str, longest: int = LONGEST_TEXT) -> None:
    if not isinstance(value, str) or len(value) > longest:
        raise ProtocolError(f"A violation's {what} is no text, or too long.")


def _untrusted(value: object, what: str) -> None:
    _text(value, what, LONGEST_UNTRUSTED)


def _integer(value: object, what: str) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not -(1 << 63) <= value < 1 << 64:
        raise ProtocolError(f"A violation's {what} is no number.")


def _number(value: object, what: str) -> None:
    if not isinstance(value, float) or not -1e18 < value < 1e18:  # nan is not below anything either
        _integer(value, what)


def _optional(value: object, what: str, check: Callable[[object, str], None]) -> None:
    if value is not None:
        check(value, what)


def _flag(value: object, what: str) -> bool:
    if not isinstance(value, bool):
        raise ProtocolError(f"A violation's {what} is neither true nor false.")
    return value


def _choice(value: object, what: str, choices: Collection[str]) -> None:
    if not isinstance(value, str) or value not in choices:
        raise ProtocolError(f"A violation's {what} is unknown.")
