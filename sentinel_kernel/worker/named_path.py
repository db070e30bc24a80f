"""Which path an error is about that has no field for one: by its words, or by the argument of the call that failed.

Libraries in C++ and Rust say in words alone what the Linux kernel said, with an errno (Rust's std::io::Error, Apache
Arrow's) or with strerror(3)'s text behind the path (DuckDB's).

As in failed_call.py nothing of the program's is called: texts and paths are taken where their class is Python's own.
"""

from __future__ import annotations

import ast
import errno
import os
import pathlib
import re
from typing import TYPE_CHECKING, Any

from sentinel_kernel.worker.failed_call import failed_expression, named_value

if TYPE_CHECKING:
    from types import TracebackType

_WORDS = 4096
_QUOTED = re.compile(r"""(['"`])([^'"`\n]*/[^'"`\n]*)\1""")
_AT_THE_END = re.compile(r"(^|[\s:])(/[^\s'\"`]+)$")
_OF_RUST = re.compile(r"""\(os error (\d{1,3})\)(?::? ["'`]?(/[^\n"'`]+))?""")
_NUMBERS = {
    os.strerror(number): number
    for number in (
        *(errno.ENOENT, errno.ENOTDIR, errno.EACCES, errno.EPERM, errno.EROFS, errno.EXDEV, errno.EBUSY),
        *(errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EMFILE, errno.ENOMEM),
    )
}
_WRITES = re.compile(r"(?:write|sink|save|dump|export|to)_")
_LOCALS = 100
_CANNOT_OPEN = 14
"""SQLITE_CANTOPEN, the lowest byte of each of its kinds (sqlite.org/rescode.html)."""

_PATHS = (str, pathlib.PosixPath)


def number_in_words(error: BaseException) -> int | None:
    """Return the errno that the words of an error end with, as a number or as its text."""
    text = _words_of(error)
    if found := _OF_RUST.search(text):
        return int(found[1])
    return _NUMBERS.get(text.rpartition(": ")[2].strip())


def path_in_words(error: BaseException, inner: TracebackType | None) -> tuple[str | None, bool]:
    """Return the path that the words of an error quote, and whether it was to be written.

    Where a folder is quoted, as by pandas, that is to take a file which the innermost frame knows: the file.
    """
    text = _words_of(error)
    found = _OF_RUST.search(text)
    if found is not None and found[2] is not None:
        return found[2], inner is not None and _WRITES.match(inner.tb_frame.f_code.co_name) is not None
    found = _QUOTED.search(text)
    if found is None and isinstance(error, FileNotFoundError | PermissionError):
        found = _AT_THE_END.search(text)
    if found is None:
        return None, False
    quoted = found[2]
    scope = inner.tb_frame.f_locals if inner is not None else {}
    for value in list(scope.values())[:_LOCALS]:
        path = os.fspath(value) if type(value) in _PATHS else ""
        if (
            len(path) <= _WORDS
            and path
            and os.path.normpath(os.path.dirname(path)) == os.path.normpath(quoted)
        ):
            return path, True
    return quoted, False


def _words_of(error: BaseException) -> str:
    text = error.args[-1] if error.args and len(error.args) <= 2 else None
    return text[:_WORDS] if type(text) is str else ""


def database_not_opened(code: object, inner: TracebackType | None) -> tuple[str | None, bool]:
    """Return the file that SQLite could not open, by the call's own words, and whether it was to be written."""
    node = failed_expression(inner)
    if (
        type(code) is not int
        or code & 0xFF != _CANNOT_OPEN
        or inner is None
        or not isinstance(node, ast.Call)
    ):
        return None, False
    given = [*node.args[:1], *(one.value for one in node.keywords if one.arg == "database")]
    path = _path_of(given[0], inner.tb_frame) if given else None
    if path is None or path in ("", ":memory:"):
        return None, False
    if not path.startswith("file:"):
        return path, True
    path, _, options = path.removeprefix("file:").partition("?")
    return "/" + path.lstrip("/") if path.startswith("//") else path, not _reads(options)


def _reads(options: str) -> bool:
    return any(one in ("mode=ro", "immutable=1") for one in options.split("&"))


def _path_of(node: ast.expr, frame: Any) -> str | None:  # noqa: ANN401, PLR0911 - a frame; one return a form
    """Return the text that an expression stands for, where it is one of the usual forms of a path."""
    if isinstance(node, ast.Starred):
        given = named_value(node.value.id, frame) if isinstance(node.value, ast.Name) else None
        return given[0] if type(given) in (list, tuple) and given and type(given[0]) is str else None
    if isinstance(node, ast.Constant | ast.Name):
        value: Any = node.value if isinstance(node, ast.Constant) else named_value(node.id, frame)
        return os.fspath(value) if type(value) in _PATHS else None
    if isinstance(node, ast.JoinedStr):
        return _joined(
            [one.value if isinstance(one, ast.FormattedValue) else one for one in node.values], frame, ""
        )
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Div):
        between = os.sep if isinstance(node.op, ast.Div) else ""
        return _joined([node.left, node.right], frame, between)
    if not isinstance(node, ast.Call) or node.keywords:
        return None
    called = node.func.attr if isinstance(node.func, ast.Attribute) else str(getattr(node.func, "id", ""))
    if called in ("Path", "join", "str", "fspath", "expanduser") and node.args:
        path = _joined(node.args, frame, os.sep)
        return os.path.expanduser(path) if called == "expanduser" and path is not None else path
    if called == "home" and not node.args:
        return os.path.expanduser("~")
    return None


def _joined(nodes: list[ast.expr], frame: Any, between: str) -> str | None:  # noqa: ANN401 - a frame
    parts = [_path_of(node, frame) for node in nodes]
    texts = [part for part in parts if part is not None]
    return between.join(texts) if len(texts) == len(parts) else None
