"""The published JSON Schema of a violation: it and the record name the same fields, and mean the same by them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

import sentinel_kernel.policy
from sentinel_kernel.errors import ProtocolError
from sentinel_kernel.policy import violation as record
from sentinel_kernel.policy.cause import CAUSES, STAGES
from sentinel_kernel.policy.decode import Argument
from sentinel_kernel.policy.hints import complete
from sentinel_kernel.policy.occurrence import limit_violation, make_occurrence
from sentinel_kernel.policy.violation import Frame, Process, Remedy, Surfaced, Text, Violation
from sentinel_kernel.record import field_names, replace
from tests.unit.policy.test_violation import completed, violation_of

FILE = Path(sentinel_kernel.policy.__file__).with_name("violation.schema.json")
SCHEMA: dict[str, Any] = json.loads(FILE.read_text())
VALIDATOR = Draft202012Validator(SCHEMA)
LIMITS = [name for name, cause in CAUSES.items() if cause.kind == "limit"]


def example(name: str) -> Violation:
    """Return a violation of one cause with every field filled that it may have."""
    if name == "call":
        made = violation_of(41, 2, 1)
    elif name in LIMITS:
        told = {
            "name": name,
            "stage": "refused",
            "used": 1.5,
            "allowed": 1 << 29,
            "unit": "bytes",
            "own": True,
        }
        made = limit_violation(told, id="x", time_ms=1700)
    else:
        made = make_occurrence(
            name, id="x", profile="strict", rule="r", time_ms=1700, errno=2, subject=("path", "/etc/\x1b")
        )
    return replace(
        complete(made),
        cell="m1",
        execution_count=3,
        line=2,
        source="x()",
        function="f",
        library=Frame("requests/adapters.py", 5, "send"),
        thread="Thread-1",
        started_line=1,
        process=Process(1, "python", is_worker=True),
        error=Surfaced("OSError", "ENOENT"),
        remedies=(Remedy("code", "text", Text("a", "b"), "print(1)"), Remedy("command", "pip install x")),
    )


def test_the_schema_is_one() -> None:
    Draft202012Validator.check_schema(SCHEMA)


@pytest.mark.parametrize("name", CAUSES)
def test_each_cause_s_example_is_valid_and_is_read_back(name: str) -> None:
    for made in (
        example(name),
        replace(example(name), process=Process(1, "x", is_worker=False), remedies=()),
    ):
        document = json.loads(json.dumps(made.to_json()))
        VALIDATOR.validate(document)
        assert Violation.from_json(document) == made


@pytest.mark.parametrize(
    ("kind", "schema"),
    [
        (Violation, SCHEMA),
        (Argument, SCHEMA["$defs"]["argument"]),
        (record.Process, SCHEMA["$defs"]["process"]),
        (record.Text, SCHEMA["$defs"]["text"]),
        (record.Frame, SCHEMA["$defs"]["frame"]),
        (record.Limit, SCHEMA["$defs"]["limit"]),
        (record.Subject, SCHEMA["$defs"]["subject"]),
        (record.Surfaced, SCHEMA["$defs"]["error"]),
        (record.Remedy, SCHEMA["$defs"]["remedy"]),
    ],
)
def test_schema_and_record_have_the_same_fields(kind: type[Any], schema: dict[str, Any]) -> None:
    assert list(schema["properties"]) == list(field_names(kind)) == schema["required"]
    assert schema["additionalProperties"] is False


def test_schema_and_record_know_the_same_words() -> None:
    assert SCHEMA["properties"]["cause"]["enum"] == list(CAUSES)
    assert SCHEMA["properties"]["version"] == {"const": record.VERSION}
    assert SCHEMA["$defs"]["limit"]["properties"]["stage"]["enum"] == list(STAGES)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("id", 1), ("id", "x" * 5000), ("version", 1), ("number", True), ("number", None), ("count", 1.5),
        ("errno", "1"), ("action", "LIMIT"), ("outcome", ""), ("confidence", "maybe"), ("values", []),
        ("values", {"a": 1}), ("arguments", [1]), ("process", {"pid": 1}), ("message", "text"), ("cause", "bad"),
        ("remedies", [{"kind": "profile", "text": "x", "why": None, "code": None}]), ("remedies", [{}] * 20),
        ("source", "x" * 201), ("function", 1), ("library", {"file": "a"}), ("thread", "t" * 300),
        ("started_line", "1"), ("subject", {"kind": "thing", "text": "x"}), ("error", {"ename": "E"}),
        ("limit", {"name": "memory"}), ("extra", 1), ("process", None), ("count", 1 << 70),
    ],
)  # fmt: skip
def test_schema_and_reader_refuse_the_same(key: str, value: object) -> None:
    document = {**completed(), key: value}
    assert not VALIDATOR.is_valid(document)
    with pytest.raises(ProtocolError):
        Violation.from_json(document)


def test_an_action_belongs_to_its_cause() -> None:
    document = {**example("path_hidden").to_json(), "action": "LIMIT"}
    assert not VALIDATOR.is_valid(document)
    with pytest.raises(ProtocolError):
        Violation.from_json(document)
