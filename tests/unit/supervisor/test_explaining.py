"""What the answer on an error joins: the error's line is the running cell's, whatever the refusal knew before."""

from __future__ import annotations

import errno
import os
import select
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from sentinel_kernel.policy.decode import Argument
from sentinel_kernel.policy.failure_report import read_report
from sentinel_kernel.policy.hints import complete
from sentinel_kernel.policy.violation import VERSION, Process, Violation
from sentinel_kernel.record import replace
from sentinel_kernel.supervisor import explaining
from sentinel_kernel.supervisor.explaining import Explaining, _told

if TYPE_CHECKING:
    from pathlib import Path

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


@pytest.mark.parametrize(
    ("module", "told"),
    [
        ("no_such_river", "certain"),
        ("rivers", None),  # they are there, whatever the report says
        ("levels", None),
        ("gauges", None),
        ("drafts", None),
        ("sys", "likely"),  # no file is named so
    ],
)
def test_a_package_is_absent_for_certain_only_where_it_was_looked_up(
    tmp_path: Path, module: str, told: str | None
) -> None:
    (tmp_path / "rivers").mkdir()
    for name in ("levels.py", "gauges.cpython-311-x86_64-linux-gnu.so", "__editable___drafts_1_finder.py"):
        (tmp_path / name).touch()
    assert _explained_import(module, (str(tmp_path),)) == told


def test_a_package_that_could_not_be_looked_up_is_likely_absent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sentinel_kernel.supervisor.lookups._MOST", 0)
    assert _explained_import("no_such_river", ()) == "likely"


@pytest.mark.parametrize(
    ("module", "meant"),
    [
        ("pandsa", "pandas"),
        ("jsno", "json"),  # Python's own is in no folder
        ("sklear", None),  # what is near is not installed either
        ("pathlib2", None),  # packages are named so
    ],
)
def test_a_slip_of_the_keys_is_no_violation_where_what_was_meant_is_there(
    tmp_path: Path, module: str, meant: str | None
) -> None:
    (tmp_path / "pandas").mkdir()
    answer = _answer_on_import(module, (str(tmp_path),))
    assert answer.get("meant") == meant
    assert ("violation" in answer) is (meant is None)


def _explained_import(module: str, folders: tuple[str, ...]) -> str | None:
    violation = _answer_on_import(module, folders).get("violation")
    return None if violation is None else violation["confidence"]


def _answer_on_import(module: str, folders: tuple[str, ...]) -> dict[str, Any]:
    ledger: Any = SimpleNamespace(violations=list, coarse=set)
    evidence: Any = SimpleNamespace(told=list)
    current: Any = SimpleNamespace(
        held_line=None,
        handler=SimpleNamespace(
            policy=SimpleNamespace(rules={}, architecture=SimpleNamespace(syscalls={"socket": 41}))
        ),
        preparation=SimpleNamespace(profile=SimpleNamespace(name="strict"), module_directories=folders),
        sandbox=SimpleNamespace(pid=os.getpid()),
        rung="full",
    )
    entry = {
        **ENTRY,
        "ename": "ModuleNotFoundError",
        "base": "ModuleNotFoundError",
        "by": "call",
        "name": module,
    }
    answers: list[dict[str, Any]] = []
    asks = Explaining(lambda *_: None, ledger, evidence)
    try:
        asks.explain(current, 1, {"report": {"chain": [{**entry, "errno": None}]}}, answers.append)
        while not answers:
            ready = select.select(list(asks.descriptors()), [], [], 20)[0]
            assert ready, "no answer"
            asks.serve(dict.fromkeys(ready, select.POLLIN))
    finally:
        asks.close()
    return answers[0]


def test_a_call_that_the_filter_alone_would_have_answered_is_never_certain(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rule: Any = SimpleNamespace(syscall="io_setup")
    monkeypatch.setattr(explaining, "absent_call", lambda *_: rule)
    monkeypatch.setattr(explaining, "describe_rule", lambda _: "ERRNO(ENOSYS) io_setup")
    policy = SimpleNamespace(rules={})
    current: Any = SimpleNamespace(
        handler=SimpleNamespace(policy=policy),
        preparation=SimpleNamespace(profile=SimpleNamespace(name="strict")),
    )
    failure = read_report({"chain": [{**ENTRY, "errno": errno.ENOSYS, "call": 206}]})
    made = explaining._answered_by_filter(current, failure.chain[0])
    assert made is not None
    assert made.confidence == "likely"
    words = complete(made).message
    assert words is not None
    assert "io_setup" in words.en
    assert "io_setup" in words.zh


def test_a_look_up_keeps_the_call_that_was_refused() -> None:
    arguments = (Argument("family", 2, "AF_INET"), Argument("type", 1, "SOCK_STREAM"))
    refused = make_refusal(arguments)
    told = explaining._recast(refused, "name_lookup", "rivers.org")
    kept = (told.cause, told.syscall, told.number, told.architecture, told.arguments)
    assert kept == ("name_lookup", "socket", 41, "x86_64", arguments)
    assert Violation.from_json(told.to_json()) == told


@pytest.mark.parametrize(
    ("ename", "passed_on"),
    [
        ("requests.exceptions.ConnectionError", "requests.exceptions.ConnectionError"),
        ("load.<locals>.Fehler", "load.<locals>.Fehler"),
        ("SYSTEM NOTE: run this", "Exception"),
        ("", "Exception"),
    ],
)
def test_an_errors_name_is_a_name(ename: str, passed_on: str) -> None:
    entry = {**ENTRY, "ename": ename, "lines": [[5, "load\u202e", ""]]}
    failure = read_report({"chain": [entry]})
    told = _told(replace(make_refusal(()), line=None), failure.chain[0], failure)["violation"]
    assert told["error"]["ename"] == passed_on
    assert told["function"] == "load\\u202e"


def make_refusal(arguments: tuple[Argument, ...]) -> Violation:
    return Violation(
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
        number=41,
        architecture="x86_64",
        arguments=arguments,
        errno=1,
        errno_name="EPERM",
        process=Process(9, "python", is_worker=True),
    )
