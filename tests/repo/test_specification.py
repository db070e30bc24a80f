"""SPECIFICATION.md and the tests agree: every test that it names is there, and every escape that is tried is in it."""

from __future__ import annotations

import ast
import functools
from pathlib import Path

import pytest
from specification import named_in, rows

TESTS = Path(__file__).resolve().parents[1]
PACKAGE = TESTS.parent / "sentinel_kernel"
PITFALLS = 62


@functools.cache
def _functions(path: Path) -> set[str]:
    return {node.name for node in ast.parse(path.read_text()).body if isinstance(node, ast.FunctionDef)}


def test_promises_are_numbered_one_by_one() -> None:
    numbers: dict[str, list[int]] = {}
    for letter, number, _, _ in rows():
        numbers.setdefault(letter, []).append(number)
    assert {
        letter: found for letter, found in numbers.items() if found != list(range(1, len(found) + 1))
    } == {}
    assert len(numbers[""]) == PITFALLS


def test_every_promise_names_tests_that_there_are() -> None:
    missing = []
    for letter, number, _, column in rows():
        named = named_in(column)
        if not named and letter:
            missing.append(f"{letter}{number} names no test")
        missing += [
            f"{letter}{number}: {file}::{name}"
            for file, name in named
            if not (TESTS / file).is_file() or name not in _functions(TESTS / file)
        ]
    assert missing == []


@pytest.mark.parametrize("path", sorted((TESTS / "escape").glob("test_*.py")), ids=lambda path: path.stem)
def test_every_escape_that_is_tried_stands_behind_a_promise(path: Path) -> None:
    promised = {test for letter, *_, column in rows() if letter for test in named_in(column)}
    tried = {name for name in _functions(path) if name.startswith("test_")}
    assert {name for name in tried if (f"escape/{path.name}", name) not in promised} == set()


def test_a_pitfalls_number_is_in_the_names_of_its_tests(request: pytest.FixtureRequest) -> None:
    own = [one for one in request.session.items if "let_through_in_one_place" in one.name]
    assert own
    assert all(one.name.endswith("[pitfall_1]") for one in own)


def test_a_call_is_let_through_in_one_place() -> None:
    """Whoever answers CONTINUE has the Linux kernel read again what a call points to."""
    uses = [
        (path.relative_to(PACKAGE).as_posix(), node.lineno)
        for path in PACKAGE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Name)
        and node.id == "USER_NOTIF_FLAG_CONTINUE"
        and isinstance(node.ctx, ast.Load)
    ]
    assert [place for place, _ in uses] == ["linux/seccomp.py"]


def test_the_supervisor_has_a_process_of_its_own_and_no_threads() -> None:
    """No interpreter's lock is shared with whoever is judged, and none inside."""
    started = [
        path.relative_to(PACKAGE).as_posix()
        for room in ("supervisor", "boot", "linux")
        for path in (PACKAGE / room).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in (
            [node.module or ""] if isinstance(node, ast.ImportFrom) else [one.name for one in node.names]
        )
        if name.split(".")[0] in ("threading", "_thread", "concurrent", "asyncio")
    ]
    assert started == []
