"""Estimates from a cell's source how much it needs of a limit: bytes, processes, files, seconds."""

from __future__ import annotations

import ast
import re

from sentinel_kernel.policy.cell_source import CellSource, words
from sentinel_kernel.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    _OfNode = Callable[[CellSource, ast.AST, "_Numbers"], float]
    _OfShell = Callable[[str], list[float]]

_MOST = 1 << 50
_DEPTH = 2
_MOST_WORDS = 64
_POINTER = 8
_NUMBER = 32  # an int or float object of CPython
_OBJECT = 64

_BY_FIRST = words(
    "bytearray bytes os.urandom random.randbytes secrets.token_bytes .randbytes .truncate .seek"
)
_BY_LAST = words("os.ftruncate os.truncate os.posix_fallocate mmap.mmap")
_ARRAYS = words(
    "zeros ones empty full rand randn random normal standard_normal uniform randint integers arange "
    "linspace eye identity random_sample"
)
_SLEEPS = frozenset(("time.sleep", "asyncio.sleep", ".sleep", "sleep"))
_CLOCKS = words(
    "time.time time.monotonic time.perf_counter time.process_time time.thread_time .time .perf_counter"
)
_POOLS = frozenset(("max_workers", "processes", "n_jobs", "num_workers", "n_workers", "threads", "workers"))
_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
_SHELL_BYTES = re.compile(r"(?:head -c|truncate -s|fallocate -l|-s)\s*(\d{1,15})\s*([kKmMgG]?)")
_DD = re.compile(r"bs=(\d{1,12})([kKmMgG]?)\w*+\s[^\n]{0,120}?count=(\d{1,12})")
_SHELL_SECONDS = re.compile(r"\bsleep\s+(\d{1,6}(?:\.\d+)?)")


class Need(Record):
    """What a cell would use: ``total`` if all is kept, ``single`` in its largest piece; 0 where nothing is seen."""

    total: float = 0
    single: float = 0


def bytes_needed(code: str) -> Need:
    """Return the bytes that the cell makes, by the constants in it."""
    return _needed(code, _bytes_of, _shell_bytes, 0)


def seconds_needed(code: str) -> Need:
    """Return the seconds that the cell waits or computes, by the constants in it."""
    return _needed(code, _seconds_of, _shell_seconds, 0)


def count_needed(code: str) -> Need:
    """Return how many things (processes, threads, files) the cell has at once, by its loops and its pools."""
    return _needed(code, _count_of, lambda _text: [], 0)


def _needed(code: str, of_node: _OfNode, of_shell: _OfShell, depth: int) -> Need:
    cell = CellSource(code)
    numbers = _Numbers(cell)
    total = single = 0.0
    if cell.shell or cell.masked:
        for start, end in cell.shell_lines():
            for found in of_shell(cell.text[start:end]):
                total, single = total + found, max(single, found)
    for node, times in _with_times(cell, numbers):
        amount = of_node(cell, node, numbers) or 0.0
        if isinstance(node, ast.List | ast.Tuple) and len(node.elts) <= _MOST_WORDS:
            # the words of a command
            texts = [item.value for item in node.elts if isinstance(item, ast.Constant)]
            amount = amount or sum(of_shell(" ".join(text for text in texts if isinstance(text, str))))
        if not amount and isinstance(node, ast.Constant) and isinstance(node.value, str) and depth < _DEPTH:
            shell = sum(of_shell(node.value))
            inner = Need(shell, shell)
            if "(" in node.value and len(node.value) > 8:
                inner = max(
                    (inner, _needed(node.value, of_node, of_shell, depth + 1)), key=lambda need: need.total
                )
            total, single = total + inner.total * times, max(single, inner.single)
        elif amount:
            total, single = total + amount * times, max(single, amount)
    return Need(min(total, _MOST), min(single, _MOST))


