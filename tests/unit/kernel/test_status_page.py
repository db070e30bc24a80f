"""The rows of the status page: what is in force, to the digit."""

from __future__ import annotations

import os
from types import SimpleNamespace
from typing import Any

import pytest

from sentinel_kernel.kernel.displays import Displays
from sentinel_kernel.kernel.status_page import StatusPage


def _rows(**changes: Any) -> dict[str, str]:
    settings: Any = SimpleNamespace(language="en", lab=None, workspace="/w", profile_directories=())
    lifecycle: Any = SimpleNamespace(
        state=SimpleNamespace(value="ready"), profile="strict", generation=1, problem=None, ready={}
    )
    displays: Any = SimpleNamespace(refusals=0, others=0)
    for name, value in changes.items():
        owner = next(one for one in (lifecycle, displays, settings) if hasattr(one, name))
        setattr(owner, name, value)
    return dict(StatusPage(settings, lifecycle, displays).rows())


@pytest.mark.parametrize(
    ("sizes", "shown"),
    [
        ({"cpu_count": 2, "cpu_quota": 1.5}, "CPUs 1.5"),
        ({"cpu_count": 1, "cpu_quota": 0.25}, "CPUs 0.25"),
        ({"cpu_count": 2, "cpu_quota": None}, "CPUs 2"),
        ({"cpu_count": 99, "cpu_quota": None}, "CPUs 2"),  # what there are
        ({"pids": 1048576}, "processes 1048576"),
    ],
)
def test_processors_are_shown_as_they_are_in_force(
    sizes: dict[str, Any], shown: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: {0, 1})
    assert shown in _rows(ready={"sizes": sizes})["limits"].split(", ")


def test_limits_and_failures_are_counted_apart_from_refused_calls() -> None:
    rows = _rows(refusals=11)
    assert rows["calls refused so far"] == "11"
    assert "limits and failures so far" not in rows
    assert _rows(others=2)["limits and failures so far"] == "2"


def test_only_what_the_supervisor_reports_as_refused_counts_as_a_call() -> None:
    loop: Any = SimpleNamespace()
    outbox: Any = SimpleNamespace(told=SimpleNamespace(note=lambda _: None))
    displays = Displays(loop, outbox, "en", dict)
    displays.refused({"id": "a", "count": 3}, None)
    displays.refused({"id": "a", "count": 7}, None)
    displays.refused({"id": "a", "count": 7, "line": 2}, None)
    displays.refused({"id": "b"}, None)
    displays.violation({"id": "limit", "count": 1}, None)
    displays.violation({"id": "path", "count": 1}, None)
    assert (displays.refusals, displays.others) == (8, 2)


def test_a_folder_that_was_not_wholly_looked_at_for_homes_is_named() -> None:
    ready = {"notices": ["workspace-is-home", "homes-unseen:/backups\x1b"]}
    assert _rows(ready=ready)["note"].startswith("/backups\\x1b is too large to be looked through for homes")
    assert _rows(ready=ready, language="zh")["注意"].startswith("/backups\\x1b 过大")
    assert "note" not in _rows(ready={"notices": ["workspace-is-home"]})
