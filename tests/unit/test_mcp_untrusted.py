"""What an assistant is told to take for data: every field of a record that the sandbox's code can word."""

from __future__ import annotations

from sentinel_kernel.mcp.cell_outputs import OF_VIOLATION, CellOutputs
from sentinel_kernel.policy.violation import Violation
from sentinel_kernel.record import field_names

_OURS = (
    "id version profile rule origin action outcome first_time_ms last_time_ms cause syscall number architecture values "
    "resource errno errno_name count confidence cell execution_count line started_line limit message hint"
)


def test_each_field_of_a_record_is_vouched_for_or_named_as_untrusted() -> None:
    named = {name.partition(".")[0].removesuffix("[]") for name in OF_VIOLATION}
    assert named | set(_OURS.split()) == set(field_names(Violation))
    assert not named & set(_OURS.split())


def test_a_cells_result_names_them() -> None:
    told = CellOutputs().to_json()["untrusted_fields"]
    assert {f"violations[].{name}" for name in OF_VIOLATION} | {"stdout", "error"} <= set(told)
