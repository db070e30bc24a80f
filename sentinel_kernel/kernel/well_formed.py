"""Whether a worker's message is one that clients can read: what they would trip over is not forwarded.

Clients trust a kernel. nbclient ends at a stream whose content is no JSON, at a header whose date is none, or at a
text that UTF-8 can't write; a page ends at NaN, or at lists nested a thousand deep. Pure: bytes and values in,
ProtocolError out.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from sentinel_kernel.errors import ProtocolError
from sentinel_kernel.kernel.well_formed_replies import check_reply
from sentinel_kernel.kernel.wire import HEADER_BYTES, decode

if TYPE_CHECKING:
    from sentinel_kernel.kernel.wire import Json, Part

DEEPEST = 200
"""How deep a value may be nested. Programs that copy a notebook recurse at each level, Python ends at 1000."""

METADATA_BYTES = 4 * 1024 * 1024

_INFINITE = float("inf")

_STRINGS = re.compile(rb'"(?:[^"\\]+|\\.)*"', re.DOTALL)
_ALL_BUT_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
_ONE_KIND = bytes.maketrans(b"[]", b"{}")

_DATE = re.compile(r"\d{4}-\d{2}-\d{2}T")
_EXACT_DATE = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})T(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\.[0-9]{1,6})?"
    r"(?:Z|[+-](?:0[0-9]|1[0-4]):?[0-5][0-9])?\Z"
)
_DAYS = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)

_TEXTS: dict[str, tuple[str, ...]] = {
    "stream": ("name", "text"),
    "error": ("ename", "evalue"),
    "status": ("execution_state",),
    "execute_input": ("code",),
    "comm_open": ("comm_id", "target_name"),
    "comm_msg": ("comm_id",),
    "comm_close": ("comm_id",),
}
"""What clients take for strings without a look, by the message's type."""

_OBJECTS: dict[str, tuple[str, ...]] = {
    "display_data": ("data", "metadata"),
    "execute_result": ("data", "metadata"),
    "update_display_data": ("data", "metadata"),
    "comm_open": ("data",),
    "comm_msg": ("data",),
    "comm_close": ("data",),
}


def read(part: Part, maximum_bytes: int) -> Json:
    """Return the JSON object in ``part`` if all clients can read it. Raises ProtocolError."""
    value = decode(part, maximum_bytes)
    if all(type(text) is str and text.isascii() and key.isascii() for key, text in value.items()):
        return value  # as most streams are: flat, and cheaper to see here than in the bytes
    raw = bytes(part)
    if too_deep(raw):
        raise ProtocolError("A value is nested too deeply.")
    check_numbers(value)
    if b"\\ud" in raw or b"\\uD" in raw:
        _check_letters(value)
    return value


def too_deep(raw: bytes, deepest: int = DEEPEST) -> bool:
    """Tell whether the JSON text ``raw``, which is valid, is nested deeper than ``deepest``."""
    if raw.count(b"[") + raw.count(b"{") <= deepest:
        return False
    brackets = _STRINGS.sub(b"", raw).translate(_ONE_KIND, _ALL_BUT_BRACKETS)
    for _ in range(deepest):
        if not brackets:
            return False
        brackets = brackets.replace(b"{}", b"")
    return bool(brackets)


def check_numbers(value: Json) -> None:
    """Find numbers that are none for all clients: 1e999 is infinite, and what a notebook holds then no page reads.

    Raises ProtocolError.
    """
    waiting: list[Any] = [value]
    while waiting:
        found = waiting.pop()
        for item in found.values() if type(found) is dict else found:
            kind = type(item)
            if kind is float:
                if item in (_INFINITE, -_INFINITE):
                    raise ProtocolError("A number is too large.")
            elif kind is dict or kind is list:
                waiting.append(item)


def _check_letters(value: Json) -> None:
    """Find halves of letters: nobody can write a notebook that holds one."""
    import json  # noqa: PLC0415 - seldom

    try:
        json.dumps(value, ensure_ascii=False).encode("utf-8")
    except (UnicodeEncodeError, RecursionError) as error:
        raise ProtocolError("A text holds half a letter.") from error


