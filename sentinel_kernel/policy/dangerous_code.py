"""Finds Python code of the dangerous rule set, wherever it stands in a cell: what is called, and with what."""

from __future__ import annotations

import ast

from sentinel_kernel.policy.dangerous_shell import MOST_LINE, MOST_SHELL, dangerous_lines
from sentinel_kernel.policy.preflight_names import UNKNOWN, Known, Names, Text, bound_names, path_text
from sentinel_kernel.policy.preflight_tables import ALWAYS_SHELL, PROGRAMS, URLS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Final

    from sentinel_kernel.policy.preflight_names import Value

_NETWORK, _DECODED = "network", "decoded"
_DECODERS: Final = frozenset(
    (
        "base64.b64decode",
        "base64.b32decode",
        "base64.b85decode",
        "base64.a85decode",
        "base64.decodebytes",
        "base64.urlsafe_b64decode",
        "codecs.decode",
        "zlib.decompress",
        "gzip.decompress",
        "bz2.decompress",
        "lzma.decompress",
        "binascii.unhexlify",
        "binascii.a2b_base64",
        "builtins.bytes.fromhex",
        "marshal.loads",
    )
)
_UNPICKLERS: Final = frozenset(
    (
        "pickle.load",
        "pickle.loads",
        "pickle.Unpickler",
        "dill.load",
        "dill.loads",
        "cloudpickle.load",
        "cloudpickle.loads",
        "joblib.load",
        "marshal.load",
        "marshal.loads",
        "torch.load",
        "pandas.read_pickle",
        "numpy.load",
        "shelve.open",
    )
)
_INTERNALS: Final = frozenset(("__globals__", "__builtins__", "__code__", "__closure__", "__subclasses__"))
_CLASS_STEPS: Final = frozenset(("__base__", "__bases__", "__class__", "__mro__"))
_RUNNERS: Final = frozenset(("eval", "exec", "__import__", "compile"))
_NATIVE: Final = frozenset(
    ("CDLL", "PyDLL", "LibraryLoader", "cast", "memmove", "memset", "string_at", "wstring_at")
)
_PROCESSES: Final = frozenset(("os.fork", "os.forkpty", "subprocess.Popen", "multiprocessing.Process"))
_WAITS: Final = frozenset(("communicate", "join", "poll", "sleep", "wait", "waitpid"))
_MOST_OF_CELL: Final = 4 * MOST_SHELL
"""Characters of all shell text in one cell; a name may stand for the same text in a thousand calls."""

_HOME: Final = frozenset(("pathlib.Path.home", "os.getcwd", "pathlib.Path.cwd"))


