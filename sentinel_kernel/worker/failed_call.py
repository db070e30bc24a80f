"""What the expression that failed asked for, where its source and the values at hand tell: sizes, modes, call numbers.

Nothing of the program's is called and no expression is run: of the frame's names only those of plain numbers and texts,
of what an object holds itself, and of Python's own files are looked at. A class may have made any attribute a property.
"""

from __future__ import annotations

import ast
import errno
import io
import linecache
import operator
import os
import re
import sys
from inspect import getattr_static
from itertools import islice
from types import BuiltinMethodType, MethodType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

_SOURCE_CHARACTERS = 2000
_WORDS = 200
_NO_ROOM = re.compile(
    r"Not enough free space to write ([0-9]{1,18}) bytes|[0-9]{1,18} requested and [0-9]{1,18} written",
    re.ASCII,
)
_LARGEST = 1 << 62
_PUT_OUT = (
    (b"No space left on device", errno.ENOSPC),
    (b"MemoryError", errno.ENOMEM),
    (b"Cannot allocate memory", errno.ENOMEM),
    (b"std::bad_alloc", errno.ENOMEM),
)
_LAST_CHARACTERS = 4096
_NUMPY, _NUMPY_ERROR = ("numpy._core._exceptions", "numpy.core._exceptions"), "_ArrayMemoryError"
_METHODS = (BuiltinMethodType, MethodType)
_BUFFERED = (io.BufferedReader, io.BufferedWriter, io.BufferedRandom)
_OPERATIONS: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
}
_STARTERS = frozenset(
    {"fork", "forkpty", "posix_spawn", "posix_spawnp", "fork_exec", "_fork_exec", "spawnv_passfds"}
)
_WRITERS = frozenset(
    {
        *("mkdir", "makedirs", "touch", "write_text", "write_bytes", "mkfifo", "mknod"),
        *("symlink", "link", "rename", "replace", "truncate"),
    }
)


def errno_put_out(*texts: object) -> int | None:
    """Return the errno whose words end what a program has put out, where that was caught; None: no errno's do."""
    for text in texts:
        if isinstance(text, str):
            last = text[-_LAST_CHARACTERS:].encode("utf-8", "replace")
        else:
            last = text[-_LAST_CHARACTERS:] if isinstance(text, bytes) else b""
        found = (number for words, number in _PUT_OUT if words in last)
        if (number := next(found, None)) is not None:
            return number
    return None


def asked_bytes(error: BaseException, inner: TracebackType | None) -> int | None:
    """Return how many bytes a MemoryError's expression asked for, or None where that can't be told."""
    numpy = any(
        type(error) is vars(sys.modules[name]).get(_NUMPY_ERROR) for name in _NUMPY if name in sys.modules
    )
    total = getattr(error, "_total_size", None) if numpy else None
    if isinstance(total, int):
        return min(total, _LARGEST)
    node = failed_expression(inner)
    frame = inner.tb_frame if inner is not None else None
    for one in ast.walk(node) if node is not None and frame is not None else ():
        size = None
        if isinstance(one, ast.BinOp) and isinstance(one.op, ast.Mult):
            size = _repeated(_value(one.left, frame), _value(one.right, frame), one)
        elif isinstance(one, ast.Call) and isinstance(one.func, ast.Name) and len(one.args) == 1:
            count = _value(one.args[0], frame)
            if one.func.id in ("bytearray", "bytes") and type(count) is int:
                size = count
        if size is not None:
            return max(0, min(size, _LARGEST))
    return None


def largest_amount(inner: TracebackType | None) -> int | None:
    """Return the most bytes that the arguments of a failed call speak of: a size, or data to be written."""
    node = failed_expression(inner)
    if inner is None or not isinstance(node, ast.Call):
        return None
    amounts = []
    for argument in node.args:
        value = _value(argument, inner.tb_frame)
        if value is None and isinstance(argument, ast.BinOp) and isinstance(argument.op, ast.Mult):
            left, right = _value(argument.left, inner.tb_frame), _value(argument.right, inner.tb_frame)
            value = _repeated(left, right, argument)
        amounts.append(len(value) if isinstance(value, bytes | bytearray | str) else value)
    return max(
        (min(amount, _LARGEST) for amount in amounts if type(amount) is int and amount >= 0), default=None
    )


