"""The source of one cell as a tree with places in its text, so that a change touches only what it changes."""

from __future__ import annotations

import ast
import re

from sentinel_kernel.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import TypeVar

    _Node = TypeVar("_Node", bound=ast.AST)

LONGEST_CELL = 30_000
"""Characters; what is longer is not looked at: it was written by a program, and reading it takes time."""

_OWN_MAGICS = "%sentinel_"
_MOST_PLACES = 32
_MOST_STEPS = 5000
_LINE_MAGIC = re.compile(r"(?P<indent>\s*)(?:(?P<target>[\w.]+)\s*=\s*)?(?:!|%(?!%)|\?)")
_SHELL_LINE = re.compile(r"\s*(?:[\w.]+\s*=\s*)?(?:!|%(?:sx|system|sc)\s)")
_PYTHON_CELL_MAGICS = frozenset(
    ("time", "timeit", "capture", "prun", "debug", "python", "python3", "sentinel_dry_run")
)
_SHELL_CELL_MAGICS = frozenset(("bash", "sh", "script", "system", "sx", "!"))


def words(text: str) -> frozenset[str]:
    """Return the words of ``text``: how sets of many names are written."""
    return frozenset(text.split())


class Edit(Record):
    """Put ``text`` in the place of the characters from ``start`` to ``end``."""

    start: int
    end: int
    text: str


