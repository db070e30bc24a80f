"""Style, types and import contracts hold for the whole tree."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "sentinel_kernel"
MODULES = sorted(PACKAGE.rglob("*.py"))
MAXIMUM_LINES = 400


def run(*command: str) -> None:
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"


@pytest.mark.parametrize("arguments", [("check",), ("format", "--check")], ids=["rules", "format"])
def test_ruff_has_nothing_to_say(arguments: tuple[str, ...]) -> None:
    run(sys.executable, "-m", "ruff", *arguments, "--no-cache", ".")


def test_types_hold_strictly() -> None:
    run(sys.executable, "-m", "mypy")


def test_imports_go_one_way_through_the_rooms() -> None:
    run(str(Path(sys.executable).parent / "lint-imports"), "--no-cache")


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_module_has_one_responsibility_and_says_it(path: Path) -> None:
    source = path.read_text()
    assert len(source.splitlines()) <= MAXIMUM_LINES
    docstring = ast.get_docstring(ast.parse(source))
    assert docstring, "no docstring"
    first = docstring.splitlines()[0]
    assert first.endswith("."), f"the first line is not one sentence: {first!r}"


def test_no_module_is_a_room_for_what_fits_nowhere() -> None:
    names = {part for path in MODULES for part in re.split(r"[/_.]", str(path.relative_to(ROOT)))}
    assert not names & {"utils", "util", "helpers", "helper", "common", "manager", "misc"}


def test_nothing_unfinished_is_shipped() -> None:
    marks = re.compile(r"\b(TODO|FIXME|XXX|HACK|NotImplementedError)\b")
    found = [
        f"{path.relative_to(ROOT)}:{number}"
        for path in MODULES
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if marks.search(line)
    ]
    assert not found


def test_importing_the_package_imports_nothing() -> None:
    code = (
        "import sys; before = set(sys.modules); import sentinel_kernel; print(*(set(sys.modules) - before))"
    )
    done = subprocess.run(
        [sys.executable, "-P", "-c", f"import sys; sys.path.insert(0, {str(ROOT)!r}); {code}"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == ["sentinel_kernel"]


def test_no_path_of_one_machine_is_in_the_tree() -> None:
    files = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout.split(
        b"\0"
    )
    place = f"{ROOT}/".encode()
    found = [
        name.decode()
        for name in files
        if name and (path := ROOT / name.decode()).is_file() and place in path.read_bytes()
    ]
    assert not found
