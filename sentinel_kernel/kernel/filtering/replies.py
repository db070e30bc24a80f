"""Answers that clients act on for the person: completions, indents, history, what the kernel is. Each made plain.

A console types an indent and a completion into the person's line, prints a banner as it is, and a notebook keeps what
a kernel says of its language: nbconvert makes a file's name of it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from sentinel_kernel.kernel.filtering import terminal

if TYPE_CHECKING:
    from collections.abc import Callable

    from sentinel_kernel.kernel.wire import Json

_INDENT = re.compile(r"[ \t]{0,80}")
_STATES = frozenset({"complete", "incomplete", "invalid", "unknown", "error"})
_CONTROLS = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_CONTROLS_OF_LINES = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_MAGIC = re.compile(r"[ \t]*%%?[ \t]*sentinel_")
_BARE_MAGIC = re.compile(r"[ \t]*%%?[ \t]*sentinel_[a-z_]*[ \t]*")
_TYPED_MAGIC = re.compile(r"[ \t]*%%?[ \t]*sentinel_[a-z_]+[ \t]")
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_+#-]{0,39}")
_VERSION = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+-]{0,39}")
_MIME_TYPE = re.compile(r"(?:text|application)/[A-Za-z0-9][A-Za-z0-9.+-]{0,59}")
_SUFFIX = re.compile(r"\.[A-Za-z0-9]{1,16}")
_KIND = re.compile(r"[A-Za-z<>_ ]{1,40}")
_MOST_MATCHES, _LONGEST_MATCH, _LONGEST_BANNER = 10_000, 1000, 4000
_TYPES = "_jupyter_types_experimental"


def clean(msg_type: str, content: Json, asked: Json) -> bool:
    """Make a reply's content plain in place; ``asked`` is the request's. Tell whether it was changed."""
    made = _MADE[msg_type](content, asked)
    if made == content:
        return False
    content.clear()
    content.update(made)
    return True


def _is_complete(content: Json, _asked: Json) -> Json:
    status, indent = content.get("status"), content.get("indent")
    made: Json = {"status": status if status in _STATES else "unknown"}
    if isinstance(indent, str) and _INDENT.fullmatch(indent):
        made["indent"] = indent
    return made


def _completions(content: Json, asked: Json) -> Json:
    """Leave matches of one line that replace nothing but a part of the person's line, around the cursor."""
    if content.get("status") != "ok":
        return content
    code, cursor = asked.get("code"), asked.get("cursor_pos")
    code = code if isinstance(code, str) else ""
    cursor = min(max(cursor, 0), len(code)) if type(cursor) is int else len(code)
    first = code.rfind("\n", 0, cursor) + 1
    last = code.find("\n", cursor)
    last = len(code) if last < 0 else last
    start = min(max(content["cursor_start"], first), cursor)
    end = min(max(content["cursor_end"], cursor), last)
    before, behind = code[first:start], code[end:last]
    typed = _TYPED_MAGIC.match(before) is not None
    matches = [
        match for match in content["matches"][:_MOST_MATCHES] if _is_match(match, before, behind, typed=typed)
    ]
    known, types = frozenset(matches), content["metadata"].get(_TYPES)
    shown = [
        {
            "text": one["text"],
            "start": start,
            "end": end,
            "type": kind
            if isinstance(kind := one.get("type"), str) and _KIND.fullmatch(kind)
            else "<unknown>",
            "signature": _line(one.get("signature"), _LONGEST_MATCH),
        }
        for one in (types[:_MOST_MATCHES] if isinstance(types, list) else ())
        if isinstance(one, dict) and isinstance(one.get("text"), str) and one["text"] in known
    ]
    return {
        "status": "ok",
        "matches": matches,
        "cursor_start": start,
        "cursor_end": end,
        "metadata": {_TYPES: shown} if shown else {},
    }


def _is_match(match: str, before: str, behind: str, *, typed: bool) -> bool:
    if len(match) > _LONGEST_MATCH or _CONTROLS.search(match) or terminal.line(match) != match:
        return False
    line = before + match + behind
    # The name of one of the host's magics may be completed; what it is to do is the person's to type.
    return typed or _MAGIC.match(line) is None or _BARE_MAGIC.fullmatch(line) is not None


def _history(content: Json, _asked: Json) -> Json:
    entries = content.get("history")
    kept = []
    for one in entries if isinstance(entries, list) else ():
        if not isinstance(one, list) or len(one) != 3 or type(one[0]) is not int or type(one[1]) is not int:
            continue
        texts = one[2] if isinstance(one[2], list) else [one[2]]
        if len(texts) <= 2 and all(isinstance(text, str | None) for text in texts):
            plain = [None if text is None else _lines(text) for text in texts]
            kept.append([one[0], one[1], plain if isinstance(one[2], list) else plain[0]])
    return {**content, "history": kept}


def _kernel_info(content: Json, _asked: Json) -> Json:
    if content.get("status") != "ok":
        return content
    made: Json = {key: content[key] for key in ("status", "protocol_version", "help_links") if key in content}
    made["implementation"] = _fit(content["implementation"], _NAME) or "python"
    made["implementation_version"] = _fit(content.get("implementation_version"), _VERSION) or ""
    made["banner"] = _lines(content["banner"][: 4 * _LONGEST_BANNER])[:_LONGEST_BANNER]
    made["language_info"] = _language(content["language_info"])
    if isinstance(content.get("debugger"), bool):
        made["debugger"] = content["debugger"]
    features = content.get("supported_features")
    if isinstance(features, list):
        made["supported_features"] = [name for name in map(_feature, features) if name]
    return made


def _language(told: Json) -> Json:
    """Return what a notebook may keep of the kernel's language."""
    patterns = {
        "name": _NAME,
        "version": _VERSION,
        "mimetype": _MIME_TYPE,
        "file_extension": _SUFFIX,
        "pygments_lexer": _NAME,
        "nbconvert_exporter": _NAME,
    }
    made: Json = {"name": "python", "mimetype": "text/x-python", "file_extension": ".py"}
    for key, pattern in patterns.items():
        if fit := _fit(told.get(key), pattern):
            made[key] = fit
    mode = told.get("codemirror_mode")
    if isinstance(mode, dict):
        name, version = _fit(mode.get("name"), _NAME), mode.get("version")
        if name:
            made["codemirror_mode"] = {"name": name, **({"version": version} if type(version) is int else {})}
    elif fit := _fit(mode, _NAME):
        made["codemirror_mode"] = fit
    return made


def _feature(value: object) -> str:
    return value if isinstance(value, str) and re.fullmatch(r"[a-z][a-z ]{0,39}", value) else ""


def _fit(value: object, pattern: re.Pattern[str]) -> str:
    return value if isinstance(value, str) and pattern.fullmatch(value) else ""


def _line(value: object, most: int) -> str:
    return _bare(value[: 4 * most], _CONTROLS)[:most] if isinstance(value, str) else ""


def _lines(text: str) -> str:
    return _bare(text, _CONTROLS_OF_LINES)


def _bare(text: str, controls: re.Pattern[str]) -> str:
    """Return ``text`` without escapes and ``controls``; these go first: no marks meet where they were counted."""
    return terminal.line(controls.sub("", terminal.plain(text)))


_MADE: dict[str, Callable[[Json, Json], dict[str, Any]]] = {
    "is_complete_reply": _is_complete,
    "complete_reply": _completions,
    "history_reply": _history,
    "kernel_info_reply": _kernel_info,
}
KINDS = frozenset(_MADE)
