"""Finds the paths in a cell's source, and what the cell does with each: create, append, modify or read."""

from __future__ import annotations

import ast
import re

from sentinel_kernel.policy.cell_source import words
from sentinel_kernel.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from sentinel_kernel.policy.cell_source import CellSource

CREATE, APPEND, MODIFY, READ, UNKNOWN = "create", "append", "modify", "read", "unknown"
WRITING = frozenset((CREATE, APPEND, MODIFY))

_DEPTH = 3
_MOST_USES = 64
_MOST_TEXTS = 500
_CREATES = words(
    "write_text write_bytes mkdir makedirs touch mkfifo mknod imwrite dump savez savez_compressed mkdtemp "
    "mkstemp TemporaryDirectory NamedTemporaryFile TemporaryFile extractall extract unpack_archive "
    "urlretrieve make_archive symlink_to hardlink_to bind create_unix_server start_unix_server "
    "LocalFileSystem write_table write_csv write_parquet write_image write_html write_json DataFileWriter "
    "writerow to_file"
)
_APPENDS = words("FileHandler RotatingFileHandler TimedRotatingFileHandler WatchedFileHandler basicConfig")
_MODIFIES = words(
    "chmod lchmod chown lchown remove unlink rmtree rmdir removedirs truncate utime setxattr removexattr"
)
_READS = words(
    "read_text read_bytes exists stat lstat listdir scandir iterdir glob iglob rglob walk isfile isdir "
    "is_file is_dir read_csv read_json read_parquet read_excel read_table load loadtxt genfromtxt "
    "fromfile imread getsize access readlink realpath resolve getxattr fileConfig read exec"
)
_SECOND_IS_NEW = words("copy copy2 copyfile copytree move rename renames replace link symlink")
_FIRST_IS_CHANGED = words("move rename renames replace")
_OPENERS = words(
    "open io.open gzip.open bz2.open lzma.open codecs.open zipfile.ZipFile tarfile.open tarfile.TarFile "
    "wave.open gzip.GzipFile bz2.BZ2File aiofiles.open h5py.File numpy.memmap shelve.open dbm.open"
)
_MAKES_WITHOUT_MODE = frozenset(("shelve.open", "sqlite3.connect", "sqlite3.dbapi2.connect"))
_PASSES_ON = words(
    "pathlib.Path Path pathlib.PosixPath pathlib.PurePath os.path.join os.fspath str os.fsencode "
    "os.path.abspath os.path.normpath os.path.expanduser os.path.expandvars bytes .encode .expanduser "
    ".absolute .joinpath .with_name .with_suffix .format"
)
_LITERAL = re.compile(r"(?P<prefix>[A-Za-z]{0,2})(?P<quote>'''|\"\"\"|'|\")")
_HARMLESS = re.compile(r"[\w./ +@=,:-]*")


class Literal(Record):
    """A text in the source. ``partial``: the beginning of an f-string."""

    node: ast.AST
    value: str
    partial: bool


class Use(Record):
    """What is done with a path, and at which line."""

    kind: str
    line: int


def literals(cell: CellSource) -> list[Literal]:
    """Return the texts of ``cell``, without docstrings and the inner parts of f-strings; at most some hundreds."""
    found: list[Literal] = []
    for node in cell.nodes():
        value = node.value if isinstance(node, ast.Constant) else None
        if isinstance(node, ast.JoinedStr):
            first = node.values[0] if node.values else None
            value = first.value if isinstance(first, ast.Constant) else None
        elif isinstance(cell.parents.get(node), ast.JoinedStr | ast.Expr | ast.FormattedValue):
            continue
        if isinstance(value, bytes):
            value = value.decode(errors="replace")
        if isinstance(value, str):
            found.append(Literal(node, value, isinstance(node, ast.JoinedStr)))
        if len(found) >= _MOST_TEXTS:
            break
    return found


def with_value(cell: CellSource, literal: Literal, old: str, new: str) -> str | None:
    """Return the source of ``literal`` with ``new`` for ``old`` at its beginning; None where that can't be written."""
    source = cell.segment(literal.node)
    found = _LITERAL.match(source)
    if found is None:
        return None
    body = source[found.end() :]
    if body.startswith(old) and _HARMLESS.fullmatch(new):
        return source[: found.end()] + new + body[len(old) :]
    if literal.partial or not literal.value.startswith(old):
        return None
    written = repr(new + literal.value[len(old) :])
    return f"b{written}" if isinstance(getattr(literal.node, "value", None), bytes) else written


def uses(cell: CellSource, node: ast.AST) -> list[Use]:
    """Return what the cell does with the path that ``node`` is (the beginning of), in the order of the lines.

    A cell that would take long to follow is followed only so far.
    """
    return _uses(cell, node, 0, set())


