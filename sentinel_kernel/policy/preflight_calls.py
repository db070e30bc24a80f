"""Judges the calls of Python code by the full names of what they call."""

from __future__ import annotations

import ast

from sentinel_kernel.policy.preflight_names import (
    NOTHING,
    UNKNOWN,
    Instance,
    Known,
    Names,
    Number,
    Text,
    path_text,
)
from sentinel_kernel.policy.preflight_shell import ShellJudge
from sentinel_kernel.policy.preflight_tables import (
    ALWAYS_SHELL,
    AWAITED,
    C_FUNCTIONS,
    CHECKED,
    CLOEXEC,
    FAMILIES,
    FRAME_METHODS,
    HOSTS,
    LOOKUPS,
    PATH_METHODS,
    PROGRAMS,
    PROTOCOLS,
    SERVERS,
    SYSCALLS,
    TOLERANT,
    TYPES,
    URLS,
    WRITES,
)
from sentinel_kernel.record import replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from sentinel_kernel.policy.preflight_finding import Judged
    from sentinel_kernel.policy.preflight_names import Value
    from sentinel_kernel.policy.preflight_system import System


class CallJudge:
    """Judges calls in one sandbox."""

    def __init__(self, system: System) -> None:
        self._system = system
        self.shell = ShellJudge(system)

    def judge(self, node: ast.Call, names: Names, *, awaited: bool = False) -> Iterator[Judged]:
        """Yield what is to say of a call."""
        function = names.resolve(node.func)
        if isinstance(function, Known):
            found = self._judge(function.path, node, names, awaited=awaited)
            yield from (one for one in found if one is not None)
        elif isinstance(node.func, ast.Attribute) and node.func.attr in FRAME_METHODS:
            path = path_text(_argument(node, names, 0, ""))
            judged = self._system.write(path, node.func.attr, moved=names.moved)
            if judged is not None and path is not None and path.value.startswith("/"):
                yield replace(judged, likely=True)

    def write(self, path: str, what: str, names: Names) -> Judged | None:
        """Return why ``path`` can't be written by a magic."""
        judged = self._system.write(Text(path), what, moved=names.moved)
        return None if judged is None else replace(judged, raises=True)

    def _judge(  # noqa: C901, PLR0912 - one branch a kind of call
        self, path: str, node: ast.Call, names: Names, *, awaited: bool
    ) -> Iterator[Judged | None]:
        system = self._system
        if path in URLS:
            index, name, always = URLS[path]
            given = _argument(node, names, index, name)
            if given is not None:
                yield system.url(_url(given), _readable(path), always=always and given != NOTHING)
        elif path in HOSTS:
            index, name, always = HOSTS[path]
            host = _argument(node, names, index, name)
            if always or (isinstance(host, Text) and host.value):
                yield system.host(host if isinstance(host, Text) else None, path, always=True)
        elif path == "socket.create_connection" or (path in AWAITED and awaited):
            index = AWAITED.get(path, 0)
            pair = node.args[index] if len(node.args) > index else None
            first = pair.elts[0] if isinstance(pair, ast.Tuple) and pair.elts else pair
            host = None if first is None else names.resolve(first)
            if path == "asyncio.start_server":
                host = None
            if pair is not None:
                yield system.host(host if isinstance(host, Text) else None, path, always=True)
        elif path in LOOKUPS:
            host = _argument(node, names, 0, "host")
            yield system.name(host if isinstance(host, Text) else None, path)
        elif path in SERVERS:
            yield system.host(None, path, always=True)
        elif path in ("socket.socket", "socket.socketpair"):
            yield self._socket(path, node, names)
        elif path in ("socket.socket().connect", "socket.socket().connect_ex"):
            yield self._connect(node, names)
        elif path in ("http.client.HTTPConnection().request", "http.client.HTTPConnection().connect"):
            yield self._http(node, names)
        elif path in SYSCALLS:
            yield system.syscall(SYSCALLS[path], path)
        elif path in PROGRAMS:
            yield from self._program(path, node, names)
        elif path.startswith(("ctypes.CDLL().", "ctypes.pythonapi.")):
            yield self._c_function(path.rpartition(".")[2], node, names)
        else:
            yield from self._writes(path, node, names)

    # --- sockets

    def _socket(self, path: str, node: ast.Call, names: Names) -> Judged | None:
        if any(keyword.arg in (None, "fileno") for keyword in node.keywords) or len(node.args) > 3:
            return None
        default = 1 if path == "socket.socketpair" else 2
        family = _constant(_argument(node, names, 0, "family"), FAMILIES, default)
        kind = _constant(_argument(node, names, 1, "type"), TYPES, 1)
        protocol = _constant(_argument(node, names, 2, "proto"), PROTOCOLS, 0)
        known = {0: family, 1: None if kind is None else kind | CLOEXEC, 2: protocol}
        arguments = {index: value for index, value in known.items() if value is not None}
        judged = self._system.syscall(path.rpartition(".")[2], path, arguments)
        if judged is not None and not judged.kills and family in (2, 10):
            return replace(judged, kind="network")
        return judged

    def _connect(self, node: ast.Call, names: Names) -> Judged | None:
        """Judge what a socket is connected to; where there are no sockets, the socket itself was refused before."""
        pair = node.args[0] if node.args else None
        if not self._system.has_loopback or not isinstance(pair, ast.Tuple) or not pair.elts:
            return None
        host = names.resolve(pair.elts[0])
        return self._system.host(
            host if isinstance(host, Text) else None, "socket.socket.connect", always=False
        )

    def _http(self, node: ast.Call, names: Names) -> Judged | None:
        made = names.resolve(node.func.value) if isinstance(node.func, ast.Attribute) else None
        host = made.arguments[0] if isinstance(made, Instance) and made.arguments else None
        text = None
        if isinstance(host, Text):
            text = Text(host.value.partition(":")[0], host.complete or ":" in host.value)
        return self._system.host(text, "http.client", always=True)

    # --- programs and the C library

    def _program(self, path: str, node: ast.Call, names: Names) -> Iterator[Judged]:
        refused = self._system.syscall("execve", path)
        if refused is not None:
            yield refused
            return
        if not node.args:
            return
        checked = path in CHECKED or _is_true(node, "check")
        raises = checked or path == "subprocess.Popen"
        first = node.args[0]
        if path in ALWAYS_SHELL or _is_true(node, "shell"):
            text = names.resolve(first)
            if isinstance(text, Text) and text.complete:
                for judged in self.shell.script(text.value, moved=names.moved):
                    yield replace(judged.judged, raises=raises)
        elif isinstance(first, ast.List | ast.Tuple) and not any(
            keyword.arg in ("shell", "executable", None) for keyword in node.keywords
        ):
            words = [_word(names.resolve(element)) for element in first.elts]
            for one in self.shell.command(words, moved=names.moved):
                yield replace(one, raises=raises)

    def _c_function(self, name: str, node: ast.Call, names: Names) -> Judged | None:
        if isinstance(node.func, ast.Attribute):
            library = names.resolve(node.func.value)
            if isinstance(library, Instance) and not _is_libc(library):
                return None
        values = [names.resolve(argument) for argument in node.args]
        numbers = {
            index: value.value & (1 << 64) - 1
            for index, value in enumerate(values)
            if isinstance(value, Number)
        }
        if name == "syscall" and 0 in numbers:
            rest = {index - 1: value for index, value in numbers.items() if index}
            return self._system.numbered(numbers[0], "ctypes: syscall", rest)
        if name in C_FUNCTIONS:
            what = f"ctypes: {name}"
            arguments = {} if name in ("reboot", "umount") else numbers
            return self._system.syscall(C_FUNCTIONS[name], what, arguments, raises=False)
        return None

    # --- files

    def _writes(  # noqa: C901 - one branch a kind of library
        self, path: str, node: ast.Call, names: Names
    ) -> Iterator[Judged | None]:
        system, moved = self._system, names.moved
        if any(_may_be_true(keyword) for keyword in node.keywords if keyword.arg in (*TOLERANT, None)):
            return
        if path in ("builtins.open", "io.open"):
            mode = _argument(node, names, 1, "mode")
            if isinstance(mode, Text) and mode.complete and set(mode.value) & set("wax+"):
                yield system.write(path_text(_argument(node, names, 0, "file")), path, moved=moved)
        elif path in WRITES:
            for index, name in WRITES[path]:
                judged = system.write(path_text(_argument(node, names, index, name)), path, moved=moved)
                if judged is not None:
                    yield judged
                    return
        elif path.startswith("pathlib.Path().") and isinstance(node.func, ast.Attribute):
            name = node.func.attr
            mode = _argument(node, names, 0, "mode")
            opens = name == "open" and isinstance(mode, Text) and set(mode.value) & set("wax+")
            if name in PATH_METHODS or opens:
                place = path_text(names.resolve(node.func.value))
                yield system.write(place, f"pathlib.Path.{name}", moved=moved)
        elif path.startswith(("pandas.DataFrame().", "polars.DataFrame().")):
            name = path.rpartition(".")[2]
            if name in FRAME_METHODS:
                place = path_text(_argument(node, names, 0, "path_or_buf"))
                yield system.write(place, path.replace("()", ""), moved=moved)


