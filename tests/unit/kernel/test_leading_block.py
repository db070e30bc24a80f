"""Host and worker agree on which lines of a cell are the host's."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sentinel_kernel.worker.leading_block import parse_leading_block


def magics(source: str) -> list[tuple[int, str, str]]:
    return [(line.line_number, line.name, line.argument_text) for line in parse_leading_block(source).lines]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("%sentinel_status", [(1, "sentinel_status", "")]),
        ("%sentinel_profile web\nx = 1", [(1, "sentinel_profile", "web")]),
        (
            "\n# first\n%sentinel_status\n\n%sentinel_reset\nx",
            [(3, "sentinel_status", ""), (5, "sentinel_reset", "")],
        ),
        ("%sentinel_profile   web \t# the web\r\nx\r\n", [(1, "sentinel_profile", "web")]),
        ("%sentinel_help#x", []),
        ("%sentinel_help # x", [(1, "sentinel_help", "")]),
        ("  %sentinel_status\n  x = 1", [(1, "sentinel_status", "")]),
        ("%sentinel_status\n    %sentinel_reset", [(1, "sentinel_status", "")]),
        ("x = 1\n%sentinel_status", []),
        ("%%sentinel_status\nx", []),
        ("%%time\n%sentinel_status", []),
        ("%sentinel_status?", []),
        ("%sentinel_", [(1, "sentinel_", "")]),
        ("%sentinel", []),
        ("print('%sentinel_status')", []),
        ("'''\n%sentinel_status\n'''", []),
        ("%sentinel_profile \\\nweb", [(1, "sentinel_profile", "\\")]),
        ("# \u2028%sentinel_reset", []),
        ("%sentinel_\u0430", []),
        ("", []),
    ],
)
def test_the_block_ends_at_the_first_other_line(source: str, expected: list[tuple[int, str, str]]) -> None:
    assert magics(source) == expected


def test_the_offset_is_where_the_code_begins() -> None:
    source = "# a\n%sentinel_status\r\n\nx = 1"
    block = parse_leading_block(source)
    assert source[block.end_offset :] == "\nx = 1"
    assert parse_leading_block("%sentinel_status").end_offset == len("%sentinel_status")
    assert parse_leading_block("x = 1").end_offset == 0


@given(st.text(alphabet="%sentinel_\n\r\t #?\\ax1\u2028", max_size=60))
def test_every_text_has_a_block_that_lies_inside_it(source: str) -> None:
    block = parse_leading_block(source)
    assert 0 <= block.end_offset <= len(source)
    for line in block.lines:
        assert f"%{line.name}" in source.split("\n")[line.line_number - 1]
    assert block == parse_leading_block(source[: block.end_offset])