def file_written(inner: TracebackType | None) -> tuple[object, bool]:
    """Return the name of the file that a call was about, and whether it is gone again: closed, and without a name.

    (None, False) where neither the call's object, nor its descriptor, nor its first argument tells.
    """
    node = failed_expression(inner)
    if inner is None or not isinstance(node, ast.Call):
        return None, False
    frame = inner.tb_frame
    named = node.func.value if isinstance(node.func, ast.Attribute) else node.func
    owner: Any = named_value(named.id, frame) if isinstance(named, ast.Name) else None
    if type(owner) in _METHODS:
        owner = owner.__self__  # of a method that is called by another name, as tempfile does
    file = _file_below(owner)
    if file is not None:
        name = file.name
        if type(name) is int and file.closed:  # as tempfile makes them, without any name
            return vars(sys.modules.get("tempfile", sys)).get("tempdir"), True
        return name, file.closed and not (type(name) is str and os.path.lexists(name))
    first = _value(node.args[0], frame) if node.args else None
    if isinstance(first, str) and _called(node) == "open":
        return first, False
    try:
        return (os.readlink(f"/proc/self/fd/{first}") if type(first) is int and first >= 0 else None), False
    except OSError:
        return None, False


def room_wanted(error: OSError) -> int | None:
    """Return how many bytes numpy found no room for, 0 where it says that less than asked was written; else None.

    It writes by itself, and tells of what failed by a text alone.
    """
    text = error.args[0] if type(error) is OSError and error.args else None
    if type(text) is not str or len(text) > _WORDS:
        return None
    found = _NO_ROOM.search(text)
    return None if found is None else int(found[1] or 0)


def opens_to_write(inner: TracebackType | None) -> bool:
    """Tell whether a path was to be written or made, as far as the call's own words or the frame's tell."""
    if inner is None:
        return False
    scope = inner.tb_frame.f_locals
    mode = scope.get("mode") if type(scope) in _SCOPES else None
    node = failed_expression(inner)
    if isinstance(node, ast.Call):
        if _called(node) in _WRITERS:
            return True
        given = [keyword.value for keyword in node.keywords if keyword.arg == "mode"] or node.args[1:2]
        if given:
            mode = _value(given[0], inner.tb_frame)
    return type(mode) is str and 0 < len(mode) <= 4 and set(mode) <= set("rwxabt+") and mode[0] in "wxa+"


def address_wanted(inner: TracebackType | None) -> str | None:
    """Return the address and port that a call was to connect or send to, as ``ADDRESS:PORT``."""
    node = failed_expression(inner)
    if inner is None or not isinstance(node, ast.Call):
        return None
    for argument in node.args:
        if isinstance(argument, ast.Tuple):
            value: object = tuple(_value(one, inner.tb_frame) for one in argument.elts)
        else:
            value = _value(argument, inner.tb_frame)
        if type(value) is tuple and len(value) in (2, 4) and type(value[0]) is str and type(value[1]) is int:
            host = f"[{value[0]}]" if ":" in value[0] else value[0]
            return f"{host}:{value[1]}"[:_WORDS]
    return None


def is_of_datagrams(inner: TracebackType | None) -> bool:
    """Tell whether a call was made on a socket of datagrams; a class of the program's own is not asked."""
    node = failed_expression(inner)
    if inner is None or not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return False
    named = node.func.value
    owner: Any = named_value(named.id, inner.tb_frame) if isinstance(named, ast.Name) else None
    sockets: Any = sys.modules.get("socket")
    return sockets is not None and type(owner) is sockets.socket and bool(owner.type == sockets.SOCK_DGRAM)


def starts_process(inner: TracebackType) -> bool:
    """Tell whether the call is one that starts a process."""
    node = failed_expression(inner)
    return isinstance(node, ast.Call) and _called(node) in _STARTERS


def _called(node: ast.Call) -> str:
    return node.func.attr if isinstance(node.func, ast.Attribute) else str(getattr(node.func, "id", ""))


