"""Finds the expressions of a cell that come to one path: joined, added, formatted, or in the home folder."""

from __future__ import annotations

import ast
import os.path

from sentinel_kernel.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from sentinel_kernel.policy.cell_source import CellSource

_DEPTH = 12
_MOST_EXPRESSIONS = 2000
_LONGEST_PATH = 4096
_HOME = "~"
_PATHS = ("pathlib.Path", "Path", "pathlib.PosixPath")
_SAME = (
    "os.path.expanduser",
    "os.fspath",
    "str",
    "os.path.abspath",
    "os.path.normpath",
    "os.path.expandvars",
)
_METHODS = ("joinpath", "expanduser", "absolute", "resolve")


class Value(Record):
    """What an expression comes to; ``path`` is the source of the class that makes it a path object, "" for a text."""

    text: str
    path: str = ""


def expressions_of(cell: CellSource, path: str, folder: str = "") -> list[tuple[ast.AST, Value]]:
    """Return the outermost expressions whose value is ``path``, with what each is.

    One that leads out of the ``folder`` that the cell runs in (``../data/x.csv``) is known by where it leads.
    """
    values = _Values(cell)
    found: list[tuple[ast.AST, Value]] = []
    inside: set[ast.AST] = set()
    looked_at = 0
    for node in cell.nodes():
        if isinstance(node, ast.Constant | ast.BinOp | ast.Call | ast.JoinedStr):
            looked_at += 1
            value = values.of(node)
            if value is not None and (_is(value.text, path) or _leads(value.text, folder, path)):
                found.append((node, value))
                inside.update(child for child in ast.walk(node) if child is not node)
        if looked_at > _MOST_EXPRESSIONS:
            break
    return [(node, value) for node, value in found if node not in inside]


class _Values:
    """What expressions come to, as far as constants and single assignments tell; each is looked at once."""

    def __init__(self, cell: CellSource) -> None:
        self._cell = cell
        self._known: dict[ast.AST, Value | None] = {}

    def of(self, node: ast.AST, depth: int = 0) -> Value | None:
        if node not in self._known:
            self._known[node] = None  # what leads back to itself has none
            value = self._found(node, depth + 1) if depth < _DEPTH else None
            self._known[node] = value if value is not None and len(value.text) <= _LONGEST_PATH else None
        return self._known[node]

    def _found(self, node: ast.AST, depth: int) -> Value | None:  # noqa: PLR0911 - a table
        match node:
            case ast.Constant(value=str() as text):
                return Value(text)
            case ast.Name(id=name):
                assigned = self._cell.assigned.get(name, ())
                return self.of(assigned[0], depth) if len(assigned) == 1 else None
            case ast.BinOp(left=left, op=ast.Div() | ast.Add() as operator, right=right):
                return _combined(operator, self.of(left, depth), self.of(right, depth))
            case ast.JoinedStr(values=parts):
                inner = [part.value if isinstance(part, ast.FormattedValue) else part for part in parts]
                texts = self._texts(inner, depth)
                return None if texts is None else Value("".join(texts))
            case ast.Call():
                return self._called(node, depth)
            case ast.Subscript(value=of, slice=ast.Constant(value="HOME")):
                return Value(_HOME) if self._cell.name_of(of) == "os.environ" else None
        return None

    def _texts(self, nodes: list[ast.expr], depth: int) -> list[str] | None:
        values = [self.of(node, depth) for node in nodes]
        return None if None in values else [value.text for value in values if value is not None]

    def _called(self, call: ast.Call, depth: int) -> Value | None:
        name = self._cell.name_of(call.func)
        if name in ("pathlib.Path.home", "Path.home"):
            return Value(_HOME, self._cell.segment(call.func).removesuffix(".home"))
        texts = self._texts(call.args, depth)
        if texts is None:
            return None
        if texts and name in _PATHS:
            return Value(os.path.join(*texts), self._cell.segment(call.func))
        if texts and (name == "os.path.join" or (name in _SAME and len(texts) == 1)):
            return Value(os.path.join(*texts))
        if isinstance(call.func, ast.Attribute) and call.func.attr in _METHODS:
            base = self.of(call.func.value, depth)
            return (
                Value(os.path.join(base.text, *texts), base.path) if base is not None and base.path else None
            )
        return Value(_HOME) if name == "os.getenv" and texts[:1] == ["HOME"] else None


def _combined(operator: ast.operator, left: Value | None, right: Value | None) -> Value | None:
    if left is None or right is None:
        return None
    kind = left.path or right.path
    if isinstance(operator, ast.Add):
        return None if kind else Value(left.text + right.text)
    return Value(os.path.join(left.text, right.text), kind) if kind else None


def _leads(text: str, folder: str, path: str) -> bool:
    return (
        folder != ""
        and text.startswith("../")
        and os.path.normpath(os.path.join(folder, text)) == os.path.normpath(path)
    )


def _is(text: str, path: str) -> bool:
    """Tell whether ``text`` is ``path``; where it begins with the home folder, whatever that is."""
    if text.startswith("~/"):
        return path.startswith("/") and path.endswith(os.path.normpath(text)[1:])
    return text.startswith("/") and os.path.normpath(text) == os.path.normpath(path)
