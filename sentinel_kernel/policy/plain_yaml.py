"""Whether a YAML text is numbers alone, under names: no program is told anything by it; pure.

YAML is what most tools take their settings in, and has many ways to write the same (names for what stands elsewhere,
types, folded texts). So it is told what it is not: each line is a name, a number, or a list of numbers. A name for
nothing tells a program something all the same, as in Ansible's lists of tasks, where it is what is to be done; there
so does one with settings below it.
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
    rb"(?:(?P<start>---)|(?P<indent>[ ]*+)(?P<items>(?:-[ ]++)*+)"
    rb"(?:(?P<name>%b:)(?:[ ]++(?P<number>%b))?+|(?P<empty>-)|(?P<value>%b))?+)"
    rb"[ ]*+(?:(?<![^ ])#[^\n]*+)?+\r?+" % (_NAME, _NUMBERS, _NUMBERS)
)
_NOTHING: Final = (None, b"null", b"~")
_LONGEST_LINE: Final = 4096
_MOST_LINES: Final = 100_000


def is_numbers(text: bytes) -> bool:
    """Tell whether ``text`` is so: below each name is a number, and in a list that is the whole text, beside it.

    A text of too many, or too long, lines is not.
    """
    lines = text.split(b"\n", _MOST_LINES + 1)
    if len(lines) > _MOST_LINES:
        return False
    is_list: bool | None = None
    alone = -1  # the column of a name that has nothing beside it, until what is below has come
    for line in lines:
        found = _LINE.fullmatch(line) if len(line) <= _LONGEST_LINE else None
        if found is None:
            return False
        start, indent, items, name, number, empty, value = found.groups()
        is_item = bool(items or empty)
        if not (start or is_item or name or value):
            continue
        # A list may be as deep as the name that it belongs to.
        if alone >= 0 and (start or len(indent) < alone or (len(indent) == alone and not is_item)):
            return False
        if start:
            is_list = None
            continue
        is_list = is_item if is_list is None else is_list
        if is_list and name and number in _NOTHING:
            return False
        alone = len(indent) + len(items) if name and number is None else -1
    return alone < 0
