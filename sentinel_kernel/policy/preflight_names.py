"""What the names of a notebook's cells stand for: modules and their functions, constants, functions of its own."""

from __future__ import annotations

import ast
import builtins

from sentinel_kernel.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Final

BUILTIN_NAMES: Final = frozenset(dir(builtins))
_MOST_TEXT = 4096


class Known(Record):
    """A module, or something in it, by its full name; ``requests.Session().get`` is a method of an instance."""

    path: str


class Text(Record):
    """A string, or (``complete`` False) what it begins with."""

    value: str
    complete: bool = True


class Number(Record):
    """A whole number."""

    value: int


class Instance(Record):
    """What calling ``path`` returned. ``texts`` and ``numbers`` are of the call's arguments as far as they are known.

    An argument that is not known is None; ``keywords`` are the names of those that were given by name.
    """

    path: str
    arguments: tuple[Value, ...] = ()
    keywords: tuple[tuple[str, Value], ...] = ()


class Own:
    """A function that a cell defines. ``cell`` counts the cells, to tell this one's own from earlier ones'."""

    def __init__(self, node: ast.FunctionDef | ast.AsyncFunctionDef, cell: int) -> None:
        self.node = node
        self.cell = cell
        self.is_async = isinstance(node, ast.AsyncFunctionDef)
        self.is_generator = _yields(node)


class Unknown(Record):
    """Bound, and to something that can't be told."""


UNKNOWN: Final = Unknown()
NOTHING: Final = Known("builtins.None")
Value = Known | Text | Number | Instance | Own | Unknown | None
"""None is what was never bound as far as is known."""

INSTANCES: Final = {
    "requests.Session": "requests.Session",
    "requests.session": "requests.Session",
    "httpx.Client": "httpx.Client",
    "urllib3.PoolManager": "urllib3.PoolManager",
    "http.client.HTTPConnection": "http.client.HTTPConnection",
    "http.client.HTTPSConnection": "http.client.HTTPConnection",
    "socket.socket": "socket.socket",
    "pathlib.Path": "pathlib.Path",
    "pathlib.PosixPath": "pathlib.Path",
    "ctypes.CDLL": "ctypes.CDLL",
    "ctypes.PyDLL": "ctypes.CDLL",
    "ctypes.cdll.LoadLibrary": "ctypes.CDLL",
    "ctypes.util.find_library": "ctypes.util.find_library",
    "urllib.request.Request": "urllib.request.Request",
    "pandas.DataFrame": "pandas.DataFrame",
    "pandas.Series": "pandas.DataFrame",
    "pandas.read_csv": "pandas.DataFrame",
    "pandas.concat": "pandas.DataFrame",
    "polars.DataFrame": "polars.DataFrame",
}
"""What calling these returns is kept in mind, under the name on the right."""

_REPLACED_BY = frozenset(("transport", "mounts", "app"))
"""Keyword arguments that take the network out of an HTTP client."""


