"""Refusals of what a cell's line removes are told as such."""

from __future__ import annotations

import pytest

from sentinel_kernel.policy.hints import complete
from sentinel_kernel.policy.occurrence import make_occurrence
from sentinel_kernel.policy.removal import as_removal, is_removal
from sentinel_kernel.policy.violation import Subject
from sentinel_kernel.record import replace


@pytest.mark.parametrize(
    ("line", "removal"),
    [
        ("shutil.rmtree('/usr/share')", True),
        ("os.rmdir(path)", True),
        ("os.remove('/usr/x')", True),
        ("Path('/usr/x').unlink()", True),
        ("os.rename('/usr/x', '/usr/y')", True),
        ("rmtree('/usr')", True),
        ("open('/usr/x', 'w')", False),
        ("open('/usr/x'.replace('x', 'y'), 'w')", False),
        ("names.remove('x')", False),
        ("os.mkdir('/usr/x')", False),
    ],
)
@pytest.mark.parametrize("cause", ["path_read_only", "path_hidden"])
def test_what_a_line_removes_is_no_advice_to_write(line: str, removal: bool, cause: str) -> None:
    code = f"import os, shutil\n{line}"
    made = make_occurrence(cause, id="v", profile="strict", rule="r", time_ms=1, errno=30)
    made = replace(made, line=2, subject=Subject("path", "/usr/share"))
    assert is_removal(as_removal(made, code)) is removal
    assert not is_removal(as_removal(made, None))
    told = complete(made, code=code)
    if removal:
        assert "remove" in told.hint.en
        assert not told.remedies


def test_what_is_busy_says_what_to_do() -> None:
    for does, says in (
        ("", "leave the folder itself"),
        ("workspace", "not '.'"),
        ("covered", "ignore_errors"),
    ):
        made = make_occurrence("path_busy", id="v", profile="strict", rule="r", time_ms=1, errno=16)
        made = replace(made, subject=Subject("path", "/x"), values={"does": does} if does else {})
        assert says in complete(made).hint.en
