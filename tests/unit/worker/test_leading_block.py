"""Host and worker agree on which lines of a cell are the host's, and IPython executes those first."""

from __future__ import annotations

import ast
import warnings

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sentinel_kernel.worker.leading_block import dry_run_line, parse_leading_block


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
        ("# one\r\n\r\n%sentinel_status\r\nx = 1\r\n", [(3, "sentinel_status", "")]),
        ("%sentinel_help#x", []),
        ("%sentinel_help # x", [(1, "sentinel_help", "")]),
        ("%sentinel_help # why?", [(1, "sentinel_help", "")]),
        ("%sentinel_", [(1, "sentinel_", "")]),
        ("%sentinel", []),
        ("", []),
    ],
    ids=repr,
)
def test_leading_lines_are_the_hosts(source: str, expected: list[tuple[int, str, str]]) -> None:
    assert magics(source) == expected


@pytest.mark.parametrize(
    "source",
    [
        "x = 1\n%sentinel_status",
        "print('%sentinel_status')",
        "'''\n%sentinel_status\n'''",
        "x = %sentinel_status",
        "sentinel_status",
        "%ls\n%sentinel_status",
        "%%time\n%sentinel_status",
        "%%sentinel_status\nx",
        "%%sentinel_status",
        ">>> %sentinel_status",
        "In [1]: %sentinel_status",
        ";%sentinel_status",
        "!%sentinel_status",
        "% sentinel_status",
    ],
)
def test_any_other_line_ends_the_block(source: str) -> None:
    assert magics(source) == []


@pytest.mark.parametrize(
    "source",
    [
        "%sentinel_status?",
        "%sentinel_status??",
        "?%sentinel_status",
        "%sentinel_profile web?",
        "%sentinel_a ?",
    ],
)
def test_asking_for_help_runs_nothing(source: str) -> None:
    assert magics(source) == []


def test_a_magic_may_be_indented_as_the_whole_cell_is() -> None:
    assert magics("  %sentinel_status\n  x = 1") == [(1, "sentinel_status", "")]
    assert magics("\t# a\n\t%sentinel_status") == [(2, "sentinel_status", "")]
    assert magics("  # a\n%sentinel_status") == [(2, "sentinel_status", "")]
    assert magics("%sentinel_status\n    %sentinel_reset") == [(1, "sentinel_status", "")]
    assert magics("  %sentinel_status\nx = 1") == []


def test_a_backslash_continues_a_magic_but_no_comment() -> None:
    assert magics("%sentinel_profile \\\nweb\n%sentinel_status") == [
        (1, "sentinel_profile", "web"),
        (3, "sentinel_status", ""),
    ]
    assert magics("# a \\\n%sentinel_status") == [(2, "sentinel_status", "")]
    # IPython sees no continuation before a carriage return or at the very end.
    assert magics("%sentinel_profile \\\r\nweb") == [(1, "sentinel_profile", "\\")]
    assert magics("%sentinel_profile \\") == [(1, "sentinel_profile", "\\")]
    assert magics("%sentinel_profile \\\n") == [(1, "sentinel_profile", "\\")]


@pytest.mark.parametrize(
    "source",
    [
        "# \u2028%sentinel_reset",
        "# a\rx = 1\n%sentinel_reset",
        "%sentinel_status # a\x0cx = 1\n%sentinel_reset",
        "%sentinel_\u0430",
        "\ufeff%sentinel_status",
        "%sentinel_status\tweb",
    ],
)
def test_nothing_hides_behind_unusual_characters(source: str) -> None:
    assert magics(source) == []


def test_the_offset_is_where_the_code_begins() -> None:
    source = "# a\n%sentinel_status\r\n\nx = 1"
    assert source[parse_leading_block(source).end_offset :] == "\nx = 1"
    continued = "%sentinel_profile \\\n web\nx = 1"
    assert continued[parse_leading_block(continued).end_offset :] == "x = 1"
    assert parse_leading_block("%sentinel_status").end_offset == len("%sentinel_status")
    assert parse_leading_block("x = 1").end_offset == 0


def executed_first(source: str) -> list[str] | None:
    """Return the `%sentinel_*` magics IPython calls before anything else; None where the cell is no Python."""
    from IPython.core.inputtransformer2 import TransformerManager

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(TransformerManager().transform_cell(source))
    except (SyntaxError, ValueError):
        return None
    names = []
    for statement in tree.body:
        match statement:
            case ast.Expr(ast.Call(ast.Attribute(attr="run_line_magic"), [ast.Constant(str(name)), *_])):
                if not name.startswith("sentinel_"):
                    break
                names.append(name)
            case _:
                break
    return names


PIECES = [
    *("%sentinel_a", "%sentinel_b", "%%time", "%ls", "web", "x = 1", "pass", " # c", "#"),
    *(" ", "  ", "\n", "\n", "\r\n", "\t", "\\", "\\\n", "?", "'", "(", "'''", ";"),
    *(">>> ", "\ufeff", "\u2028", "\x0c", "\r"),
]


@given(st.lists(st.sampled_from(PIECES), max_size=8).map("".join))
@example("%sentinel_a\t\\\n  ")
@example(" # c\rpass\n%sentinel_a\r\n")
@example("%sentinel_a %sentinel_b;\t%ls?")
def test_ipython_executes_first_what_the_host_ran(source: str) -> None:
    ours = [line.name for line in parse_leading_block(source).lines]
    theirs = executed_first(source)
    assert theirs is None or ours == theirs[: len(ours)]


@given(st.text(alphabet="%sentinel_\n\r\t #?\\ax1\u2028", max_size=60))
def test_every_text_has_a_block_that_lies_inside_it(source: str) -> None:
    block = parse_leading_block(source)
    assert 0 <= block.end_offset <= len(source)
    for line in block.lines:
        assert f"%{line.name}" in source.split("\n")[line.line_number - 1]
        assert line.line_number <= source[: block.end_offset].count("\n") + 1


@pytest.mark.parametrize(
    ("source", "known"),
    [
        ("%%sentinel_dry_run\nx", (1, "")),
        ("%%sentinel_dry_run  \r\nx", (1, "")),
        ("\n\n%%sentinel_dry_run\nx", (3, "")),
        ("%sentinel_status\n\n%%sentinel_dry_run --all\nx", (3, "--all")),
        ("%%sentinel_dry_run?", None),
        ("%%sentinel_dry_runs\nx", None),
        ("%%sentinel_dry_run\x0cx\nx", None),
        (" %%sentinel_dry_run\nx", None),
        ("x = 1\n%%sentinel_dry_run\nx", None),
        ("# a comment\n%%sentinel_dry_run\nx", None),
        ("x = '%%sentinel_dry_run'", None),
        ("", None),
    ],
)
def test_which_line_makes_a_cell_a_dry_run(source: str, known: tuple[int, str] | None) -> None:
    found = dry_run_line(source)
    assert (None if found is None else (found.line_number, found.argument_text)) == known