def _uses(cell: CellSource, node: ast.AST, depth: int, seen: set[ast.AST]) -> list[Use]:
    found: list[Use] = []
    if node in seen or cell.steps <= 0:
        return found
    seen.add(node)
    cell.steps -= 1
    current, parent = _outermost(cell, node)
    if isinstance(parent, ast.Call) and current is not parent.func:
        found.append(Use(_kind(cell, parent, current), parent.lineno))
    elif isinstance(parent, ast.Attribute):
        call = cell.parents.get(parent)
        if isinstance(call, ast.Call):
            found.append(Use(_kind(cell, call, None), call.lineno))
    elif depth < _DEPTH:
        for other in _carriers(cell, parent):
            found += _uses(cell, other, depth + 1, seen)
            if len(found) > _MOST_USES:
                break
    return sorted(found, key=lambda use: use.line)


def _outermost(cell: CellSource, node: ast.AST) -> tuple[ast.AST, ast.AST | None]:
    """Return the expression around ``node`` that is still this path, and what it stands in."""
    current, parent = node, cell.parents.get(node)
    while parent is not None:
        above = cell.parents.get(parent)
        if isinstance(parent, ast.Call) and current is not parent.func:
            if cell.name_of(parent.func) not in _PASSES_ON:
                break
        elif isinstance(parent, ast.Attribute):
            method = isinstance(above, ast.Call) and f".{parent.attr}" in _PASSES_ON
            if not method and parent.attr != "parent":
                break
            if method and above is not None:
                parent, above = above, cell.parents.get(above)
        elif not isinstance(parent, ast.BinOp | ast.JoinedStr | ast.FormattedValue | ast.IfExp | ast.keyword):
            break
        current, parent = parent, above
    return current, parent


def _carriers(cell: CellSource, parent: ast.AST | None) -> list[ast.AST]:
    """Return the expressions that carry a path on which stands in ``parent``: the variable, the list around it."""
    if isinstance(parent, ast.Assign | ast.AnnAssign | ast.NamedExpr | ast.For):
        targets = parent.targets if isinstance(parent, ast.Assign) else [parent.target]
        names = [target.id for target in targets if isinstance(target, ast.Name)]
        return [other for name in names for other in cell.loads.get(name, ())]
    if isinstance(parent, ast.List | ast.Tuple):
        around = cell.parents.get(parent)
        return [parent] if isinstance(around, ast.Assign | ast.For | ast.Call | ast.keyword) else []
    return []


def _kind(cell: CellSource, call: ast.Call, argument: ast.AST | None) -> str:  # noqa: PLR0911 - a table in words
    """Return what ``call`` does with ``argument`` (None: it is a method of the path)."""
    name = cell.name_of(call.func)
    tail = name.rpartition(".")[2]
    position = call.args.index(argument) if argument in call.args else 0
    if name in _OPENERS or tail == "open":
        return _opened(cell, call, name, 0 if argument is None else 1)
    if name in _MAKES_WITHOUT_MODE:
        return CREATE
    if tail in _SECOND_IS_NEW:
        if (
            position == 1
            or (argument is None and tail == "symlink")
            or _keyword(argument) in ("dst", "target")
        ):
            return CREATE
        return MODIFY if tail in _FIRST_IS_CHANGED else READ
    if tail in _CREATES or tail.startswith(("to_", "save", "write_")):
        return CREATE
    if tail in _APPENDS:
        return APPEND
    if tail in _MODIFIES:
        return MODIFY
    return READ if tail in _READS or tail.startswith(("read_", "load")) else UNKNOWN


def _keyword(argument: ast.AST | None) -> str:
    return (argument.arg or "") if isinstance(argument, ast.keyword) else ""


def _opened(cell: CellSource, call: ast.Call, name: str, place: int) -> str:
    """Return what opening with the call's mode or flags does."""
    if name == "os.open":
        flags = cell.segment(call.args[1]) if len(call.args) > 1 else ""
        if "O_TRUNC" in flags or "O_EXCL" in flags:
            return CREATE
        return APPEND if re.search("O_CREAT|O_WRONLY|O_RDWR|O_APPEND", flags) else READ
    given = [keyword.value for keyword in call.keywords if keyword.arg in ("mode", "flag")]
    mode = given[0] if given else call.args[place] if len(call.args) > place else None
    if mode is None:
        return CREATE if name in _MAKES_WITHOUT_MODE else READ
    if not isinstance(mode, ast.Constant) or not isinstance(mode.value, str):
        return UNKNOWN
    if mode.value[:1] in ("w", "x", "n"):
        return CREATE
    return APPEND if "a" in mode.value or "+" in mode.value or mode.value[:1] == "c" else READ
