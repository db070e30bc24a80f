"""The tests keep their own rules: honest skips, and no sleep where a condition can be waited for."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import TYPE_CHECKING

import lacking
import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

TESTS = Path(__file__).resolve().parents[1]
# What cells, attacks and machines run, and what measures: they sleep because that is what is looked at.
PROGRAMS = ("artifacts", "benchmarks", "suites", "victims", "vm/inside", "limits/programs", "ecosystem/cells")
DRIVERS = tuple(str(path.relative_to(TESTS)) for path in TESTS.glob("*/drivers"))

# A skip that is none for want of something; all others go through support/lacking.py, and fail in CI.
SKIPS = {
    "escape/test_calls.py": "machine",  # calls by the numbers of one kind of processor
    "escape/test_host_resources.py": "machine, and what would harm root's other processes: tried as ordinary user",
    "escape/test_memory_hidden.py": "machine",
    "kernel/conftest.py": "what plain ipykernel does not do, in tests that run both",
    "limits/test_backend.py": "control groups of version 2 have a machine of their own: vm",
    "mcp/test_asking.py": "an answer that one of the protocol's two forms has no message for",
    "sandbox/test_landlock_rung.py": "root's own side, and the ordinary user's",
    "sandbox/test_rules_driven.py": "machine",
    "support/lacking.py": "the one place",
    "unit/worker/test_failed_call.py": "an older Python does less",
    "unit/worker/test_late_dates.py": "an older Python does less",
}
# Whoever sleeps, by file and function; asyncio.sleep(0) only lets others run.
SLEEPS = {
    ("support/waiting.py", "wait_until"),  # the pace of looking, with a deadline
    ("support/flooding.py", "flood"),  # a client that stalls: the stall itself
}


def sources() -> list[Path]:
    excluded = tuple(TESTS / name for name in PROGRAMS + DRIVERS)
    return [path for path in sorted(TESTS.rglob("*.py")) if not any(map(path.is_relative_to, excluded))]


def calls(tree: ast.AST, function: str = "") -> list[tuple[str, ast.Call]]:
    """Return every call, with the name of the function that it is in."""
    found: list[tuple[str, ast.Call]] = []
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            found += calls(node, node.name)
            continue
        if isinstance(node, ast.Call):
            found.append((function, node))
        found += calls(node, function)
    return found


def used(names: set[str], allowed: Callable[[str, str], bool]) -> list[str]:
    """Return where a function of one of these names is called and may not be."""
    return [
        f"{path.relative_to(TESTS)}:{node.lineno}: {ast.unparse(node)[:60]}"
        for path in sources()
        if any(
            name in (text := path.read_text()) for name in names
        )  # most have none: parsing them takes seconds
        for function, node in calls(ast.parse(text))
        if ast.unparse(node.func).rpartition(".")[2] in names
        and not allowed(str(path.relative_to(TESTS)), function)
        and ast.unparse(node) != "asyncio.sleep(0)"
    ]


def test_what_is_missing_is_never_hidden_from_ci() -> None:
    found = used({"skip", "skipif", "importorskip"}, lambda name, _: name in SKIPS)
    assert not found, f"skip by way of support/lacking.py: {found}"


def test_nothing_sleeps_where_a_condition_can_be_waited_for() -> None:
    found = used({"sleep"}, lambda name, function: (name, function) in SLEEPS)
    assert not found, f"wait by way of support/waiting.py: {found}"


@pytest.mark.parametrize("must_run", [True, False])
def test_what_is_lacking_fails_where_every_test_must_run(
    monkeypatch: pytest.MonkeyPatch, *, must_run: bool
) -> None:
    monkeypatch.setattr(lacking, "MUST_RUN", must_run)
    monkeypatch.setattr(lacking.os, "geteuid", lambda: 1000)
    outcome = pytest.fail.Exception if must_run else pytest.skip.Exception
    with pytest.raises(outcome, match=r"no-such-program is not installed \(apt-get install its-package\)"):
        lacking.need_program("no-such-program", package="its-package")
    with pytest.raises(outcome, match=r"no_such_module: No module named"):
        lacking.need_module("no_such_module")
    with pytest.raises(outcome, match="a network"):
        lacking.need_root("a network")
    with pytest.raises(pytest.skip.Exception):
        lacking.roots_side()
    with pytest.raises(pytest.skip.Exception, match="not in CI"):
        lacking.lacking_beyond_ci("torch", "no torch")
