"""Finds in a cell's source the line that puts out most, where one line alone can be it.

Output comes late and from everywhere: by the time that there is too much of it, its line may be over.
"""

from __future__ import annotations

import ast

from sentinel_kernel.policy.cell_source import CellSource
from sentinel_kernel.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

_OUTPUT = frozenset((
    "print", "display", "IPython.display.display", "pprint.pprint", "sys.stdout.write", "sys.stderr.write",
    "sys.stdout.writelines", "sys.stdout.buffer.write", "os.write", "os.system", "subprocess.run", "subprocess.call",
    "subprocess.check_call", "subprocess.Popen",
))  # fmt: skip
_LOOPS = (
    ast.For,
    ast.AsyncFor,
    ast.While,
    ast.comprehension,
    ast.ListComp,
    ast.SetComp,
    ast.DictComp,
    ast.GeneratorExp,
)
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_MOST_CALLERS = 8


class OutputLine(Record):
    """A line of the cell (from 1), and the function that it belongs to."""

    line: int
    function: str


def output_line(code: str) -> OutputLine | None:
    """Return the line that most likely put out more than a cell may; None where it could be several, or none."""
    source = CellSource(code)
    found: dict[int, tuple[int, str]] = {}
    for start, _ in source.shell_lines():
        found[code.count("\n", 0, start) + 1] = (1, "<module>")
    for call, name in source.calls():
        if name not in _OUTPUT:
            continue
        depth = _depth(source, call, frozenset())
        if depth == 0 and all(isinstance(value, ast.Constant) for value in call.args):
            continue  # a word or two
        line = call.lineno
        found[line] = max(found.get(line, (0, "")), (depth, _function(source, call)))
    most = max((depth for depth, _ in found.values()), default=0)
    lines = [line for line, (depth, _) in found.items() if depth == most]
    return OutputLine(lines[0], found[lines[0]][1]) if len(lines) == 1 else None


def _above(source: CellSource, node: ast.AST) -> Iterator[ast.AST]:
    while (parent := source.parents.get(node)) is not None:
        yield parent
        node = parent


def _depth(source: CellSource, node: ast.AST, seen: frozenset[str]) -> int:
    """Return in how many loops ``node`` lies, those around the calls of its function included."""
    depth = 0
    for parent in _above(source, node):
        if isinstance(parent, _LOOPS):
            depth += 1
        elif isinstance(parent, ast.FunctionDef | ast.AsyncFunctionDef):
            if parent.name in seen or len(seen) > _MOST_CALLERS:
                return depth
            uses = source.loads.get(parent.name, ())[:_MOST_CALLERS]
            return depth + max((_depth(source, use, seen | {parent.name}) for use in uses), default=0)
    return depth


def _function(source: CellSource, node: ast.AST) -> str:
    for parent in _above(source, node):
        if isinstance(parent, _FUNCTIONS):
            return "<lambda>" if isinstance(parent, ast.Lambda) else parent.name
    return "<module>"
