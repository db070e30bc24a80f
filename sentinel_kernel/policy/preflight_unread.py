"""Names a cell that preflight can't read: who scans a notebook must not take silence for a good word."""

from __future__ import annotations

from sentinel_kernel.policy.preflight import MOST_CHARACTERS
from sentinel_kernel.policy.preflight_cell import unread_line
from sentinel_kernel.policy.preflight_finding import LIKELY, Finding
from sentinel_kernel.policy.text import shown
from sentinel_kernel.policy.violation import Text

UNREAD = "unread"
"""The cause, and the rules, of such a finding."""

_TOO_LONG = Text(
    "This cell is longer than is read before it runs: nothing of it was checked.",
    "此单元格过长，运行前不会读取：其中的内容均未检查。",
)
_TOO_LONG_HINT = Text("Split the cell.", "请拆分此单元格。")
_NOT_PYTHON = Text(
    "From this line on the cell can't be read as Python: nothing of this cell was checked.",
    "从这一行起，此单元格无法作为 Python 读取：此单元格的内容均未检查。",
)
_NOT_PYTHON_HINT = Text(
    "Correct the line; where it is another language, let the cell begin with its %% magic.",
    "请修正这一行；若是其他语言，请让单元格以相应的 %% 魔法命令开头。",
)


def unread(code: str) -> Finding | None:
    """Return what there is to say of a cell that can't be read, None of one that can. Never raises."""
    too_long = len(code) > MOST_CHARACTERS
    line = 1 if too_long else unread_line(code)
    if line is None:
        return None
    lines = code.split("\n")
    text = lines[line - 1] if 0 < line <= len(lines) else ""
    return Finding(
        cause=UNREAD,
        line=line,
        column=1,
        what=UNREAD,
        rule=f"{UNREAD}: {'too long' if too_long else 'no Python'}",
        confidence=LIKELY,
        message=_TOO_LONG if too_long else _NOT_PYTHON,
        hint=_TOO_LONG_HINT if too_long else _NOT_PYTHON_HINT,
        rules=UNREAD,
        source=shown(text.strip()),
    )
