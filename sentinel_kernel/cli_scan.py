"""`sentinel-kernel scan` on the command line: what of a notebook will be refused, before anybody runs it."""

from __future__ import annotations

import json
import os
import sys
from typing import TYPE_CHECKING, Any

from sentinel_kernel.errors import SentinelError
from sentinel_kernel.kernel.settings import DEFAULT_PROFILE

if TYPE_CHECKING:
    import argparse

FOUND, UNREADABLE = 1, 2


def add_commands(commands: Any) -> None:  # noqa: ANN401 - argparse's own, which has no public name
    """Add the command to the parser."""
    command = commands.add_parser(
        "scan",
        help="tell what of a notebook will be refused, without running it",
        epilog="Exit status: 0 nothing was found, 1 something was, 2 the notebook or profile can't be read.",
    )
    command.add_argument("notebook", metavar="NOTEBOOK", help="a .ipynb or .py file")
    command.add_argument(
        "--profile", metavar="NAME", default=DEFAULT_PROFILE, help="the profile that it starts under"
    )
    command.add_argument(
        "--dangerous", action="store_true", help="also tell of code that should be read before it is run"
    )
    command.add_argument("--json", action="store_true", help="print the findings as JSON")
    command.set_defaults(run=_scan)


def _scan(arguments: argparse.Namespace) -> int:
    from sentinel_kernel.kernel.scan import scan_notebook  # noqa: PLC0415 - each command imports what it needs
    from sentinel_kernel.kernel.settings import language, profile_directories  # noqa: PLC0415

    try:
        found = scan_notebook(
            arguments.notebook,
            arguments.profile,
            dangerous=arguments.dangerous,
            directories=profile_directories(os.environ),
        )
    except SentinelError as error:
        print(f"sentinel-kernel: {error}", file=sys.stderr)
        return UNREADABLE
    if arguments.json:
        print(json.dumps(found, ensure_ascii=True, indent=2))
    else:
        print(_table(found, language(os.environ)))
    return FOUND if found else 0


def _place(one: dict[str, Any], *, chinese: bool) -> str:
    """Return where a finding is: the code cell as people count them, and which of all cells that is."""
    if one["cell"] is None:
        return f"第 {one['line']} 行" if chinese else f"line {one['line']}"
    if one["cell"] == one["notebook_cell"]:
        cell = f"代码单元格 {one['cell']}" if chinese else f"code cell {one['cell']}"
    elif chinese:
        cell = f"代码单元格 {one['cell']}（笔记本的第 {one['notebook_cell']} 个单元格）"
    else:
        cell = f"code cell {one['cell']} (cell {one['notebook_cell']} of the notebook)"
    return f"{cell}，第 {one['line']} 行" if chinese else f"{cell}, line {one['line']}"


def _table(found: list[dict[str, Any]], chosen: str) -> str:
    """Return the findings for a terminal. All that is the notebook's was escaped where it was found."""
    chinese = chosen == "zh"
    if not found:
        return "未发现会被拒绝的内容。" if chinese else "Nothing was found that will be refused."
    lines = []
    for one in found:
        place = _place(one, chinese=chinese)
        likely = (
            ("（可能）" if chinese else " (if it is reached)")
            if one["confidence"] != "certain" and one["rules"] != "unread"
            else ""
        )
        lines.append(f"{place}{likely}: {one['source']}")
        lines.append(f"    {one['message'][chosen]}")
        if one["subject"] is not None:
            lines.append(f"    {one['subject']['kind']}: {one['subject']['text']}")
        lines.append(f"    HINT → {one['hint'][chosen]}")
    count = len(found)
    lines.append(f"共 {count} 处。" if chinese else f"{count} finding{'' if count == 1 else 's'}.")
    return "\n".join(lines)
