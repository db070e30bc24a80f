"""Whether a YAML text is numbers alone, under names: no program is told anything by it; pure.

YAML is what most tools take their settings in, and has many ways to write the same (names for what stands elsewhere,
types, folded texts). So it is told what it is not: each line is a name, a number, or a list of numbers.
"""

from __future__ import annotations

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

_NUMBER: Final = (
    rb"(?:[-+]?+(?:\d[\d_]*+(?:\.\d*+)?+|\.\d++)(?:[eE][-+]?+\d++)?+|[-+]?+\.(?:inf|Inf|nan|NaN)|true|false|True|"
    rb"False|null|~)"
)
_NUMBERS: Final = rb"(?:" + _NUMBER + rb"|\[[ ]*+(?:" + _NUMBER + rb"[ ]*+(?:,[ ]*+|(?=\])))*+\])"
_NAME: Final = rb"(?:[A-Za-z_][\w .()%/-]{0,99}?|\d{1,9}|\"[\w .()%/-]{1,100}\"|'[\w .()%/-]{1,100}')"
_LINE: Final = re.compile(
    rb"(?:---|[ ]*+(?:-[ ]++)*+(?:" + _NAME + rb":(?:[ ]++" + _NUMBERS + rb")?+|-|" + _NUMBERS + rb")?+)"
    rb"[ ]*+(?:(?<![^ ])#[^\n]*+)?+\r?+"
)
_LONGEST_LINE: Final = 4096
_MOST_LINES: Final = 100_000


def is_numbers(text: bytes) -> bool:
    """Tell whether each line of ``text`` is so; a text of too many, or too long, lines is not."""
    lines = text.split(b"\n", _MOST_LINES + 1)
    if len(lines) > _MOST_LINES:
        return False
    return all(len(line) <= _LONGEST_LINE and _LINE.fullmatch(line) is not None for line in lines)