def _with_times(cell: CellSource, numbers: _Numbers) -> Iterator[tuple[ast.AST, float]]:
    """Yield each node with how often the loops around it run it, as far as they count over a range."""
    if cell.tree is None:
        return
    stack: list[tuple[ast.AST, float]] = [(cell.tree, 1.0)]
    while stack:
        node, times = stack.pop()
        yield node, times
        inside = times
        if isinstance(node, ast.For | ast.AsyncFor):
            inside = min(times * numbers.rounds(node.iter), _MOST)
            stack += [(child, inside) for child in node.body]
            stack += [(child, times) for child in (node.iter, node.target, *node.orelse)]
            continue
        if isinstance(node, ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp):
            for generator in node.generators:
                stack.append((generator.iter, inside))
                inside = min(inside * numbers.rounds(generator.iter), _MOST)
            elements = [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]
            stack += [(child, inside) for child in elements]
            continue
        stack += [(child, inside) for child in ast.iter_child_nodes(node)]


class _Numbers:
    """The numbers that a cell's constants and simple assignments come to."""

    def __init__(self, cell: CellSource) -> None:
        self._cell = cell
        self._names: dict[str, float] = {}
        for name, assigned in cell.assigned.items():
            values = [value for node in assigned if (value := self.value(node)) is not None]
            if values:
                self._names[name] = max(values)

        functions = {node.name: node for node in cell.nodes() if isinstance(node, ast.FunctionDef)}
        for call, name in cell.calls():
            if (function := functions.get(name)) is not None:
                self._bind(function, call)

    def _bind(self, function: ast.FunctionDef, call: ast.Call) -> None:
        """Note what a call of the cell's own function gives its parameters."""
        names = [argument.arg for argument in function.args.args]
        given = [*zip(names, call.args, strict=False)]
        given += [(word.arg, word.value) for word in call.keywords if word.arg in names]
        for name, node in given:
            value = self.value(node)
            if value is not None:
                self._names[name] = max(value, self._names.get(name, value))

    def value(self, node: ast.AST | None, depth: int = 0) -> float | None:  # noqa: PLR0911 - a table
        """Return the number that ``node`` comes to, None where it takes more than arithmetic."""
        if depth > 20:
            return None
        match node:
            case ast.Constant(value=bool()):
                return None
            case ast.Constant(value=int() | float() as number):
                return float(number) if abs(number) <= _MOST else None
            case ast.Name(id=name):
                return self._names.get(name)
            case ast.Call(args=[inner]) if self._cell.name_of(node.func) == "int":
                return self.value(inner, depth + 1)
            case ast.BinOp():
                left, right = self.value(node.left, depth + 1), self.value(node.right, depth + 1)
                return None if left is None or right is None else _operated(node.op, left, right)
        return None

    def rounds(self, node: ast.AST) -> float:
        """Return how often a loop over ``node`` runs, 1 where that is not seen."""
        if isinstance(node, ast.Call) and self._cell.name_of(node.func) == "range" and node.args:
            values = [self.value(argument) for argument in node.args]
            if None not in values:
                first, last = (0.0, values[0]) if len(values) == 1 else (values[0], values[1])
                step = values[2] if len(values) > 2 else 1.0
                return max(1.0, ((last or 0) - (first or 0)) / (step or 1.0))
        if isinstance(node, ast.List | ast.Tuple):
            return max(1.0, float(len(node.elts)))
        return 1.0


def _operated(operator: ast.operator, left: float, right: float) -> float | None:
    try:
        match operator:
            case ast.Add():
                result = left + right
            case ast.Sub():
                result = left - right
            case ast.Mult():
                result = left * right
            case ast.FloorDiv() | ast.Div():
                result = left / right
            case ast.LShift() if 0 <= right <= 50:
                result = left * 2.0**right
            case ast.Pow() if abs(left) <= 1 << 20 and 0 <= right <= 50:
                result = left**right
            case _:
                return None
    except (ArithmeticError, ValueError):
        return None
    return float(result) if abs(result) <= _MOST else None


def _bytes_of(cell: CellSource, node: ast.AST, numbers: _Numbers) -> float:
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        return _repeated(node.left, numbers.value(node.right)) or _repeated(
            node.right, numbers.value(node.left)
        )
    if isinstance(node, ast.ListComp | ast.SetComp | ast.DictComp):
        rounds = 1.0
        for generator in node.generators:
            rounds *= numbers.rounds(generator.iter)
        return rounds * _OBJECT if rounds > 1 else 0.0
    return _bytes_of_call(cell, node, numbers) if isinstance(node, ast.Call) else 0.0


