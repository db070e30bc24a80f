"""The line that puts out most: found where one alone can be it, and not guessed otherwise."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sentinel_kernel.policy.output_line import output_line


@pytest.mark.parametrize(
    ("code", "line", "function"),
    [
        ("for row in range(9):\n    print(row)\nprint('done')", 2, "<module>"),
        ("import sys\ndef log():\n    while True:\n        sys.stdout.write('x')\nlog()", 4, "log"),
        ("def say(x):\n    print(x)\nprint('a', x)\nfor i in range(9):\n    say(i)", 2, "say"),
        ("!seq 1 60000\nprint('counted')", 1, "<module>"),
        ("%%bash\nyes\n", 2, "<module>"),
        ("x = 'a' * 10 ** 6\nprint(x)\nprint('done')", 2, "<module>"),
        ("[print(i) for i in range(9)]", 1, "<module>"),
        ("for i in r:\n    print(i)\n    for j in r:\n        print(j)", 4, "<module>"),
        ("from IPython.display import display\nfor i in r:\n    display(i)", 3, "<module>"),
    ],
)
def test_the_line_that_puts_out_most_is_found(code: str, line: int, function: str) -> None:
    found = output_line(code)
    assert found is not None
    assert (found.line, found.function) == (line, function)


@pytest.mark.parametrize(
    "code",
    [
        "for i in r:\n    print(i)\nfor j in r:\n    print(j)",
        "print('a')\nprint('b')",
        "frame",
        "if",
        "",
        "def f():\n    print(x)\n    f()\nprint(y)",
        "x" * 100_000,
    ],
)
def test_what_could_be_several_lines_is_not_guessed(code: str) -> None:
    assert output_line(code) is None


@given(st.text(alphabet="print(x)for i n:\n\t !%{}[]'\"def", max_size=80))
def test_any_cell_has_one_line_or_none(code: str) -> None:
    found = output_line(code)
    assert found is None or 1 <= found.line <= code.count("\n") + 1
