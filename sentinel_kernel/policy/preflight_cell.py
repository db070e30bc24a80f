"""Reads a cell as it was typed: IPython's magics and shell lines in the place of statements, each on its own line.

IPython's own transformer moves lines (it drops leading blank ones and joins continued ones) and takes a third of a
second to import. This one changes nothing but the lines that are no Python, so that every position stays.
"""

from __future__ import annotations

import ast
import re
import warnings

from sentinel_kernel.record import Record

MARK = "__sentinel_preflight__"
"""The function whose calls stand for magics; the argument is the magic's index."""

_OWN_MAGICS = "%sentinel_"
_PYTHON_MAGICS = frozenset(("capture", "prun", "sentinel_dry_run", "time", "timeit"))
"""Cell magics whose body is code of the notebook itself."""

_MOST_MAGICS = 16
"""Cell magics above one another, each of which has the rest of the cell as its body; more is no person's work."""

_ASSIGNED = re.compile(
    r"(?P<target>[A-Za-z_][\w.,\[\]* \t'\"]*=[ \t]*)(?P<escape>[!%])(?P<text>[^=].*)", re.DOTALL
)
_STRING_START = re.compile(r"#|\"\"\"|'''|[\"'(\[{)\]}]")
_MAGIC_NAME = re.compile(r"[A-Za-z_][\w.]*")


class Magic(Record):
    """One line that is no Python.

    ``kind`` is shell (``!ls``), line (``%pip``) or cell (``%%bash``); ``text`` is the command, or what follows the
    magic's name; ``body`` is a cell magic's, which begins on the line after ``line`` (from 1).
    """

    kind: str
    name: str
    text: str
    line: int
    body: str = ""


class TypedCell(Record):
    """A cell: Python with calls of ``MARK`` in the place of ``magics``, and the blanks cut off each line's start."""

    tree: ast.Module
    magics: tuple[Magic, ...]
    indentation: int = 0


def read_cell(code: str) -> TypedCell | None:
    """Return the cell, or None where it is neither Python nor what IPython makes Python of. Never raises."""
    try:
        return _read(code)
    except SyntaxError:
        return None


def unread_line(code: str) -> int | None:
    """Return the line (from 1) at which a cell can be read no further, None where :func:`read_cell` reads it."""
    try:
        _read(code)
    except SyntaxError as error:
        return error.lineno or 1
    except RecursionError:
        return 1  # deeper than any person writes
    return None


def _read(code: str, above: int = 0) -> TypedCell:
    """Return the cell below ``above`` cell magics. Raises SyntaxError where it is none."""
    lines = code.split("\n")
    first = next((index for index, line in enumerate(lines) if line.strip()), None)
    if first is None:
        return TypedCell(ast.Module([], []), ())
    top = first
    if lines[first].startswith(_OWN_MAGICS):
        # Magics of the host's may stand above a cell magic, which IPython wants first.
        while top < len(lines) - 1 and (not lines[top].strip() or lines[top].startswith((_OWN_MAGICS, "#"))):
            top += 1
    if lines[top].startswith("%%") and (found := _cell_magic(lines, top)) is not None:
        if found.name in _PYTHON_MAGICS:
            if above >= _MOST_MAGICS:
                raise SyntaxError("too many cell magics", ("", top + 1, 1, lines[top]))
            return _read("\n" * (top + 1) + found.body, above + 1)
        return TypedCell(_parsed(f"{chr(10) * top}{MARK}(0)") or ast.Module([], []), (found,))
    tree = _parsed(code)
    if tree is not None:
        return TypedCell(tree, ())
    indentation = len(lines[first]) - len(lines[first].lstrip(" \t"))
    lead = lines[first][:indentation]
    lines = [line.removeprefix(lead) for line in lines]
    replaced, magics = _without_magics(lines)
    return TypedCell(_tree("\n".join(replaced)), tuple(magics), indentation)


def parse_statement(text: str) -> ast.Module | None:
    """Return the statements of ``text``, None where they are none."""
    return _parsed(text)


def _parsed(text: str) -> ast.Module | None:
    try:
        return _tree(text)
    except SyntaxError:
        return None