def check_header(header: Json, *, own: bool) -> None:
    """Check a header, or a parent header (``own`` False: the client's words, or nothing). Raises ProtocolError."""
    for key in ("msg_id", "msg_type", "session"):
        if not isinstance(header.get(key), str) and (own or key in header):
            raise ProtocolError(f"A header has no {key}.")
    waiting: list[Any] = list(header.values())
    while waiting:
        value = waiting.pop()
        if isinstance(value, str):
            if value[4:5] == "-" and _DATE.match(value) and not _is_date(value):
                raise ProtocolError("A header's date is none.")
        elif isinstance(value, dict | list):
            if own:
                raise ProtocolError("A header is not flat.")
            waiting.extend(value.values() if isinstance(value, dict) else value)


def read_parent(part: Part) -> Json:
    """Return a parent header. Raises ProtocolError."""
    value = read(part, HEADER_BYTES)
    check_header(value, own=False)
    return value


def _is_date(text: str) -> bool:
    found = _EXACT_DATE.match(text)
    if found is None:
        return False
    year, month, day = map(int, found.groups())
    leap = month == 2 and year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    return year > 0 and 1 <= month <= len(_DAYS) and 1 <= day <= _DAYS[month - 1] + leap


def check_content(msg_type: str, content: Json) -> None:
    """Check what clients take for granted in a message's content. Raises ProtocolError."""
    for key in _TEXTS.get(msg_type, ()):
        if not isinstance(content.get(key), str):
            raise ProtocolError(f"A {msg_type} has no text {key}.")
    for key in _OBJECTS.get(msg_type, ()):
        if not isinstance(content.get(key), dict):
            raise ProtocolError(f"A {msg_type} has no object {key}.")
    if msg_type in ("comm_open", "comm_msg"):
        _check_widget(msg_type, content)
    elif msg_type == "error" and not _is_traceback(content.get("traceback")):
        raise ProtocolError("An error has no traceback.")
    if "transient" in content:
        _check_transient(msg_type, content["transient"])
    check_reply(msg_type, content)
    missing = msg_type == "execute_result" and "execution_count" not in content
    if missing or not _is_count(content.get("execution_count")):  # nbclient takes one from every message
        raise ProtocolError(f"A {msg_type} has an execution count that is no number.")


def _is_traceback(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(line, str) for line in value)


def _is_count(value: object) -> bool:
    return value is None or (type(value) is int and 0 <= value < 1 << 53)


def _check_transient(msg_type: str, transient: object) -> None:
    if not isinstance(transient, dict | None):
        raise ProtocolError(f"A {msg_type} has a transient that is no object.")
    if transient and not isinstance(transient.get("display_id"), str | None):
        raise ProtocolError(f"A {msg_type} has a display id that is no text.")


def _check_widget(msg_type: str, content: Json) -> None:
    data = content["data"]
    if "state" not in data:
        if msg_type == "comm_open" and content["target_name"] == "jupyter.widget":
            raise ProtocolError("A widget has no state.")
        return
    state = data["state"]
    if not isinstance(state, dict):
        if content.get("target_name") == "jupyter.widget" or data.get("method") in ("update", "echo_update"):
            raise ProtocolError("A widget's state is no object.")
        return
    if msg_type == "comm_open" and content["target_name"] == "jupyter.widget":
        for key in ("_model_module", "_model_name"):
            if not isinstance(state.get(key), str):
                raise ProtocolError(f"A widget has no {key}.")
    paths = data.get("buffer_paths")
    if not isinstance(paths, list | None) or not all(map(_is_path, paths or ())):
        raise ProtocolError("A widget's buffer paths are none.")


def _is_path(value: object) -> bool:
    """Tell whether ``value`` leads to a place in a widget's state; clients keep such places as keys."""
    return isinstance(value, list) and all(type(step) in (str, int) for step in value)
