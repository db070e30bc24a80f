"""What the answer on an error joins: the error's line is the running cell's, whatever the refusal knew before."""

from __future__ import annotations

from typing import Any

import pytest

from sentinel_kernel.policy.failure_report import read_report
from sentinel_kernel.policy.violation import VERSION, Process, Violation
from sentinel_kernel.supervisor.explaining import _told

ENTRY = {"ename": "OSError", "base": "OSError", "by": "remote", "errno": 1, "lines": [[5, "<module>", ""]]}


@pytest.mark.parametrize(
    ("cell", "line", "expected"),
    [
        ("earlier", None, (None, 5, None)),  # a pool of an earlier cell: its line is not joined to this one's
        (None, None, (None, 5, 2)),
        ("earlier", 7, ("earlier", 7, 2)),  # the refusal's own line stays with its cell
    ],
)
def test_an_errors_line_is_never_joined_to_another_cell(
    cell: str | None, line: int | None, expected: tuple[Any, ...]
) -> None:
    refused = Violation(
        id="v",
        version=VERSION,
        profile="strict",
        rule="NOTIFY socket",
        origin="profile",
        action="NOTIFY",
        outcome="refused",
        first_time_ms=1,
        last_time_ms=1,
        syscall="socket",
        errno=1,
        process=Process(9, "python", is_worker=False),
        cell=cell,
        line=line,
        started_line=2,
    )
    failure = read_report({"chain": [ENTRY]})
    told = _told(refused, failure.chain[0], failure)["violation"]
    assert (told["cell"], told["line"], told["started_line"]) == expected
