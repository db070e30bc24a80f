"""Follows a cell's expressions: the calls in them, and the notebook's own functions that those lead into."""

from __future__ import annotations

import ast
from abc import ABC, abstractmethod

from sentinel_kernel.policy.preflight_cell import MARK
from sentinel_kernel.policy.preflight_code import (
    local_names,
    opens_for_writing,
)
from sentinel_kernel.policy.preflight_magics import magic_judged, timed_statements
from sentinel_kernel.policy.preflight_names import (
    UNKNOWN,
    Known,
    Names,
    Own,
    bound_names,
)
from sentinel_kernel.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Final

    from sentinel_kernel.policy.preflight_calls import CallJudge
    from sentinel_kernel.policy.preflight_cell import TypedCell
    from sentinel_kernel.policy.preflight_finding import Judged
    from sentinel_kernel.policy.preflight_names import Value

_MOST_DEPTH = 4
_MOST_FOLLOWED = 50
"""How many calls of the notebook's own functions are followed in one cell."""
_LEAVE: Final = frozenset(("sys.exit", "builtins.exit", "builtins.quit", "os._exit", "os.abort"))
_FAKES: Final = frozenset(
    (
        "aioresponses",
        "httpretty",
        "moto",
        "pook",
        "pytest_httpx",
        "requests_cache",
        "requests_mock",
        "respx",
        "responses",
        "vcr",
    )
)
"""Modules that answer in the place of the network."""

_LONG: Final = frozenset(("fit", "fit_transform", "train", "compute", "persist", "execute"))
_EFFECTS: Final = [
    "os.remove",
    "os.rename",
    "os.replace",
    "os.mkdir",
    "os.makedirs",
    "os.unlink",
    "shutil.copy",
    "shutil.copytree",
    "shutil.move",
    "shutil.rmtree",
    "subprocess.run",
    "subprocess.call",
    "subprocess.check_call",
    "os.system",
    "time.sleep",
]
_WRITES_BY_NAME: Final = frozenset(
    ("write_text", "write_bytes", "to_csv", "to_parquet", "to_pickle", "savefig", "save")
)


class Seen(Record):
    """What is to say of one call, and where it stands: ``node`` (None: a magic's ``line``)."""

    judged: Judged
    line: int
    column: int
    certain: bool
    handled: bool
    after_effects: bool


