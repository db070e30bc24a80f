"""The grammar of a cell's leading block: which `%sentinel_*` lines the host runs before the cell's code.

Host and worker read every cell by this one function, so that they agree on it. The block is the cell's
first lines as long as they are blank, comments or `%sentinel_*` line magics; anything else, a `%%` magic
too, ends it. Lines end at a line feed; a carriage return before it belongs to that end. A magic stands
alone on its line, indented like the cell's first line that is not blank (IPython takes that indentation
off), and may be followed by a comment.
"""

from __future__ import annotations

from dataclasses import dataclass

PREFIX = "%sentinel_"

_NAME = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_")


@dataclass(frozen=True, slots=True)
class MagicLine:
    """One host magic: its line (from 1), its name without the percent sign, what follows less a comment."""

    line_number: int
    name: str
    argument_text: str


@dataclass(frozen=True, slots=True)
class LeadingBlock:
    """The magics at a cell's start, and the offset (characters) where the last of their lines ends."""

    lines: tuple[MagicLine, ...]
    end_offset: int


def parse_leading_block(source: str) -> LeadingBlock:
    """Return the leading block of a cell's source. Total: every string has one, most often an empty one."""
    if PREFIX not in source:
        return LeadingBlock((), 0)
    magics: list[MagicLine] = []
    indentation: str | None = None
    end_offset = offset = 0
    for line_number, line in enumerate(source.split("\n"), start=1):
        offset += len(line) + 1
        text = line.strip(" \t\r")
        if not text:
            continue
        indent = line[: len(line) - len(line.lstrip(" \t"))]
        if indentation is None:
            indentation = indent
        if text.startswith("#"):
            continue
        magic = _magic(text, line_number) if indent == indentation else None
        if magic is None:
            break
        magics.append(magic)
        end_offset = min(offset, len(source))
    return LeadingBlock(tuple(magics), end_offset)


def _magic(text: str, line_number: int) -> MagicLine | None:
    """Return the magic in a stripped line, or None where it is none (`%sentinel_status?` asks for help)."""
    if not text.startswith(PREFIX):
        return None
    name, _, rest = text[1:].replace("\t", " ").partition(" ")
    if not _NAME.issuperset(name):
        return None
    return MagicLine(line_number, name, _without_comment(rest))


def _without_comment(rest: str) -> str:
    """Cut a comment off: a number sign at the start or after a blank."""
    if rest.startswith("#"):
        return ""
    return rest.partition(" #")[0].strip()