def _tree(text: str) -> ast.Module:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the worker compiles the cell as well, and warns
            return ast.parse(text)
    except (ValueError, RecursionError, MemoryError) as error:
        raise SyntaxError(str(error)) from None


def _cell_magic(lines: list[str], first: int) -> Magic | None:
    name, _, rest = lines[first][2:].partition(" ")
    if name == "!":
        name = "sx"
    if not _MAGIC_NAME.fullmatch(name):
        return None
    return Magic("cell", name, rest.strip(), first + 1, "\n".join(lines[first + 1 :]))


def _without_magics(lines: list[str]) -> tuple[list[str], list[Magic]]:
    """Return the lines with each magic as a call, and the magics."""
    result: list[str] = []
    magics: list[Magic] = []
    state = _State()
    index = 0
    while index < len(lines):
        line = lines[index]
        if not state.at_statement or line.lstrip().startswith("#"):
            state.read(line)
            result.append(line)
            index += 1
            continue
        last = index
        while lines[last].endswith("\\") and last + 1 < len(lines):
            last += 1
        whole = " ".join([*(part[:-1] for part in lines[index:last]), lines[last]])
        found = _magic(whole, index + 1, len(magics))
        if found is None:
            state.read(line)
            result.append(line)
            index += 1
            continue
        text, magic = found
        if magic is not None:
            magics.append(magic)
        result += [text, *[""] * (last - index)]
        index = last + 1
    return result, magics


def _magic(  # noqa: PLR0911 - one return a kind of line
    line: str, number: int, index: int
) -> tuple[str, Magic | None] | None:
    """Return what stands in the place of ``line``, and the magic in it; None where it is Python."""
    body = line.lstrip(" \t")
    lead = line[: len(line) - len(body)]
    call = f"{MARK}({index})"
    stripped = body.rstrip()
    if stripped.startswith("?") or (stripped.endswith("?") and not body.startswith(("#", "!", "%"))):
        return (f"{lead}pass", None)
    if body.startswith("!"):
        return f"{lead}{call}", Magic("shell", "!", body.lstrip("!").strip(), number)
    if body.startswith("%"):
        name, _, rest = body[1:].partition(" ")
        if stripped.endswith("?"):
            return (f"{lead}pass", None)
        if _MAGIC_NAME.fullmatch(name.strip()):
            return f"{lead}{call}", Magic("line", name.strip(), rest.strip(), number)
        return None
    if body.startswith((",", ";", "/")) and body[1:2].isidentifier():
        return (f"{lead}pass", None)
    if (match := _ASSIGNED.fullmatch(body)) is not None:
        text = match["text"].strip()
        if match["escape"] == "!":
            return f"{lead}{match['target']}{call}", Magic("shell", "!", text, number)
        name, _, rest = text.partition(" ")
        if _MAGIC_NAME.fullmatch(name):
            return f"{lead}{match['target']}{call}", Magic("line", name, rest.strip(), number)
    return None


class _State:
    """Whether a line begins a statement: open brackets, open strings, and a backslash at the end before."""

    def __init__(self) -> None:
        self._quote = ""
        self._depth = 0
        self._continued = False

    @property
    def at_statement(self) -> bool:
        return not self._quote and self._depth == 0 and not self._continued

    def read(self, line: str) -> None:
        position = 0
        while position < len(line):
            if self._quote:
                position = self._read_string(line, position)
                continue
            found = _STRING_START.search(line, position)
            if found is None:
                break
            mark, position = found.group(), found.end()
            if mark == "#":
                self._continued = False
                return
            if mark in "([{":
                self._depth += 1
            elif mark in ")]}":
                self._depth = max(0, self._depth - 1)
            else:
                self._quote = mark
        self._continued = line.endswith("\\")
        if len(self._quote) == 1 and not self._continued:
            self._quote = ""  # it is not closed: Python's own error

    def _read_string(self, line: str, position: int) -> int:
        while position < len(line):
            if line[position] == "\\":
                position += 2
            elif line.startswith(self._quote, position):
                position += len(self._quote)
                self._quote = ""
                return position
            else:
                position += 1
        return position
