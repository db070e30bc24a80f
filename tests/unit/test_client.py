"""What programs read of violations: from notebooks, outputs and messages, and from nothing that only looks alike."""

from __future__ import annotations

from typing import Any

import nbformat

from sentinel_kernel.client import VIOLATION_TYPE, Violation, violations_of
from sentinel_kernel.policy.violation import VERSION, Process

VIOLATION: dict[str, Any] = Violation(
    id="v1",
    version=VERSION,
    profile="strict",
    rule="NOTIFY by default",
    origin="default",
    action="NOTIFY",
    outcome="refused",
    first_time_ms=1,
    last_time_ms=1,
    syscall="socket",
    number=41,
    architecture="x86_64",
    process=Process(7, "python3", is_worker=True),
).to_json()


def display(record: Any, kind: str = "display_data", **more: Any) -> dict[str, Any]:
    return {
        "output_type": kind,
        "data": {VIOLATION_TYPE: record, "text/plain": "[SEMANTIC]"},
        "metadata": {},
        **more,
    }


def test_a_notebooks_records_are_typed_and_each_is_there_once_in_its_last_state() -> None:
    outputs = [
        nbformat.v4.new_output("stream", text="[SEMANTIC] printed"),
        nbformat.v4.new_output("display_data", {VIOLATION_TYPE: {**VIOLATION, "id": "a"}}),
        nbformat.v4.new_output("display_data", {VIOLATION_TYPE: {**VIOLATION, "id": "a", "count": 3}}),
    ]
    cells = [
        nbformat.v4.new_markdown_cell("# A"),
        nbformat.v4.new_code_cell("x", outputs=outputs),
        nbformat.v4.new_code_cell(
            "y", outputs=[nbformat.v4.new_output("display_data", {VIOLATION_TYPE: VIOLATION})]
        ),
    ]
    notebook = nbformat.v4.new_notebook(cells=cells)
    first, second = violations_of(notebook)
    assert (first.id, first.count, first.syscall) == ("a", 3, "socket")
    assert second.id == VIOLATION["id"]
    assert [one.id for one in violations_of(cells[1])] == ["a"]
    assert [one.id for one in violations_of(cells[2].outputs)] == [VIOLATION["id"]]
    assert violations_of(nbformat.v4.new_notebook()) == []


def test_messages_are_read_as_clients_hand_them_out() -> None:
    content = {"data": {VIOLATION_TYPE: VIOLATION}, "metadata": {}, "transient": {}}
    update = {"data": {VIOLATION_TYPE: {**VIOLATION, "count": 7}}, "metadata": {}, "transient": {}}
    messages = [
        {"header": {"msg_type": "status"}, "content": {"execution_state": "busy"}},
        {"header": {"msg_type": "display_data"}, "content": content},
        {"msg_type": "update_display_data", "content": update},
    ]
    assert [one.count for one in violations_of(messages)] == [7]


def test_what_is_no_record_of_this_version_is_passed_over() -> None:
    strange: list[Any] = [
        display({**VIOLATION, "version": 1}),
        display({**VIOLATION, "more": 1}),
        display({"id": "x"}),
        display("text"),
        display([VIOLATION]),
        display(VIOLATION, kind="error"),
        display(VIOLATION, kind="stream"),
        {"output_type": "display_data", "data": {"text/plain": VIOLATION_TYPE}},
        {"output_type": "display_data", "data": [VIOLATION_TYPE]},
        None,
        "text",
        7,
    ]
    assert violations_of(strange) == []
    assert len(violations_of([*strange, display(VIOLATION)])) == 1  # positive control
