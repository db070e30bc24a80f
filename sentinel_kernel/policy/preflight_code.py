"""Questions about statements that are answered by their syntax alone."""

from __future__ import annotations

import ast

from sentinel_kernel.policy.preflight_names import Known

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Final

    from sentinel_kernel.policy.preflight_names import Value

_OTHER_ERRORS: Final = frozenset(
    [
        "ArithmeticError",
        "AssertionError",
        "AttributeError",
        "ImportError",
        "IndexError",
        "KeyError",
        "KeyboardInterrupt",
        "LookupError",
        "ModuleNotFoundError",
        "NameError",
        "StopIteration",
        "SyntaxError",
        "TypeError",
        "UnicodeDecodeError",
        "UnicodeError",
        "ValueError",
        "ZeroDivisionError",
        "json.JSONDecodeError",
        "FileNotFoundError",
        "FileExistsError",
    ]
)
"""Exceptions whose handlers let what the sandbox raises pass."""


def may_catch(handler: ast.ExceptHandler) -> bool:
    """Tell whether a handler may catch what the sandbox's refusals raise."""
    if handler.type is None:
        return True
    types = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    return any(_dotted(one) not in _OTHER_ERRORS for one in types)


def _dotted(node: ast.expr) -> str:
    """Return a name as it is written, with its dots; "" for what is none."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return ".".join([node.id, *reversed(parts)]) if isinstance(node, ast.Name) else ""


def has_first_turn(iterable: ast.expr) -> bool:
    """Tell whether a loop over ``iterable`` has a first turn."""
    match iterable:
        case ast.List(elts=[_, *_]) | ast.Tuple(elts=[_, *_]) | ast.Set(elts=[_, *_]):
            return True
        case ast.Call(func=ast.Name(id="range"), args=[ast.Constant(value=int() as count)]):
            return count > 0
    return False


def may_leave(body: Sequence[ast.stmt]) -> bool:
    """Tell whether a loop's body may end more than the loop."""
    return any(isinstance(node, ast.Return | ast.Raise) for one in body for node in ast.walk(one))


def local_names(function: ast.FunctionDef | ast.AsyncFunctionDef) -> set[str]:
    """Return the names that a function's own statements bind: they hide global ones from its start on."""
    found: set[str] = set()
    shared: set[str] = set()
    waiting: list[ast.AST] = list(function.body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store | ast.Del):
            found.add(node.id)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            found |= {alias.asname or alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(node.name)
            continue
        elif isinstance(node, ast.Global | ast.Nonlocal):
            shared |= set(node.names)
        elif isinstance(node, ast.Lambda):
            continue
        waiting += ast.iter_child_nodes(node)
    return found - shared


def opens_for_writing(node: ast.Call, value: Value) -> bool:
    """Tell whether a call opens a file for writing, so that something was done by the lines after it."""
    if not isinstance(value, Known) or value.path != "builtins.open" or len(node.args) < 2:
        return False
    mode = node.args[1]
    return (
        isinstance(mode, ast.Constant) and isinstance(mode.value, str) and bool(set(mode.value) & set("wax+"))
    )
