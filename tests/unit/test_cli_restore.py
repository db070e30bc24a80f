"""Names of saved files on a terminal: one line each, and no two that look alike for what nobody sees."""

from __future__ import annotations

import pytest

from sentinel_kernel.cli_restore import plain


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("data/größe.csv", "data/größe.csv"),
        ("a\nb.py", "a\\nb.py"),
        ("\x1b[2J.py", "\\x1b[2J.py"),
        ("x\x9b31m.py", "x\\x9b31m.py"),
        ("\u202eyp.py", "\\u202eyp.py"),
        ("k\u115fy.py", "k\\u115fy.py"),
        ("e\u2800.py", "e\\u2800.py"),
        ("tag\U000e0041.py", "tag\\U000e0041.py"),
        ("\udcff.py", "\\udcff.py"),
        ("n" * 121, "n" * 120 + "…"),
    ],
)
def test_what_nobody_sees_or_a_terminal_obeys_is_spelled_out(name: str, shown: str) -> None:
    assert plain(name) == shown