def _argument(node: ast.Call, names: Names, index: int, name: str) -> Value:
    """Return an argument by its place or name; None where it is not given."""
    if any(isinstance(argument, ast.Starred) for argument in node.args[: index + 1]):
        return UNKNOWN
    if index < len(node.args):
        return names.resolve(node.args[index]) or UNKNOWN
    for keyword in node.keywords:
        if keyword.arg == name and name:
            return names.resolve(keyword.value) or UNKNOWN
    return None


def _url(given: Value) -> Text | None:
    if isinstance(given, Instance) and given.path == "urllib.request.Request" and given.arguments:
        given = given.arguments[0]
    return given if isinstance(given, Text) else None


def _constant(value: Value, constants: dict[str, int], default: int) -> int | None:
    if value is None:
        return default
    if isinstance(value, Number):
        return default if value.value == -1 else value.value
    if isinstance(value, Known) and value.path.startswith("socket."):
        return constants.get(value.path.removeprefix("socket."))
    return None


def _is_libc(library: Instance) -> bool:
    """Tell whether a library that was loaded is the C library, or the program itself, which has it."""
    first = library.arguments[0] if library.arguments else None
    if isinstance(first, Instance) and first.path == "ctypes.util.find_library":
        return first.arguments == (Text("c"),)
    return first == NOTHING or (
        isinstance(first, Text) and first.value.rpartition("/")[2].startswith("libc.")
    )


def _is_true(node: ast.Call, name: str) -> bool:
    return any(
        keyword.arg == name and isinstance(keyword.value, ast.Constant) and keyword.value.value is True
        for keyword in node.keywords
    )


def _may_be_true(keyword: ast.keyword) -> bool:
    return not (isinstance(keyword.value, ast.Constant) and not keyword.value.value)


def _word(value: Value) -> str | None:
    if isinstance(value, Known) and value.path == "sys.executable":
        return "python"
    text = path_text(value)
    return text.value if text is not None and text.complete else None


def _readable(path: str) -> str:
    return path.replace("()", "")
