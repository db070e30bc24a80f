"""Tells whether a cell stands in a loop that has no end, for which no limit is enough."""

from __future__ import annotations

import ast

from sentinel_kernel.policy.cell_source import CellSource, words

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)
_LOOPS = (ast.While, ast.For, ast.AsyncFor)
_LEAVES = (
    ast.Return,
    ast.Raise,
    ast.Yield,
    ast.YieldFrom,
    ast.Await,
    ast.Assert,
    ast.Try,
    ast.With,
    ast.AsyncWith,
)
_MAY_LEAVE = words(
    "next exit quit _exit abort kill input send recv accept get get_nowait put put_nowait pop popleft popitem remove "
    "discard read readline read_bytes wait result step throw index execv execve raise_signal"
)
"""Last names of calls by whose exception people end loops, or that end the process."""


def endless_loop(code: str | None, line: int | None) -> int | None:
    """Return the line of the loop without an end that the cell's line ``line`` (None: not known) is in.

    None where there is none, or where something in the loop may end it: then it is not said to have no end.
    """
    if not code:
        return None
    cell = CellSource(code)
    for node in cell.nodes():
        if isinstance(node, ast.While | ast.For) and _goes_on(cell, node) and not _may_end(cell, node):
            inside = line is not None and node.lineno <= line <= (node.end_lineno or node.lineno)
            if inside or (line is None and not _is_optional(cell, node)):
                return node.lineno
    return None


def open_loop(code: str | None, line: int | None) -> int | None:
    """Return the line of the loop around the cell's line ``line`` that ends by what is in it alone, if ever."""
    if not code or line is None:
        return None
    cell = CellSource(code)
    for node in cell.nodes():
        inside = isinstance(node, ast.While | ast.For) and node.lineno <= line <= (
            node.end_lineno or node.lineno
        )
        if isinstance(node, ast.While | ast.For) and inside and _goes_on(cell, node):
            return node.lineno
    return None


def _goes_on(cell: CellSource, loop: ast.While | ast.For) -> bool:
    if isinstance(loop, ast.While):
        return isinstance(loop.test, ast.Constant) and bool(loop.test.value)
    if not isinstance(loop.iter, ast.Call):
        return False
    name, given = cell.name_of(loop.iter.func), len(loop.iter.args) + len(loop.iter.keywords)
    return name == "itertools.count" or (name == "itertools.repeat" and given == 1)


def _may_end(cell: CellSource, loop: ast.While | ast.For) -> bool:
    for node, own in _inside(loop.body, own=True):
        if isinstance(node, _LEAVES) or (own and isinstance(node, ast.Break)):
            return True
        if isinstance(node, ast.Call) and cell.name_of(node.func).rpartition(".")[2] in _MAY_LEAVE:
            return True
    return any(isinstance(outer, ast.Try) for outer in _around(cell, loop))


def _inside(body: list[ast.stmt], *, own: bool) -> Iterator[tuple[ast.AST, bool]]:
    """Yield what runs in a loop, each with whether a break there would be the loop's own."""
    stack: list[tuple[ast.AST, bool]] = [(node, own) for node in body]
    while stack:
        node, own = stack.pop()
        if isinstance(node, _FUNCTIONS):
            continue
        yield node, own
        stack += [(child, own and not isinstance(node, _LOOPS)) for child in ast.iter_child_nodes(node)]


def _is_optional(cell: CellSource, loop: ast.AST) -> bool:
    """Tell whether the cell may never come to the loop, or leave it to another thread."""
    return any(isinstance(outer, (*_FUNCTIONS, ast.If, *_LOOPS)) for outer in _around(cell, loop))


def _around(cell: CellSource, node: ast.AST) -> Iterator[ast.AST]:
    while (outer := cell.parents.get(node)) is not None:
        yield outer
        node = outer