def _repeated(node: ast.AST, times: float | None) -> float:
    if times is None:
        return 0.0
    if isinstance(node, ast.Constant) and isinstance(node.value, str | bytes):
        return times * len(node.value)
    return times * _POINTER * len(node.elts) if isinstance(node, ast.List | ast.Tuple) else 0.0


def _bytes_of_call(cell: CellSource, node: ast.Call, numbers: _Numbers) -> float:
    name = cell.name_of(node.func)
    tail = name.rpartition(".")[2]
    values = [numbers.value(argument) for argument in node.args]
    found: list[float | None] = []
    if name in _BY_FIRST or f".{tail}" in _BY_FIRST:
        found = values[:1]
    elif name in _BY_LAST:
        found = values[::-1]
    elif name == "list" and node.args and (rounds := numbers.rounds(node.args[0])) > 1:
        found = [rounds * (_POINTER + _NUMBER)]
    elif tail in _ARRAYS and node.args:
        found = [_array(cell, node, numbers)]
    else:
        found = [numbers.value(word.value) for word in node.keywords if word.arg in ("size", "length")]
    return next((value for value in found if value), 0.0)


def _array(cell: CellSource, node: ast.Call, numbers: _Numbers) -> float:
    """Return the bytes of numpy's array that a call makes."""
    count = 1.0
    first = node.args[0]
    of_dimensions = cell.name_of(node.func).rpartition(".")[2] in ("rand", "randn")
    parts = first.elts if isinstance(first, ast.Tuple | ast.List) else node.args if of_dimensions else [first]
    for part in parts:
        count *= numbers.value(part) or 1.0
    width = 8.0
    for keyword in (*node.keywords, *node.args[1:]):
        text = cell.segment(keyword.value if isinstance(keyword, ast.keyword) else keyword)
        if found := re.search(r"(?:int|float|complex|bool|u|i|f|b)_?(\d{1,3})\b", text):
            number = int(found[1])
            width = number / 8 if number >= 8 and len(found[0]) > 3 else float(number)
    return count * max(width, 1.0) if count > 1 else 0.0


def _seconds_of(cell: CellSource, node: ast.AST, numbers: _Numbers) -> float:
    if isinstance(node, ast.Call) and cell.name_of(node.func) in _SLEEPS and node.args:
        return numbers.value(node.args[0]) or 0.0
    if isinstance(node, ast.BinOp | ast.Compare):
        parts = [node.left, node.right] if isinstance(node, ast.BinOp) else [node.left, *node.comparators]
        clocked = any(
            isinstance(inner, ast.Call) and cell.name_of(inner.func) in _CLOCKS
            for part in parts
            for inner in ast.walk(part)
        )
        if clocked:
            return max((numbers.value(part) or 0.0 for part in parts), default=0.0)
    return 0.0


def _count_of(cell: CellSource, node: ast.AST, numbers: _Numbers) -> float:
    if not isinstance(node, ast.Call):
        return 0.0
    name = cell.name_of(node.func)
    if name == "range":
        return numbers.rounds(node)
    values = [numbers.value(keyword.value) for keyword in node.keywords if keyword.arg in _POOLS]
    if (
        name.rpartition(".")[2] in ("ThreadPoolExecutor", "ProcessPoolExecutor", "Pool", "ThreadPool")
        and node.args
    ):
        values.append(numbers.value(node.args[0]))
    return max((value for value in values if value), default=0.0)


def _shell_bytes(text: str) -> list[float]:
    found = [float(number) * _UNITS[unit.lower()] for number, unit in _SHELL_BYTES.findall(text)]
    found += [float(size) * _UNITS[unit.lower()] * float(count) for size, unit, count in _DD.findall(text)]
    return [min(value, _MOST) for value in found]


def _shell_seconds(text: str) -> list[float]:
    return [float(number) for number in _SHELL_SECONDS.findall(text)]