class DangerousCode(ast.NodeVisitor):
    """Reads one cell. ``names`` and ``sources`` (name -> where its value comes from) go on to the next one."""

    def __init__(self, names: Names, sources: dict[str, str]) -> None:
        self._names = names
        self._sources = sources
        self.found: set[tuple[int, int, str]] = set()
        """(line, byte offset, rule)."""

        self.skipped = False
        """Whether some of the cell's shell text was not read, as there is too much of it."""

        self._left = _MOST_OF_CELL

    def shell(self, text: str) -> Iterable[tuple[int, str]]:
        """Return (line from 0, rule) of what is dangerous in shell text of the cell."""
        self._left -= len(text)
        if self._left < 0 or len(text) > MOST_SHELL:
            self.skipped = True
            return ()
        self.skipped |= any(len(line) > MOST_LINE for line in text.split("\n"))
        return dangerous_lines(text)

    def _tell(self, node: ast.expr | ast.stmt, rule: str, line: int = 0) -> None:
        self.found.add((node.lineno + line, node.col_offset, rule))

    # --- what names stand for

    def visit_Import(self, node: ast.Import) -> None:
        """Bind what is imported."""
        for alias in node.names:
            name = alias.asname or alias.name.partition(".")[0]
            self._bind(name, Known(alias.name if alias.asname else name), "")

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        """Bind what is imported."""
        for alias in node.names:
            if alias.name != "*":
                value = UNKNOWN if node.level else Known(f"{node.module}.{alias.name}")
                self._bind(alias.asname or alias.name, value, "")

    def visit_Assign(self, node: ast.Assign) -> None:
        """Bind a name to what its value comes to, and remember where that comes from."""
        self.visit(node.value)
        value, source = self._names.resolve(node.value), self._source(node.value)
        for target in node.targets:
            self.visit(target)
            for name in bound_names(target):
                self._bind(name, value if isinstance(target, ast.Name) else UNKNOWN, source)
            if isinstance(target, ast.Attribute) and target.attr == "__code__":
                self._tell(target, "reflection")

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        """Forget what the name stood for, and keep where it came from."""
        self.visit(node.value)
        if isinstance(node.target, ast.Name):
            source = self._sources.get(node.target.id) or self._source(node.value)
            self._bind(node.target.id, UNKNOWN, source)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        """Read a function: its parameters may be anything inside."""
        self._function(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
        """Read a function, as above."""
        self._function(node)

    def _function(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        for expression in (*node.decorator_list, *node.args.defaults):
            self.visit(expression)
        bound, sources = dict(self._names.bound), dict(self._sources)
        for argument in ast.walk(node.args):
            if isinstance(argument, ast.arg):
                self._bind(argument.arg, UNKNOWN, "")
        for statement in node.body:
            self.visit(statement)
        self._names.bound = bound
        self._sources.clear()
        self._sources.update(sources)
        self._bind(node.name, UNKNOWN, "")

    def visit_For(self, node: ast.For) -> None:
        """Read a loop; its names come from where what it goes through comes from."""
        self.visit(node.iter)
        for name in bound_names(node.target):
            self._bind(name, UNKNOWN, self._source(node.iter))
        for statement in (*node.body, *node.orelse):
            self.visit(statement)
        match node.iter:
            case ast.Call(func=ast.Name(id="range"), args=[ast.Constant(value=int() as count)]) if (
                count >= 1000
            ):
                self._endless(node)

    def visit_While(self, node: ast.While) -> None:
        """Read a loop."""
        self.generic_visit(node)
        if isinstance(node.test, ast.Constant) and node.test.value:
            self._endless(node)

    def visit_With(self, node: ast.With) -> None:
        """Read a block; its names come from where its items come from."""
        for item in node.items:
            self.visit(item.context_expr)
            if item.optional_vars is not None:
                for name in bound_names(item.optional_vars):
                    self._bind(name, self._names.resolve(item.context_expr), self._source(item.context_expr))
        for statement in node.body:
            self.visit(statement)

    def _bind(self, name: str, value: Value, source: str) -> None:
        self._names.bind(name, value)
        if source:
            self._sources[name] = source
        else:
            self._sources.pop(name, None)

    def _source(self, node: ast.AST) -> str:
        """Return where the value of an expression comes from: network, decoded or ""."""
        found = ""
        for one in ast.walk(node):
            if isinstance(one, ast.Name):
                found = found or self._sources.get(one.id, "")
            elif isinstance(one, ast.Call):
                path = self._path(one.func)
                if path in URLS and not path.startswith(("pandas.", "polars.", "numpy.")):
                    return _NETWORK
                if path in _DECODERS:
                    found = _DECODED
        return found

    def _path(self, node: ast.expr) -> str:
        value = self._names.resolve(node)
        return value.path if isinstance(value, Known) else ""

    # --- what is done

    def visit_Call(self, node: ast.Call) -> None:  # noqa: C901 - one branch a kind of call
        """Judge a call."""
        self.generic_visit(node)
        path = self._path(node.func)
        if path in ("builtins.eval", "builtins.exec") and node.args:
            self._executes(node)
        elif path in PROGRAMS and node.args:
            self._starts(path, node)
        elif path in _UNPICKLERS and node.args:
            self._unpickles(path, node)
        elif path == "shutil.rmtree" and node.args and self._is_broad(node.args[0]):
            self._tell(node, "broad-delete")
        elif path.startswith("ctypes."):
            if path.split(".")[1] in _NATIVE or path.startswith(("ctypes.cdll.", "ctypes.pythonapi.")):
                self._tell(node, "native-memory")
        elif path in ("types.CodeType", "types.FunctionType", "gc.get_objects", "gc.get_referrers") or (
            path == "builtins.__import__" and node.args and not self._is_known(node.args[0])
        ):
            self._tell(node, "reflection")
        elif path in ("builtins.getattr", "builtins.setattr") and len(node.args) >= 2:
            self._gets(node)
        elif path == "builtins.vars" and node.args and _is_builtins(node.args[0], self._path(node.args[0])):
            self._tell(node, "reflection")
        if isinstance(node.func, ast.Attribute):
            if node.func.attr == "from_address":
                self._tell(node, "native-memory")
            elif node.func.attr == "__subclasses__" and _steps_through_classes(node.func.value):
                self._tell(node, "reflection")

    def visit_Attribute(self, node: ast.Attribute) -> None:
        """Judge what is reached through a dot."""
        self.generic_visit(node)
        if node.attr in ("__globals__", "__builtins__", "f_builtins", "f_globals") or (
            isinstance(node.value, ast.Name) and node.value.id == "__builtins__"
        ):
            self._tell(node, "reflection")

    def visit_Subscript(self, node: ast.Subscript) -> None:
        """Judge what is reached through brackets."""
        self.generic_visit(node)
        key = self._names.resolve(node.slice)
        if _is_builtins(node.value) or (isinstance(key, Text) and key.value == "__builtins__"):
            self._tell(node, "reflection")

    def _executes(self, node: ast.Call) -> None:
        code = node.args[0]
        if isinstance(code, ast.Call) and self._path(code.func) == "builtins.compile" and code.args:
            code = code.args[0]
        source = self._source(code)
        text = self._names.resolve(code)
        if source:
            self._tell(node, "downloaded-code" if source == _NETWORK else "hidden-code")
        elif not (isinstance(text, Text) and text.complete) and not isinstance(code, ast.Constant):
            self._tell(node, "code-from-data")

    def _starts(self, path: str, node: ast.Call) -> None:
        shell = path in ALWAYS_SHELL or any(
            keyword.arg == "shell"
            and not (isinstance(keyword.value, ast.Constant) and not keyword.value.value)
            for keyword in node.keywords
        )
        first = node.args[0]
        text = self._names.resolve(first)
        if shell and isinstance(text, Text) and text.complete:
            for line, rule in self.shell(text.value):
                self._tell(node, rule, line if first.lineno != first.end_lineno else 0)
        elif shell and not self._is_quoted(first):
            self._tell(node, "downloaded-code" if self._source(first) == _NETWORK else "built-shell")
        elif isinstance(first, ast.List | ast.Tuple):
            words = [path_text(self._names.resolve(element)) for element in first.elts]
            known = [word.value if word is not None and word.complete else "?" for word in words]
            if known[:1] and known[0].rpartition("/")[2] in ("bash", "sh") and "-c" in known:
                self._script(node, known[known.index("-c") + 1 :])
            elif sum(map(len, known)) > MOST_SHELL:
                self.skipped = True
            elif any(rule == "broad-delete" for _, rule in self.shell(" ".join(known))):
                self._tell(node, "broad-delete")

    def _script(self, node: ast.Call, words: list[str]) -> None:
        if words[:1] == ["?"]:
            self._tell(node, "built-shell")
        elif words:
            for _, rule in self.shell(words[0]):
                self._tell(node, rule)

    def _is_quoted(self, node: ast.expr) -> bool:
        """Tell whether every value in a command is quoted for the shell."""
        if isinstance(node, ast.Call):
            return self._path(node.func) in ("shlex.join", "shlex.quote")
        if isinstance(node, ast.JoinedStr):
            parts = [part.value for part in node.values if isinstance(part, ast.FormattedValue)]
            return all(self._is_quoted(part) for part in parts)
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
            return self._is_quoted(node.left) and self._is_quoted(node.right)
        return self._is_known(node)

    def _is_known(self, node: ast.expr) -> bool:
        """Tell whether an expression is a text that can be read in the cell."""
        text = self._names.resolve(node)
        return isinstance(text, Text) and text.complete

    def _unpickles(self, path: str, node: ast.Call) -> None:
        if path in ("torch.load", "numpy.load"):
            safe = {"torch.load": "weights_only", "numpy.load": "allow_pickle"}[path]
            given = [keyword.value for keyword in node.keywords if keyword.arg == safe]
            truth = bool(given) and isinstance(given[0], ast.Constant) and bool(given[0].value)
            if truth == (path == "torch.load"):
                return
        text = self._names.resolve(node.args[0])
        url = path == "pandas.read_pickle" and isinstance(text, Text) and "://" in text.value[:10]
        if url or self._source(node.args[0]) == _NETWORK:
            self._tell(node, "downloaded-pickle")

    def _gets(self, node: ast.Call) -> None:
        name = self._names.resolve(node.args[1])
        of_builtins = _is_builtins(node.args[0], self._path(node.args[0]))
        known = name.value if isinstance(name, Text) and name.complete else None
        if (of_builtins and (known is None or known in _RUNNERS)) or known in _INTERNALS:
            self._tell(node, "reflection")

    def _is_broad(self, node: ast.expr) -> bool:
        text = path_text(self._names.resolve(node))
        if text is not None and text.complete:
            place = text.value.rstrip("/*")
            return place in ("", "~", ".", "..") or (
                place.startswith("/") and place.count("/") == 1 and place != "/tmp"
            )
        if isinstance(node, ast.Call):
            path = self._path(node.func)
            if path == "os.path.expanduser" and node.args:
                return self._is_broad(node.args[0])
            return path in _HOME
        return False

    def _endless(self, loop: ast.While | ast.For) -> None:
        """Tell of a loop that starts processes and neither waits for them nor ends."""
        nodes = [node for statement in loop.body for node in ast.walk(statement)]
        if any(isinstance(node, ast.Break | ast.Return | ast.Raise) for node in nodes):
            return
        calls = [node for node in nodes if isinstance(node, ast.Call)]
        if any(isinstance(call.func, ast.Attribute) and call.func.attr in _WAITS for call in calls):
            return
        for call in calls:
            if self._path(call.func) in _PROCESSES:
                self._tell(call, "fork-bomb")


def _is_builtins(node: ast.expr, path: str = "") -> bool:
    return path == "builtins" or (isinstance(node, ast.Name) and node.id == "__builtins__")


def _steps_through_classes(node: ast.expr) -> bool:
    """Tell whether an expression leads to a class that was not named: the root of all, or that of a value."""
    if isinstance(node, ast.Name):
        return node.id in ("object", "type")
    return any(
        isinstance(one, ast.Constant | ast.Tuple | ast.List | ast.Dict)
        or (isinstance(one, ast.Attribute) and one.attr in _CLASS_STEPS)
        or (isinstance(one, ast.Name) and one.id == "object")
        for one in ast.walk(node)
    )