class CellSource:
    """A cell's text, its tree (None where it is no Python), and the names that its imports bind.

    IPython's lines (``!command``, ``%magic``) become statements without effect in the tree; places in the text stay
    the same. Raises nothing, whatever the text is.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self.steps = _MOST_STEPS
        """How far uses of names are still followed in this cell: it may have been written to take forever."""
        self.shell = False
        """Whether the whole cell is a shell's."""
        self.masked: set[int] = set()
        """The lines (from 1) that are IPython's own."""
        self._starts = [0]
        for line in text.splitlines(keepends=True):
            self._starts.append(self._starts[-1] + len(line))
        self._first = 0
        """The first line (from 1) that is not one of the host's magics above a cell magic."""
        self.tree: ast.Module | None = self._read() if len(text) <= LONGEST_CELL else None
        self._nodes = sorted(
            () if self.tree is None else ast.walk(self.tree), key=lambda node: getattr(node, "lineno", 0)
        )
        self.parents: dict[ast.AST, ast.AST] = {}
        self.imports: dict[str, str] = {}
        """Name in the cell -> what it is: ``np`` -> ``numpy``, ``Thread`` -> ``threading.Thread``."""
        self.loads: dict[str, list[ast.Name]] = {}
        """Name -> where it is read, in the order of the text; of what is read very often only the beginning."""
        self.assigned: dict[str, list[ast.expr]] = {}
        """Name -> what is assigned to it, as above."""
        for node in self._nodes:
            for child in ast.iter_child_nodes(node):
                self.parents[child] = node
            self._note_import(node)
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
                _note(self.loads, node.id, node)
            elif isinstance(node, ast.Assign):
                for target in node.targets:
                    if isinstance(target, ast.Name):
                        _note(self.assigned, target.id, node.value)

    def nodes(self) -> Iterator[ast.AST]:
        """Yield all nodes in the order of the text, as far as there is one."""
        yield from self._nodes

    def calls(self) -> Iterator[tuple[ast.Call, str]]:
        """Yield each call with the name of what is called (``os.mknod``; ``.connect`` on what is not known)."""
        for node in self._nodes:
            if isinstance(node, ast.Call):
                yield node, self.name_of(node.func)

    def name_of(self, node: ast.AST) -> str:
        """Return the dotted name of an expression with imports resolved; ``.attribute`` where its start is no name."""
        parts: list[str] = []
        while isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        if isinstance(node, ast.Name):
            return ".".join([self.imports.get(node.id, node.id), *reversed(parts)])
        return "." + parts[0] if parts else ""

    def span(self, node: ast.AST) -> tuple[int, int]:
        """Return where ``node`` begins and ends in the text."""
        return (
            self._offset(node.lineno, node.col_offset),  # type: ignore[attr-defined]
            self._offset(node.end_lineno, node.end_col_offset),  # type: ignore[attr-defined]
        )

    def segment(self, node: ast.AST) -> str:
        """Return the text of ``node``."""
        start, end = self.span(node)
        return self.text[start:end]

    def replace(self, node: ast.AST, text: str) -> Edit:
        """Return the edit that puts ``text`` in the place of ``node``."""
        return Edit(*self.span(node), text)

    def shell_lines(self) -> Iterator[tuple[int, int]]:
        """Yield where the lines begin and end that a shell runs."""
        for number in range(1, len(self._starts)):
            start, end = self._starts[number - 1], self._starts[number]
            if (self.shell and number > self._first) or (
                number in self.masked and _SHELL_LINE.match(self.text, start, end)
            ):
                yield start, end

    def top(self) -> int:
        """Return where a statement can be put in front of all others (behind magics and ``from __future__``)."""
        lines = self.text.splitlines(keepends=True)
        first = 0
        while first < len(lines) and (
            not lines[first].strip() or lines[first].lstrip().startswith(("%", "#"))
        ):
            first += 1
        if self.tree is not None:
            for node in self.tree.body:
                if isinstance(node, ast.ImportFrom) and node.module == "__future__":
                    first = max(first, node.end_lineno or 0)
        return self._starts[min(first, len(lines))]

    def changed(self, edits: Iterable[Edit]) -> str:
        """Return the text with ``edits``; of two that overlap the first one counts."""
        text, last = [], 0
        for edit in sorted(edits, key=lambda item: (item.start, item.end)):
            if edit.start < last:
                continue
            text += [self.text[last : edit.start], edit.text]
            last = edit.end
        return "".join([*text, self.text[last:]])

    def _offset(self, line: int | None, column: int | None) -> int:
        """Return the place of a line (from 1) and a column (bytes of UTF-8) among the text's characters."""
        start = self._starts[min((line or 1) - 1, len(self._starts) - 1)]
        end = self._starts[min(line or 1, len(self._starts) - 1)]
        return start + len(
            self.text[start:end].encode(errors="replace")[: column or 0].decode(errors="ignore")
        )

    def _read(self) -> ast.Module | None:
        lines = self.text.splitlines(keepends=True)
        first = _first_own(lines)
        self._first = first
        if first and lines[first - 1].startswith("%%"):
            magic = lines[first - 1][2:].split(maxsplit=1)
            name = magic[0] if magic else ""
            if name in _SHELL_CELL_MAGICS or name.startswith("!"):
                self.shell = True
            if name not in _PYTHON_CELL_MAGICS:
                return None
            lines[first - 1] = "pass" + _ending(lines[first - 1])
            self.masked.add(first)
        if (tree := _parsed("".join(lines))) is not None:
            return tree
        continued = False
        for number, line in enumerate(lines, 1):
            found = _LINE_MAGIC.match(line)
            if continued:
                lines[number - 1] = _ending(line)
            elif found or line.rstrip().endswith("?"):
                indent = found["indent"] if found else line[: len(line) - len(line.lstrip())]
                target = f"{found['target']} = None" if found and found["target"] else "pass"
                lines[number - 1] = f"{indent}{target}{_ending(line)}"
            else:
                continue
            self.masked.add(number)
            continued = line.rstrip("\r\n").endswith("\\")
        return _parsed("".join(lines))

    def _note_import(self, node: ast.AST) -> None:
        if isinstance(node, ast.Import):
            for alias in node.names:
                self.imports[alias.asname or alias.name.split(".")[0]] = (
                    alias.name if alias.asname else alias.name.split(".")[0]
                )
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for alias in node.names:
                self.imports[alias.asname or alias.name] = f"{node.module}.{alias.name}"


def _note(index: dict[str, list[_Node]], name: str, node: _Node) -> None:
    known = index.setdefault(name, [])
    if len(known) < _MOST_PLACES:
        known.append(node)


def parses(text: str) -> bool:
    """Tell whether ``text`` is a cell that can be run: Python with IPython's lines, or a shell's."""
    cell = CellSource(text)
    return cell.shell or cell.tree is not None


def _first_own(lines: list[str]) -> int:
    """Return the first line (from 1) with text, 0 where there is none; the host's magics above a cell magic are not it.

    IPython wants a cell magic first; the worker takes those above it off.
    """
    first = next((number for number, line in enumerate(lines, 1) if line.strip()), 0)
    below = first
    while 0 < below < len(lines) and (
        not lines[below - 1].strip() or lines[below - 1].startswith((_OWN_MAGICS, "#"))
    ):
        below += 1
    stacked = first and lines[first - 1].startswith(_OWN_MAGICS) and lines[below - 1].startswith("%%")
    return below if stacked else first


def _ending(line: str) -> str:
    return line[len(line.rstrip("\r\n")) :]


def _parsed(text: str) -> ast.Module | None:
    try:
        return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None  # no Python, or more deeply nested than it may be
