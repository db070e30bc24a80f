r"""The grammar of a cell's leading block: which `%sentinel_*` lines the host runs before the cell's code.

Host and worker read every cell by this one function, so that they agree on it whatever it says. It accepts
only what IPython (inputtransformer2) would execute as a line magic before anything else of the cell:

- The block is the cell's first lines as long as they are blank, comments or `%sentinel_*` line magics. Anything
  else ends it: code, another magic, a `%%` magic, a question (`%sentinel_status?`), a prompt (`>>> `), a byte
  order mark.
- Lines end at a line feed; a carriage return before it belongs to that end. A line with any other end inside
  (a form feed, U+2028: IPython splits there too) ends the block.
- A magic may be indented only as the whole cell is: IPython takes off what all lines have in common, and what is
  left would be Python's IndentationError.
- A backslash right before the line feed continues a magic on the next line.
- The name ends at a space or with the line, the argument at a comment: a number sign at its start or after a blank.
"""

from __future__ import annotations

from typing import NamedTuple

PREFIX = "%sentinel_"
DRY_RUN = "sentinel_dry_run"
"""The one cell magic: right behind the block, alone on its line."""

_NAME = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_")
_BLANKS = " \t"


class MagicLine(NamedTuple):
    """One host magic: its line (from 1), its name without the percent sign, what follows less a comment."""

    line_number: int
    name: str
    argument_text: str


class LeadingBlock(NamedTuple):
    """The magics at a cell's start, and the offset (characters) where the last of their lines ends."""

    lines: tuple[MagicLine, ...]
    end_offset: int


def parse_leading_block(source: str) -> LeadingBlock:
    """Return the leading block of a cell's source. Total: every string has one, most often an empty one."""
    if PREFIX not in source:
        return LeadingBlock((), 0)
    lines = source.split("\n")
    indentation = _common_indentation(lines)
    magics: list[MagicLine] = []
    end_offset = offset = index = 0
    while index < len(lines):
        first = index
        while lines[index].endswith("\\") and _goes_on(lines, index):
            index += 1
        pieces = lines[first : index + 1]
        index += 1
        if any(len(piece.splitlines()) > 1 for piece in pieces):
            break
        text = lines[first].strip(_BLANKS + "\r")
        if not text or text.startswith("#"):
            index = first + 1  # neither is continued
            offset += len(lines[first]) + 1
            continue
        offset += sum(len(piece) + 1 for piece in pieces)
        if lines[first][: len(indentation) + 1] != indentation + "%":
            break
        magic = _magic(_joined(pieces), first + 1)
        if magic is None:
            break
        magics.append(magic)
        end_offset = min(offset, len(source))
    return LeadingBlock(tuple(magics), end_offset)


def dry_run_line(source: str) -> MagicLine | None:
    """Return the line that makes the whole cell a dry run, or None; an argument behind it is one that nobody knows."""
    mark = f"%%{DRY_RUN}"
    if mark not in source:
        return None
    end = parse_leading_block(source).end_offset
    rest = source[end:].lstrip("\n")
    line = rest.partition("\n")[0]
    argument = line[len(mark) :].rstrip("\r")
    if not line.startswith(mark) or argument[:1] not in ("", " "):
        return None
    return MagicLine(source[: len(source) - len(rest)].count("\n") + 1, DRY_RUN, argument.strip())


def _goes_on(lines: list[str], index: int) -> bool:
    """Tell whether there is a line behind this one (the line feed that ends a cell begins none)."""
    return index < len(lines) - 2 or (index == len(lines) - 2 and lines[-1] != "")


def _common_indentation(lines: list[str]) -> str:
    """Return the blanks that all lines with text begin with (textwrap.dedent, by which IPython takes them off)."""
    # A carriage return counts as text here, as it does for dedent.
    indentations = [line[: len(line) - len(line.lstrip(_BLANKS))] for line in lines if line.strip(_BLANKS)]
    least, greatest = min(indentations), max(indentations)
    for index, character in enumerate(least):
        if character != greatest[index]:
            return least[:index]
    return least


def _joined(pieces: list[str]) -> str:
    """Put a continued line together the way IPython's assemble_continued_line does."""
    return " ".join([*(piece[:-1] for piece in pieces[:-1]), pieces[-1].rstrip()]).lstrip(_BLANKS)


def _magic(text: str, line_number: int) -> MagicLine | None:
    """Return the magic in a line that begins with it, or None where it is none or asks for help."""
    if not text.startswith(PREFIX):
        return None
    name, _, rest = text[1:].partition(" ")
    rest = rest.replace("\t", " ").strip()
    argument = _without_comment(rest)
    asks = argument.endswith("?") and argument == rest
    if not _NAME.issuperset(name) or asks:
        return None
    return MagicLine(line_number, name, argument)


def _without_comment(rest: str) -> str:
    """Cut a comment off: a number sign at the start or after a blank."""
    if rest.startswith("#"):
        return ""
    return rest.partition(" #")[0].strip()