def system_call_number(inner: TracebackType | None) -> int | None:
    """Return the number in a call of syscall(2) that has just been made in this frame, if there is one such call."""
    if inner is None:
        return None
    frame = inner.tb_frame
    first = max(1, inner.tb_lineno - 8)
    text = "".join(
        linecache.getline(frame.f_code.co_filename, line) for line in range(first, inner.tb_lineno + 1)
    )
    numbers = set()
    for line in text.splitlines():
        try:
            text = line.strip()
            tree = ast.parse(f"{text}\n pass" if text.startswith(("if ", "while ", "with ")) else text or "0")
        except (SyntaxError, ValueError):
            continue
        for node in islice(ast.walk(tree), 200):
            if isinstance(node, ast.Call) and node.args and getattr(node.func, "attr", "") == "syscall":
                argument = node.args[0]
                if isinstance(argument, ast.Call) and len(argument.args) == 1:
                    argument = argument.args[0]  # c_long(425)
                numbers.add(_value(argument, frame))
    number = numbers.pop() if len(numbers) == 1 else None
    return number if type(number) is int and 0 <= number < 1 << 31 else None


def _repeated(left: object, right: object, node: ast.BinOp) -> int | None:
    """Return the bytes of a sequence that is repeated."""
    for sequence, count in ((left, right), (right, left)):
        if type(count) is not int:
            continue
        if isinstance(sequence, bytes | bytearray):
            return len(sequence) * count
        if isinstance(sequence, str):
            return len(sequence) * count * (1 if sequence.isascii() else 2)
        if isinstance(sequence, list | tuple):
            return len(sequence) * count * 8
    written = next((one for one in (node.left, node.right) if isinstance(one, ast.List | ast.Tuple)), None)
    number = right if written is node.left else left
    return len(written.elts) * number * 8 if written is not None and type(number) is int else None


def _value(node: ast.expr, frame: Any) -> object:  # noqa: ANN401 - a frame, which may be any object's
    """Return the plain value of an expression of numbers, texts and names; None where it is anything else."""
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.Name):
        value = named_value(node.id, frame)
        return value if type(value) in (int, str, bytes, bytearray, list, tuple) else None
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        value = getattr_static(named_value(node.value.id, frame), node.attr, None)
        return value if type(value) in (int, str) else None
    return _computed(node, frame) if isinstance(node, ast.BinOp) else None


def named_value(name: str, frame: Any) -> Any:  # noqa: ANN401 - a frame has any object
    """Return what a name stands for in a frame; None where a program's own mapping would be asked."""
    for scope in (frame.f_locals, frame.f_globals):
        if type(scope) in _SCOPES and name in scope:
            return scope[name]
    return None


def _file_below(owner: Any) -> io.FileIO | None:  # noqa: ANN401 - as above
    """Return the file that one of Python's own objects reads or writes; no derived class is asked."""
    try:
        if type(owner) is io.TextIOWrapper:
            owner = owner.buffer
        if type(owner) in _BUFFERED:
            owner = owner.raw
    except ValueError:  # it was detached from its file
        return None
    return owner if type(owner) is io.FileIO else None


def _own_scope() -> type:
    return type(sys._getframe().f_locals)  # noqa: SLF001 - a proxy from Python 3.13 on


_SCOPES = (dict, _own_scope())


def _computed(node: ast.BinOp, frame: Any) -> int | None:  # noqa: ANN401 - as above
    left, right = _value(node.left, frame), _value(node.right, frame)
    if type(left) is not int or type(right) is not int or max(abs(left), abs(right)) > _LARGEST:
        return None
    if isinstance(node.op, ast.LShift | ast.Pow):
        if not 0 <= right < 64:
            return None
        return left << right if isinstance(node.op, ast.LShift) else int(left**right)
    operation = _OPERATIONS.get(type(node.op))
    if operation is None or (right == 0 and isinstance(node.op, ast.FloorDiv)):
        return None
    return int(operation(left, right))


def failed_expression(inner: TracebackType | None) -> ast.expr | None:
    """Return the expression that the frame stands at, by the positions of its instruction (Python 3.11)."""
    if inner is None or sys.version_info < (3, 11):
        return None
    code = inner.tb_frame.f_code
    place = next(islice(code.co_positions(), inner.tb_lasti // 2, None), None)
    if place is None or None in place:
        return None
    first, last, start, end = place
    lines = [
        linecache.getline(code.co_filename, line).encode() for line in range(first or 0, (last or 0) + 1)
    ]
    if not lines or sum(map(len, lines)) > _SOURCE_CHARACTERS:
        return None
    lines[-1] = lines[-1][:end]
    lines[0] = lines[0][start:]
    try:
        return ast.parse(b"".join(lines).strip(), mode="eval").body
    except (SyntaxError, ValueError):
        return None