class Expressions(ABC):
    """Walks the expressions of one cell. ``names`` are changed as its statements change them."""

    def __init__(self, cell: TypedCell, names: Names, judge: CallJudge, number: int) -> None:
        self._cell = cell
        self._judge = judge
        self._number = number
        self._names = names
        self._global = names
        self._certain = True
        self._handled = False
        self._effects = False
        self._place: ast.expr | None = None
        """The call that led into an earlier cell's function."""
        self._active: list[Own] = []
        self._followed = 0
        self._gone = False
        """A statement before has ended the cell, or the function that is being followed."""
        self.seen: list[Seen] = []

    @abstractmethod
    def _block(self, statements: Sequence[ast.stmt]) -> None:
        """Follow statements in their order."""

    # --- expressions

    def _expression(self, node: ast.expr, *, awaited: bool = False) -> None:  # noqa: C901, PLR0912 - as above
        match node:
            case ast.Call():
                self._expression(node.func)
                for argument in node.args:
                    self._expression(argument)
                for keyword in node.keywords:
                    self._expression(keyword.value)
                self._call(node, awaited=awaited)
            case ast.Await():
                self._expression(node.value, awaited=True)
            case ast.BoolOp():
                self._expression(node.values[0])
                self._uncertain(node.values[1:])
            case ast.IfExp():
                self._expression(node.test)
                self._uncertain([node.body, node.orelse])
            case ast.Lambda():
                pass
            case ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
                self._expression(node.generators[0].iter)
                if not isinstance(node, ast.GeneratorExp):
                    shadowed = [name for one in node.generators for name in bound_names(one.target)]
                    outer, self._names = self._names, self._names.copy()
                    for name in shadowed:
                        self._names.bind(name, UNKNOWN)
                    elements = [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]
                    self._uncertain(elements)
                    self._names = outer
            case ast.NamedExpr():
                self._expression(node.value)
                self._assign([node.target], node.value)
            case _:
                for child in ast.iter_child_nodes(node):
                    if isinstance(child, ast.expr):
                        self._expression(child)

    def _uncertain(self, nodes: Sequence[ast.expr]) -> None:
        certain, self._certain = self._certain, False
        for node in nodes:
            self._expression(node)
        self._certain = certain

    def _call(self, node: ast.Call, *, awaited: bool) -> None:  # noqa: C901 - one branch a kind of call
        if isinstance(node.func, ast.Name) and node.func.id == MARK:
            self._magic(node)
            return
        value = self._names.resolve(node.func)
        if isinstance(value, Own):
            if not value.is_generator and (awaited or not value.is_async):
                self._follow(value, node)
            return
        if isinstance(value, Known):
            if value.path in ("asyncio.run", "anyio.run") and node.args:
                self._run_coroutine(node.args[0])
            if value.path == "os.chdir":
                self._global.moved = True
            if value.path.startswith(("unittest.mock.patch", "mock.patch")):
                self._fake("mock")
        for judged in self._judge.judge(node, self._names, awaited=awaited):
            self._add(judged, node)
        if isinstance(value, Known):
            self._gone |= value.path in _LEAVE
            self._effects |= value.path in _EFFECTS
        if isinstance(node.func, ast.Attribute):
            self._effects |= node.func.attr in _LONG or node.func.attr in _WRITES_BY_NAME
        if opens_for_writing(node, value):
            self._effects = True

    def _run_coroutine(self, node: ast.expr) -> None:
        if isinstance(node, ast.Call):
            value = self._names.resolve(node.func)
            if isinstance(value, Own) and value.is_async and not value.is_generator:
                self._follow(value, node)

    def _follow(self, function: Own, call: ast.Call) -> None:
        """Go into a function of the notebook's own, as the call does."""
        if function in self._active or len(self._active) >= _MOST_DEPTH or self._followed >= _MOST_FOLLOWED:
            return
        self._followed += 1
        self._active.append(function)
        outer, place, gone, certain = self._names, self._place, self._gone, self._certain
        inner = self._global.copy()
        arguments = function.node.args
        parameters = [one.arg for one in (*arguments.posonlyargs, *arguments.args)]
        for one in (*arguments.kwonlyargs, arguments.vararg, arguments.kwarg):
            if one is not None:
                inner.bind(one.arg, UNKNOWN)
        for index, name in enumerate(parameters):
            given = call.args[index] if index < len(call.args) else None
            given = next((keyword.value for keyword in call.keywords if keyword.arg == name), given)
            plain = given is not None and not any(isinstance(one, ast.Starred) for one in call.args)
            inner.bind(name, outer.resolve(given) if plain and given is not None else UNKNOWN)
        for name in local_names(function.node):
            if name not in parameters:
                inner.bind(name, UNKNOWN)
        self._names = inner
        if function.cell != self._number and self._place is None:
            self._place = call
        self._block(function.node.body)
        self._names, self._place, self._gone, self._certain = outer, place, gone, certain
        self._active.pop()

    # --- magics

    def _magic(self, node: ast.Call) -> None:
        argument = node.args[0] if node.args else None
        if not isinstance(argument, ast.Constant) or not isinstance(argument.value, int):
            return
        if not 0 <= argument.value < len(self._cell.magics):
            return
        magic = self._cell.magics[argument.value]
        for judged, line in magic_judged(magic, self._judge, self._names):
            self._add(judged, node, line)
        if magic.kind == "line":
            self._global.moved |= magic.name in ("cd", "pushd", "popd")
            if magic.name in ("reset", "reset_selective"):
                self._global.bound.clear()
            self._block(timed_statements(magic))
        else:
            self._effects = True
            written = magic.text.split()[-1:] if magic.name in ("writefile", "file") else []
            self._global.written |= {name.removesuffix(".py") for name in written}

    def _add(self, judged: Judged, node: ast.expr, line: int = 0) -> None:
        place = self._place or node
        self.seen.append(
            Seen(
                judged,
                line or place.lineno,
                place.col_offset,
                self._certain and not judged.likely,
                self._handled and judged.raises and not judged.kills,
                self._effects,
            )
        )

    def _fake(self, module: str) -> None:
        if module.partition(".")[0] in _FAKES or module.startswith(("unittest.mock", "mock", "pytest")):
            self._global.patched |= {"requests", "httpx", "urllib", "urllib3", "socket", "http", "pandas"}

    def _assign(self, targets: Sequence[ast.expr], value: ast.expr) -> None:
        found: Value = self._names.resolve(value)
        for target in targets:
            if isinstance(target, ast.Name):
                self._names.bind(target.id, found)
            else:
                self._forget(target)

    def _forget(self, target: ast.expr) -> None:
        if isinstance(target, ast.Attribute):
            value = self._names.resolve(target)
            if isinstance(value, Known):
                self._global.patched.add(value.path.replace("()", ""))
                self._global.patched.add(value.path)
            return
        if isinstance(target, ast.Name):
            self._names.bind(target.id, UNKNOWN)
        elif isinstance(target, ast.Tuple | ast.List):
            for element in target.elts:
                self._forget(element)
        elif isinstance(target, ast.Starred):
            self._forget(target.value)
