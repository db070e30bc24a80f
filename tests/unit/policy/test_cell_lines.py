"""The file of a cell is found by its source, and its lines are those that were typed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ipykernel.compiler import get_tmp_hash_seed, murmur2_x86
from IPython.core.inputtransformer2 import TransformerManager

from sentinel_kernel.policy import cell_lines
from sentinel_kernel.policy.cell_lines import (
    MOST_CELLS,
    MOST_CHARACTERS,
    MOST_CONTINUED,
    CellLine,
    CellNames,
    file_name,
    is_cell_file,
    typed_line,
)


def file_of(code: str) -> str:
    return f"/tmp/ipykernel_7/{file_name(code)}.py"


@given(st.text(max_size=40))
def test_a_cells_file_is_named_as_ipykernel_names_it(code: str) -> None:
    try:
        expected = murmur2_x86(code, get_tmp_hash_seed())
    except UnicodeEncodeError:
        return
    assert file_name(code) == str(expected)


@pytest.mark.parametrize(
    "code",
    [
        "a\nMARK",
        "\n\n  \na\nMARK",
        "%matplotlib inline\n%time a\nMARK",
        "!echo a \\\n  b \\\n  c\nMARK",
        "\nx = !ls \\\n  -l\ny = %who \\\n  int\n\nMARK",
        "a = 1 + \\\n  2\nMARK",
        "  a\n  MARK",
        ">>> a\n>>> MARK",
        "import re\nre?\nMARK",
    ],
)
def test_a_line_is_the_one_that_was_typed(code: str) -> None:
    compiled = TransformerManager().transform_cell(code).split("\n")
    marked = next(number for number, text in enumerate(compiled, 1) if text == "MARK")
    typed, _ = typed_line(code, marked)
    assert "MARK" in code.split("\n")[typed - 1]


def test_a_line_below_a_command_of_several_lines_is_a_guess() -> None:
    assert typed_line("!a \\\n b\nc", 1) == (1, True)
    assert typed_line("!a \\\n b\nc", 2) == (3, False)
    assert typed_line("x\n!a \\\n b\nc", 2) == (2, True)


@pytest.mark.parametrize("top", ["", "%%time\n"])
def test_a_cells_lines_are_gone_through_once_however_deep_its_stacks_are(
    top: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    walked = []
    for name in ("_empty_lines", "_magic_line", "_body"):
        real = getattr(cell_lines, name)
        monkeypatch.setattr(cell_lines, name, lambda code, real=real: walked.append(code) or real(code))
    body = "!true \\\n x\n" + "\n" * 30_000 + "f()\n"
    names = CellNames()
    names.begin("a", top + body)
    found = [names.find(file_of(body), line) for line in range(29_900, 30_003)]
    assert [line and line.line for line in found] == [n + 1 + bool(top) for n in range(29_900, 30_003)]
    assert len(walked) <= 16


def test_of_very_many_lines_that_go_on_the_first_are_looked_at() -> None:
    code = "!a \\\n b\n" * (MOST_CONTINUED + 1) + "c"
    assert typed_line(code, MOST_CONTINUED) == (2 * MOST_CONTINUED - 1, False)
    assert typed_line("(\\\n)\n" * MOST_CONTINUED + "!a", 2 * MOST_CONTINUED + 1)[1]
    assert not typed_line("(\\\n)\n" * (MOST_CONTINUED + 1) + "!a", 2 * MOST_CONTINUED + 1)[1]


def test_the_running_cells_are_told_from_earlier_ones() -> None:
    names = CellNames()
    names.begin("a", "x = 1")
    names.end("a")
    names.begin("b", "y = 1\nz = 1")
    assert names.newest_running() == "b"
    assert names.find(file_of("x = 1"), 1) == CellLine("a", 1, 1, False, True)
    assert names.find(file_of("y = 1\nz = 1"), 2) == CellLine("b", 2, 2, True, True)
    assert names.find(file_of("y = 1\nz = 1"), 3) is None
    assert names.find("/usr/lib/python3.11/socket.py", 1) is None
    assert names.find("<timed exec>", 1) is None


def test_the_same_source_again_is_the_later_cell() -> None:
    names = CellNames()
    names.begin("a", "x = 1")
    names.end("a")
    names.begin("b", "x = 1")
    found = names.find(file_of("x = 1"), 1)
    assert found is not None
    assert (found.cell, found.running) == ("b", True)


def test_what_is_below_a_cell_magic_is_found_by_its_own_source() -> None:
    names = CellNames()
    names.begin("a", "%%capture\nx = 1\ny = 1")
    found = names.find(file_of("x = 1\ny = 1\n"), 2)
    assert found is not None
    assert (found.cell, found.line) == ("a", 3)


def test_cells_are_forgotten_when_there_are_too_many() -> None:
    names = CellNames()
    for number in range(MOST_CELLS + 1):
        names.begin(str(number), f"x = {number}")
    assert names.find(file_of("x = 0"), 1) is None
    assert names.find(file_of("x = 1"), 1) is not None
    names.begin("large", "#" * MOST_CHARACTERS)
    assert names.find(file_of("x = 256"), 1) is None
    assert names.find(file_of("#" * MOST_CHARACTERS), 1) is not None


@pytest.mark.parametrize(
    ("file", "cells"),
    [
        ("/tmp/ipykernel_1/2.py", True),
        ("/home/u/tmp/ipykernel_1/2.py", True),
        ("<timed exec>", True),
        ("/tmp/ipykernel_1/a.py", False),
        ("/tmp/ipykernel_x/2.py", False),
        ("/tmp/ipykernel_1/2", False),
        ("2.py", False),
        ("", False),
    ],
)
def test_the_files_of_cells(file: str, *, cells: bool) -> None:
    assert is_cell_file(file) is cells


def test_of_a_long_cell_the_beginning_and_the_name_are_enough() -> None:
    code = "x = 1\n" * 100
    names = CellNames()
    names.begin("a", code[:30], file_name(code), 100)
    found = names.find(file_of(code), 90)
    assert found is not None
    assert (found.line, found.sure) == (90, True)
    assert names.find(file_of(code), 101) is None


def test_the_line_of_a_cell_magic_itself_is_a_guess() -> None:
    names = CellNames()
    names.begin("a", "%%prun\nx = 1")
    found = names.find(file_of("%%prun\nx = 1"), 1)
    assert found is not None
    assert (found.line, found.sure) == (1, False)


@pytest.mark.parametrize("above", ["%sentinel_status\n", "%sentinel_limit wall=4\n# why\n\n"])
def test_what_is_below_a_cell_magic_has_its_lines_below_magics_of_the_host_too(above: str) -> None:
    names = CellNames()
    names.begin("a", f"{above}%%time\nx = 1\ny = 1")
    found = names.find(file_of("x = 1\ny = 1\n"), 2)
    assert found is not None
    assert (found.cell, found.line, found.sure) == ("a", above.count("\n") + 3, True)
    names.begin("b", f"{above}x = 1\n%%time\ny = 1")
    assert names.find(file_of("y = 1\n"), 1) is None  # no cell magic: something else stands above it
