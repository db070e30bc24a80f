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

_MODEL_NAMES = (
    *("_model_module", "_model_name", "_model_module_version", "model_module", "model_name"),
    *("_view_module", "_view_name", "_view_module_version", "model_module_version"),
)

DEEPEST = 200
"""How deep a value may be nested. Programs that copy a notebook recurse at each level, Python ends at 1000."""

METADATA_BYTES = 4 * 1024 * 1024

_INFINITE = float("inf")

_DIGITS = bytes.maketrans(b"123456789E", b"000000000e")
_LARGE_EXPONENT, _LONG_NUMBER = b"e000", b"0" * 200
_HIDDEN = re.compile(rb"\\u00[567]")
"""An escape that may stand for a letter of the keys that are looked for."""

_INHERITED = frozenset({"__proto__", "constructor", "prototype"})
"""Keys by which JavaScript reaches what all objects of a page have in common."""

_COMM_ID_CHARACTERS, _TARGET_CHARACTERS, _MODEL_NAME_CHARACTERS = 128, 200, 100

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
        if "__proto__" in value:
            raise ProtocolError("An object has a key that changes every object of a page.")
        return value  # as most streams are: flat, and cheaper to see here than in the bytes
    raw = bytes(part)
    if raw.count(b"[") + raw.count(b"{") > DEEPEST and too_deep(value):
        raise ProtocolError("A value is nested too deeply.")
    if _may_be_infinite(raw):
        check_numbers(value)
    escapes = b"\\" in raw
    if b"proto" in raw or (escapes and _HIDDEN.search(raw) is not None):
        _check_keys(value)
    if not escapes:
        return value
    if b"\\ud" in raw or b"\\uD" in raw:
        _check_letters(value)
    return value


def too_deep(value: Json, deepest: int = DEEPEST) -> bool:
    """Tell whether ``value`` is nested deeper than ``deepest``, itself being the first."""
    level: list[Any] = [value]
    for _ in range(deepest):
        level = [
            inner
            for one in level
            for inner in (one.values() if type(one) is dict else one)
            if type(inner) is dict or type(inner) is list
        ]
        if not level:
            return False
    return True


def _may_be_infinite(raw: bytes) -> bool:
    """Tell whether a number in ``raw`` may be too large: it has an exponent of three digits, or 200 digits."""
    plain = raw.translate(_DIGITS, b"+")
    # From the end: so the search looks for the rare letter first (ten times as fast in a megabyte of digits).
    return plain.rfind(_LARGE_EXPONENT) >= 0 or _LONG_NUMBER in plain


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


def _check_keys(value: Json) -> None:
    """Find keys by which a page that merges objects changes all of its own. Raises ProtocolError."""
    waiting: list[Any] = [value]
    while waiting:
        found = waiting.pop()
        if type(found) is dict:
            constructor = found.get("constructor")
            if "__proto__" in found or (type(constructor) is dict and "prototype" in constructor):
                raise ProtocolError("An object has a key that changes every object of a page.")
            waiting.extend(found.values())
        elif type(found) is list:
            waiting.extend(found)


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
    if msg_type.startswith("comm_") and len(content.get("comm_id", "")) > _COMM_ID_CHARACTERS:
        raise ProtocolError("A comm's id is too long.")
    if msg_type in ("comm_open", "comm_msg", "comm_close"):  # nbclient reads all alike
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
    is_model = msg_type == "comm_open" and content["target_name"] == "jupyter.widget"
    if len(content.get("target_name") or "") > _TARGET_CHARACTERS:
        raise ProtocolError("A comm's target is too long.")
    if "state" not in data and is_model:
        raise ProtocolError("A widget has no state.")
    state = data.get("state", {})
    if not isinstance(state, dict):  # of whatever comm: nbclient takes it from every one
        raise ProtocolError("A widget's state is no object.")
    _check_state(state)
    for key in ("_model_module", "_model_name") if is_model else ():
        if not isinstance(state.get(key), str):
            raise ProtocolError(f"A widget has no {key}.")
    _check_states(data.get("states"))
    _check_paths(data)


def _check_states(states: object) -> None:
    """Check the states of all models, as a control comm tells them."""
    for comm_id, told in states.items() if isinstance(states, dict) else ():
        if len(comm_id) > _COMM_ID_CHARACTERS or comm_id in _INHERITED or not isinstance(told, dict):
            raise ProtocolError("A widget's state is none.")
        _check_state(told)
        if isinstance(told.get("state"), dict):
            _check_state(told["state"])


def _check_paths(data: Json) -> None:
    paths = data.get("buffer_paths")
    if not isinstance(paths, list | None):
        raise ProtocolError("A widget's buffer paths are none.")
    # Of a control comm's answer they lead through the states of all models, else through the one.
    places = [data[key] for key in ("state", "states") if key in data] or [{}]
    if not all(_leads_somewhere(path, place) for path in paths or () for place in places):
        raise ProtocolError("A widget's buffer path leads nowhere.")


def _check_state(state: Json) -> None:
    if not _INHERITED.isdisjoint(state):
        raise ProtocolError("A widget's state has a key that every object of a page has.")
    for key in _MODEL_NAMES:
        name = state.get(key)
        if isinstance(name, str) and len(name) > _MODEL_NAME_CHARACTERS:
            raise ProtocolError("A widget's name is too long.")


def _leads_somewhere(path: object, place: Any) -> bool:  # noqa: ANN401 - what JSON holds
    """Tell whether a buffer's path leads to an item of ``place``, or to a key that may be added in it.

    Clients follow it unlooked at, and keep such places as keys: what every object has in common is reached so.
    """
    if not isinstance(path, list) or not path:
        return False
    *steps, last = path
    for step in steps:
        place = _item(place, step)
    if isinstance(place, dict):
        return type(last) in (str, int) and str(last) not in _INHERITED
    return isinstance(place, list) and type(last) is int and 0 <= last < len(place)


def _item(place: Any, step: object) -> Any:  # noqa: ANN401 - what JSON holds
    if isinstance(place, dict):
        return place.get(str(step)) if type(step) in (str, int) and str(step) not in _INHERITED else None
    return place[step] if isinstance(place, list) and type(step) is int and 0 <= step < len(place) else None