class Names:
    """The global names after some cells. ``is_own`` tells whether a module of that name lies beside the notebook."""

    def __init__(self, is_own: Callable[[str], bool] | None = None) -> None:
        self.bound: dict[str, Value] = {}
        self.patched: set[str] = set()
        """Full names that a cell has assigned to."""
        self.star = False
        """Something was imported by a star: a builtin's name may be another's now."""
        self.moved = False
        """The working folder may have changed."""
        self.written: set[str] = set()
        """Modules that a cell has written beside the notebook."""
        self._is_own = is_own

    def copy(self) -> Names:
        """Return names that can change without these."""
        other = Names(self._is_own)
        other.bound, other.patched = dict(self.bound), set(self.patched)
        other.star, other.moved, other.written = self.star, self.moved, set(self.written)
        return other

    def bind(self, name: str, value: Value) -> None:
        """Let ``name`` stand for ``value``."""
        self.bound[name] = UNKNOWN if value is None else value

    def module(self, name: str) -> Value:
        """Return what ``import name`` gives."""
        root = name.partition(".")[0]
        own = root in self.written or (self._is_own is not None and self._is_own(root))
        return UNKNOWN if own else Known(name)

    def look_up(self, name: str) -> Value:
        """Return what ``name`` stands for."""
        if name in self.bound:
            return self.bound[name]
        if name in BUILTIN_NAMES and not self.star:
            return self._unpatched(f"builtins.{name}")
        return None

    def resolve(self, node: ast.expr) -> Value:  # noqa: C901, PLR0911 - one return a kind of expression
        """Return what an expression stands for; None or UNKNOWN where that can't be told."""
        match node:
            case ast.Name():
                return self.look_up(node.id)
            case ast.Constant(value=None):
                return NOTHING
            case ast.Constant(value=bool()):
                return UNKNOWN
            case ast.Constant(value=str() as text):
                return Text(text[:_MOST_TEXT], len(text) <= _MOST_TEXT)
            case ast.Constant(value=int() as number):
                return Number(number)
            case ast.Attribute():
                return self.attribute(self.resolve(node.value), node.attr)
            case ast.Call():
                return self._call(node)
            case ast.JoinedStr():
                return self._joined(node.values)
            case ast.FormattedValue(conversion=-1, format_spec=None):
                return self.resolve(node.value)
            case ast.BinOp():
                return self._operation(node)
            case ast.UnaryOp(op=ast.USub()):
                value = self.resolve(node.operand)
                return Number(-value.value) if isinstance(value, Number) else UNKNOWN
            case ast.NamedExpr():
                return self.resolve(node.value)
        return UNKNOWN

    def _unpatched(self, path: str) -> Value:
        if self.patched and any(path == one or path.startswith(f"{one}.") for one in self.patched):
            return UNKNOWN
        return Known(path)

    def attribute(self, value: Value, name: str) -> Value:
        """Return what ``value.name`` stands for."""
        if isinstance(value, Known):
            return self._unpatched(f"{value.path}.{name}")
        if isinstance(value, Instance):
            if value.path == "pathlib.Path" and name == "parent":
                return UNKNOWN
            return self._unpatched(f"{value.path}().{name}")
        return UNKNOWN

    def _call(self, node: ast.Call) -> Value:  # noqa: PLR0911 - one return a function that is followed
        function = self.resolve(node.func)
        if not isinstance(function, Known):
            return UNKNOWN
        path, arguments = function.path, node.args
        if path == "builtins.getattr" and len(arguments) >= 2:
            attribute = self.resolve(arguments[1])
            if isinstance(attribute, Text) and attribute.complete:
                return self.attribute(self.resolve(arguments[0]), attribute.value)
        if path in ("builtins.__import__", "importlib.import_module") and len(arguments) == 1:
            name = self.resolve(arguments[0])
            if isinstance(name, Text) and name.complete:
                root = name.value.partition(".")[0] if path == "builtins.__import__" else name.value
                return self.module(root)
        if path == "os.path.join" and arguments:
            return _joined_path([self.resolve(argument) for argument in arguments])
        if path == "builtins.str" and len(arguments) == 1:
            value = self.resolve(arguments[0])
            return path_text(value) or UNKNOWN
        if path in INSTANCES:
            if any(keyword.arg is None or keyword.arg in _REPLACED_BY for keyword in node.keywords):
                return UNKNOWN
            keywords = tuple((str(keyword.arg), self.resolve(keyword.value)) for keyword in node.keywords)
            found = tuple(self.resolve(argument) for argument in arguments)
            return Instance(INSTANCES[path], found, keywords)
        return UNKNOWN

    def _joined(self, values: Iterable[ast.expr]) -> Value:
        text = ""
        for part in values:
            value = self.resolve(part)
            if isinstance(value, Number):
                value = Text(str(value.value))
            found = path_text(value)
            if found is None:
                return Text(text, complete=False)
            text += found.value
            if not found.complete or len(text) > _MOST_TEXT:
                return Text(text[:_MOST_TEXT], complete=False)
        return Text(text)

    def _operation(self, node: ast.BinOp) -> Value:  # noqa: PLR0911 - one return an operator
        left = self.resolve(node.left)
        if isinstance(node.op, ast.Add) and isinstance(left, Text):
            if not left.complete:
                return left
            right = self.resolve(node.right)
            if isinstance(right, Text):
                return Text((left.value + right.value)[:_MOST_TEXT], right.complete)
            return Text(left.value, complete=False)
        if isinstance(node.op, ast.Mod) and isinstance(left, Text):
            return Text(left.value.partition("%")[0], complete=False)
        if isinstance(node.op, ast.Div) and isinstance(left, Instance) and left.path == "pathlib.Path":
            joined = _joined_path([path_text(left), path_text(self.resolve(node.right))])
            return Instance("pathlib.Path", (joined,))
        if isinstance(node.op, ast.BitOr):
            right = self.resolve(node.right)
            if isinstance(left, Number) and isinstance(right, Number):
                return Number(left.value | right.value)
        return UNKNOWN


def path_text(value: Value) -> Text | None:
    """Return the text of a string or of a path, None where it is not known."""
    if isinstance(value, Text):
        return value
    if isinstance(value, Instance) and value.path == "pathlib.Path" and value.arguments:
        joined = _joined_path(list(value.arguments))
        return joined if isinstance(joined, Text) else None
    return None


def _joined_path(parts: list[Value]) -> Value:
    text = ""
    for part in parts:
        found = path_text(part)
        if found is None:
            return Text(text + "/", complete=False) if text else UNKNOWN
        text = found.value if found.value.startswith("/") or not text else f"{text.rstrip('/')}/{found.value}"
        if not found.complete:
            return Text(text, complete=False)
    return Text(text)


def bound_names(target: ast.expr) -> list[str]:
    """Return the names that an assignment to ``target`` binds."""
    return [node.id for node in ast.walk(target) if isinstance(node, ast.Name)]


def _yields(node: ast.AST) -> bool:
    """Tell whether a function's own body yields."""
    waiting: list[ast.AST] = list(ast.iter_child_nodes(node))
    while waiting:
        one = waiting.pop()
        if isinstance(one, ast.Yield | ast.YieldFrom):
            return True
        if not isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef):
            waiting += ast.iter_child_nodes(one)
    return False
