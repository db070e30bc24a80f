"""Checks a tool's arguments against its schema, as far as schemas of tools go here.

The package jsonschema would do the same, and takes longer to import than all else that the server needs.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from sentinel_kernel.errors import SentinelError

if TYPE_CHECKING:
    from collections.abc import Iterator

Json = dict[str, Any]

_SHOWN = 60
_REMEDY = "tools/list describes what the tool takes."
_TYPES: dict[str, type | tuple[type, ...]] = {
    "string": str,
    "integer": int,
    "number": (int, float),
    "boolean": bool,
    "object": dict,
    "array": list,
}
KNOWN = frozenset(
    (
        "type",
        "description",
        "default",
        "enum",
        "pattern",
        "minLength",
        "minimum",
        "maximum",
        "exclusiveMinimum",
    )
)
"""The keywords of a property that are understood; a test holds the tools' schemas to them."""


def by_one_name(arguments: Json, aliases: dict[str, str]) -> Json:
    """Return ``arguments`` by the names that the tool reads; ``aliases`` are other names of needed ones.

    Raises:
        SentinelError: a needed one is absent, or is there by both names.

    """
    result = dict(arguments)
    for alias, name in aliases.items():
        if alias in result:
            if name in result:
                raise SentinelError(f"Give one of {name!r} and {alias!r}: they mean the same.", _REMEDY)
            result[name] = result.pop(alias)
        elif name not in result:
            raise SentinelError(f"The argument {name!r} is missing.", _REMEDY)
    return result


def check_arguments(schema: Json, arguments: Json) -> None:
    """Raise SentinelError with the first fault of ``arguments``."""
    properties: Json = schema["properties"]
    for name in arguments:
        if name not in properties:
            known = ", ".join(properties) or "none"
            raise SentinelError(
                f"There is no argument {str(name)[:_SHOWN]!r}. The tool takes: {known}.", _REMEDY
            )
    for name in schema["required"]:
        if name not in arguments:
            raise SentinelError(f"The argument {name!r} is missing.", _REMEDY)
    for name, value in arguments.items():
        fault = next(_faults(properties[name], value), None)
        if fault is not None:
            raise SentinelError(f"{name}: {fault}.", _REMEDY)


def _faults(schema: Json, value: object) -> Iterator[str]:
    shown = repr(value)[:_SHOWN]
    kinds = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    if not any(_is(value, kind) for kind in kinds):
        yield f"{shown} is no {' or '.join(kinds)}"
        return
    if "enum" in schema and value not in schema["enum"]:
        yield f"{shown} is none of {', '.join(map(str, schema['enum']))}"
    if isinstance(value, str):
        # JSON's patterns are ECMA-262's: there ``$`` is the end alone, not a last line break as well.
        if "pattern" in schema and re.search(schema["pattern"].replace("$", r"\Z"), value) is None:
            yield f"{shown} does not match {schema['pattern']}"
        if len(value) < schema.get("minLength", 0):
            yield "it is empty"
    if isinstance(value, int | float):
        if value < schema.get("minimum", value) or value <= schema.get("exclusiveMinimum", value - 1):
            yield f"{shown} is too small"
        if not value <= schema.get("maximum", value):
            yield f"{shown} is too large"


def _is(value: object, kind: str) -> bool:
    """Tell whether a value is of a type of JSON's; true and false are no numbers."""
    return isinstance(value, _TYPES[kind]) and (kind == "boolean" or not isinstance(value, bool))
