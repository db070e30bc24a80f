"""Errors that came from a refused host are told from those that did not."""

from __future__ import annotations

from typing import Any

import pytest

from sentinel_kernel.policy.failure_report import Failure, read_report
from sentinel_kernel.policy.host_attribution import refused_host
from sentinel_kernel.policy.occurrence import host_refusal
from sentinel_kernel.policy.violation import Process
from sentinel_kernel.record import replace

NOW = 1_000_000
ENETUNREACH = 101


def report(base: str = "OSError", by: str = "call", line: int = 2, **facts: Any) -> Failure:
    entry = {"ename": base, "base": base, "by": by, "lines": [[line, "f", "cell"]], **facts}
    return read_report({"thread": 1, "chain": [entry]})


def refusal(age_ms: int = 10, line: int | None = 2, errno: int | None = ENETUNREACH, **values: Any) -> Any:
    made = host_refusal(
        "h.example.org", 80, "not-listed", id="v", profile="web", time_ms=NOW - age_ms, errno=errno
    )
    return replace(made, line=line, **values)


def sure(failure: Failure, *violations: Any) -> bool | None:
    found = refused_host(failure.chain[0], failure, violations, NOW)
    return None if found is None else found[1]


@pytest.mark.parametrize(
    ("failure", "violation", "expected"),
    [
        (report("gaierror", host="h.example.org", errno=-5), refusal(line=None, errno=None), True),
        (report("gaierror", host="H.example.org.", errno=-3), refusal(5000, line=None, errno=None), True),
        (report("gaierror", host="other.example.org", errno=-5), refusal(line=None, errno=None), None),
        (report("gaierror", errno=-5), refusal(line=None, errno=None), False),
        (report("gaierror", errno=-5), refusal(5000, line=None, errno=None), None),
        (report("gaierror", host="h.example.org", errno=-5), refusal(100_000, line=None, errno=None), None),
        (report("gaierror", "raise", host="h.example.org", errno=-5), refusal(line=None, errno=None), None),
        (report(errno=ENETUNREACH), refusal(), True),
        (report(by="standard", errno=ENETUNREACH), refusal(), True),
        (report(errno=ENETUNREACH), refusal(line=None), False),
        (report(errno=ENETUNREACH, line=3), refusal(), None),
        (report(errno=2), refusal(), None),
        (report(by="raise", errno=ENETUNREACH), refusal(), None),
        (report(by="library"), refusal(line=None, errno=None), False),
        (report(by="library"), refusal(5000, line=None, errno=None), None),
        # A busy machine has taken its time: the host's name is no matter of that.
        (report(by="library", host="h.example.org"), refusal(5000, line=None, errno=None), False),
        (report(by="library", host="x.example.org"), refusal(5000, line=None, errno=None), None),
        (report(by="library", host="h.example.org"), refusal(100_000, line=None, errno=None), None),
        (report("OperationalError", "library"), refusal(), False),
        (report("RuntimeError", "library"), refusal(), None),
        (report("CalledProcessError", "standard"), refusal(line=None), False),
        (
            report("CalledProcessError", "standard"),
            refusal(line=None, process=Process(7, "python3", is_worker=True)),
            None,
        ),
    ],
)
def test_an_error_is_of_a_refusal_by_host_errno_and_line(
    failure: Failure, violation: Any, expected: bool | None
) -> None:
    assert sure(failure, violation) is expected


def test_the_certain_one_goes_before_a_later_one() -> None:
    other = replace(refusal(1, line=None, errno=None), id="w", values={"host": "x.example.org"})
    found = refused_host(
        (failure := report(errno=ENETUNREACH)).chain[0],
        failure,
        [refusal(500), replace(other, errno=ENETUNREACH)],
        NOW,
    )
    assert found is not None
    assert found[0].id == "v"
