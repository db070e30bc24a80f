"""For programs that run notebooks: the violations in what a kernel put out, as typed values.

Reads notebooks and messages alone and starts nothing. A worker can't forge a record in a live kernel's outputs; a
notebook file is as trustworthy as who wrote it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from sentinel_kernel.errors import ProtocolError
from sentinel_kernel.policy.mime import VIOLATION_TYPE
from sentinel_kernel.policy.violation import Violation

__all__ = ["VIOLATION_TYPE", "Violation", "violations_of"]

_DISPLAYS = frozenset({"display_data", "execute_result", "update_display_data"})


def violations_of(source: object) -> list[Violation]:
    """Return the violations in a notebook, a cell, a list of outputs, or messages of IOPub; the last state of each.

    ``source`` is what nbformat, nbclient and papermill hand out (a notebook node or one of its cells), the ``outputs``
    of a cell, or whole messages (``{"msg_type": ..., "content": ...}``), in their order. What is no record of this
    version is passed over: a notebook may be older, or anybody's.
    """
    found: dict[str, Violation] = {}
    for data in _bundles(source):
        try:
            violation = Violation.from_json(_plain(data.get(VIOLATION_TYPE)))
        except ProtocolError:
            continue
        found[violation.id] = violation
    return list(found.values())


def _bundles(source: object) -> Iterable[Mapping[str, Any]]:
    if isinstance(source, Mapping):
        if "cells" in source or "outputs" in source:
            key = "cells" if "cells" in source else "outputs"
            yield from _bundles(source[key])
            return
        kind = source.get("output_type") or source.get("msg_type") or _message_type(source)
        content = source.get("content", source)
        data = content.get("data") if isinstance(content, Mapping) else None
        if kind in _DISPLAYS and isinstance(data, Mapping) and VIOLATION_TYPE in data:
            yield data
    elif isinstance(source, Iterable) and not isinstance(source, str | bytes):
        for item in source:
            yield from _bundles(item)


def _message_type(message: Mapping[str, Any]) -> object:
    header = message.get("header")
    return header.get("msg_type") if isinstance(header, Mapping) else None


def _plain(value: Any) -> Any:  # noqa: ANN401 - JSON values
    """Return nbformat's nodes as plain dictionaries, which a record is read from strictly."""
    if isinstance(value, Mapping):
        return {key: _plain(inner) for key, inner in value.items()}
    return [_plain(inner) for inner in value] if isinstance(value, list) else value
