"""Follows a cell's statements in the order they run, and tells of each call how certain it is to be made."""

from __future__ import annotations

import ast

from sentinel_kernel.policy.preflight_code import has_first_turn, may_catch, may_leave
from sentinel_kernel.policy.preflight_expressions import Expressions
from sentinel_kernel.policy.preflight_names import UNKNOWN, Known, Own, bound_names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from sentinel_kernel.policy.preflight_expressions import Seen
    from sentinel_kernel.policy.preflight_names import Value


class Walk(Expressions):
    """Walks one cell."""

    def run(self) -> list[Seen]:
        """Return what is to say of the cell, in the order of its lines as they run."""
        self._block(self._cell.tree.body)
        return self.seen

    # --- statements

    def _block(self, statements: Sequence[ast.stmt]) -> None:
        for statement in statements:
            if self._gone:
                return
            self._statement(statement)

    def _statement(self, node: ast.stmt) -> None:  # noqa: C901, PLR0912, PLR0915 - one branch a kind of statement
        names = self._names
        match node:
            case ast.Expr():
                self._expression(node.value)
            case ast.Assign():
                self._expression(node.value)
                self._assign(node.targets, node.value)
            case ast.AnnAssign(value=ast.expr() as value):
                self._expression(value)
                self._assign([node.target], value)
            case ast.AugAssign():
                self._expression(node.value)
                self._forget(node.target)
            case ast.Import():
                for alias in node.names:
                    name = alias.asname or alias.name.partition(".")[0]
                    names.bind(name, names.module(alias.name if alias.asname else name))
                    self._fake(alias.name)
            case ast.ImportFrom():
                self._import_from(node)
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                for expression in (*node.decorator_list, *node.args.defaults):
                    self._expression(expression)
                names.bind(node.name, UNKNOWN if node.decorator_list else Own(node, self._number))
            case ast.ClassDef():
                for expression in (*node.decorator_list, *node.bases):
                    self._expression(expression)
                outer, self._names = self._names, self._names.copy()
                self._block(node.body)
                self._names = outer
                outer.bind(node.name, UNKNOWN)
            case ast.If():
                self._if(node)
            case ast.For() | ast.AsyncFor():
                self._expression(node.iter)
                for name in bound_names(node.target):
                    names.bind(name, UNKNOWN)
                self._loop(node.body, certain=has_first_turn(node.iter))
                self._maybe(node.orelse)
            case ast.While():
                self._expression(node.test)
                self._loop(node.body, certain=isinstance(node.test, ast.Constant) and bool(node.test.value))
                self._maybe(node.orelse)
            case ast.Try() | ast.TryStar():
                self._try(node)
            case ast.With() | ast.AsyncWith():
                self._with(node)
            case ast.Match():
                self._expression(node.subject)
                self._branches([case.body for case in node.cases])
            case ast.Return() | ast.Raise():
                for child in ast.iter_child_nodes(node):
                    if isinstance(child, ast.expr):
                        self._expression(child)
                self._gone = True
            case ast.Break() | ast.Continue():
                self._gone = True
            case ast.Assert():
                self._expression(node.test)
            case ast.Delete():
                for target in node.targets:
                    self._forget(target)

    def _import_from(self, node: ast.ImportFrom) -> None:
        names = self._names
        module = UNKNOWN if node.level or not node.module else names.module(node.module)
        self._fake(node.module or "")
        for alias in node.names:
            if alias.name == "*":
                names.star = True
            elif isinstance(module, Known):
                names.bind(alias.asname or alias.name, names.attribute(module, alias.name))
                self._fake(f"{module.path}.{alias.name}")
            else:
                names.bind(alias.asname or alias.name, UNKNOWN)

    def _if(self, node: ast.If) -> None:
        self._expression(node.test)
        truth = self._truth(node.test)
        if truth is None:
            self._branches([node.body, node.orelse])
        else:
            self._block(node.body if truth else node.orelse)

    def _truth(self, test: ast.expr) -> bool | None:
        """Return what a test comes to in a notebook, None where that can't be told."""
        if isinstance(test, ast.Constant):
            return bool(test.value)
        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            inner = self._truth(test.operand)
            return None if inner is None else not inner
        if (isinstance(test, ast.Name) and test.id == "TYPE_CHECKING") or (
            isinstance(test, ast.Attribute) and test.attr == "TYPE_CHECKING"
        ):
            return False
        match test:
            case ast.Compare(
                left=ast.Name(id="__name__"), ops=[ast.Eq()], comparators=[ast.Constant(value="__main__")]
            ):
                return True
        return None

    def _loop(self, body: Sequence[ast.stmt], *, certain: bool) -> None:
        if certain:
            before = dict(self._names.bound)
            self._block(body)
            self._gone = False
            self._merge([before, dict(self._names.bound)])
            self._certain = self._certain and not may_leave(body)
        else:
            self._maybe(body)
        self._effects = True

    def _maybe(self, body: Sequence[ast.stmt]) -> None:
        self._branches([body, []])

    def _branches(self, bodies: Sequence[Sequence[ast.stmt]]) -> None:
        """Follow bodies of which one runs; what they bind differently is not known any more."""
        certain, effects = self._certain, self._effects
        before = dict(self._names.bound)
        ends: list[dict[str, Value]] = []
        gone = []
        for body in bodies:
            self._names.bound = dict(before)
            self._certain, self._effects, self._gone = False, effects, False
            self._block(body)
            gone.append(self._gone)
            ends.append(self._names.bound)
        # What follows may not be reached, where one of the branches leaves.
        self._certain = certain and not any(gone)
        self._gone = bool(gone) and all(gone) and len(gone) > 1
        self._merge(ends)

    def _merge(self, ends: Sequence[dict[str, Value]]) -> None:
        merged: dict[str, Value] = {}
        for one in ends:
            for name, value in one.items():
                merged[name] = value if name not in merged or merged[name] == value else UNKNOWN
        self._names.bound = merged

    def _try(self, node: ast.Try | ast.TryStar) -> None:
        handled, certain = self._handled, self._certain
        if any(may_catch(handler) for handler in node.handlers):
            self._handled = True
        before = dict(self._names.bound)
        self._block(node.body)
        gone, self._gone = self._gone, False
        self._handled = handled
        after = dict(self._names.bound)
        ends = [after]
        for handler in node.handlers:
            self._names.bound = {**before, **after}
            if handler.name:
                self._names.bind(handler.name, UNKNOWN)
            self._certain = False
            self._block(handler.body)
            ends.append(self._names.bound)
            certain = certain and not self._gone
            self._gone = False
        self._merge(ends)
        self._certain = certain
        if not gone:
            self._block(node.orelse)
        over = self._gone or (gone and not node.handlers)
        self._gone = False
        self._block(node.finalbody)
        self._gone = self._gone or over
        self._certain = self._certain and not gone

    def _with(self, node: ast.With | ast.AsyncWith) -> None:
        handled, patched = self._handled, set(self._global.patched)
        for item in node.items:
            self._expression(item.context_expr)
            called = item.context_expr.func if isinstance(item.context_expr, ast.Call) else item.context_expr
            name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
            if any(word in str(name).lower() for word in ("suppress", "raises", "ignore", "catch")):
                self._handled = True
            if "patch" in str(name).lower() or "mock" in str(name).lower():
                self._fake("mock")
            if item.optional_vars is not None:
                self._forget(item.optional_vars)
                if isinstance(item.optional_vars, ast.Name):
                    self._names.bind(item.optional_vars.id, self._names.resolve(item.context_expr))
        self._block(node.body)
        self._handled, self._global.patched = handled, patched
