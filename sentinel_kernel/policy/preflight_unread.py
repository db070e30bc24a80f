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

_TOO_DEEP = Text(
    "This cell can't be followed, as it is nested too deeply, or its lines or commands are long: not all was checked.",
    "此单元格嵌套过深，或其行或命令过长，无法跟踪：其中的内容未全部检查。",
)
_TOO_DEEP_HINT = Text("Split the long expressions, lines or commands.", "请拆分过长的表达式、行或命令。")


def unread(code: str, *, skipped: bool = False, longest: int = MOST_CHARACTERS) -> Finding | None:
    """Return what there is to say of a cell that can't be read, None of one that can. Never raises.

    ``skipped``: whether the rules could not follow it though it is Python; ``longest``: characters that are read.
    """
    too_long = len(code) > longest
    line = 1 if too_long else unread_line(code)
    if line is None:
        if not skipped:
            return None
        line, words = 1, ("too deep", _TOO_DEEP, _TOO_DEEP_HINT)
    elif too_long:
        words = ("too long", _TOO_LONG, _TOO_LONG_HINT)
    else:
        words = ("no Python", _NOT_PYTHON, _NOT_PYTHON_HINT)
    lines = code.split("\n")
    text = lines[line - 1] if 0 < line <= len(lines) else ""
    return Finding(
        cause=UNREAD,
        line=line,
        column=1,
        what=UNREAD,
        rule=f"{UNREAD}: {words[0]}",
        confidence=LIKELY,
        message=words[1],
        hint=words[2],
        rules=UNREAD,
        source=shown(text.strip()),
    )
