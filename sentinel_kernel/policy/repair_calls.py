"""Changes calls of a cell that no profile lets through into calls that do the same and are let through."""

from __future__ import annotations

import ast
import re

from sentinel_kernel.policy.cell_source import Edit, words
from sentinel_kernel.policy.change import Change
from sentinel_kernel.policy.compare import compiled, lets_through
from sentinel_kernel.policy.violation import Text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from sentinel_kernel.policy.cell_source import CellSource
    from sentinel_kernel.policy.compiled import CompiledPolicy
    from sentinel_kernel.policy.leeway import Leeway
    from sentinel_kernel.policy.violation import Violation

_DEVICES = {
    (1, 3): "/dev/null",
    (1, 5): "/dev/zero",
    (1, 7): "/dev/full",
    (1, 8): "/dev/random",
    (1, 9): "/dev/urandom",
    (5, 0): "/dev/tty",
}
"""Numbers of the devices that the sandbox has (mem(4), random(4), tty(4))."""

_DEVICE_MODE = re.compile(r"S_IFCHR|S_IFBLK|\b0o0?[26]\d{4}\b")
_MKNOD_COMMAND = re.compile(r"\bmknod\s+(?:-m\s*\S+\s+)?(\S+)\s+[cu]\s+(\d+)\s+(\d+)")
_AF_UNIX = 1
_PRIO_PROCESS = 0


class _Case:
    """One cell with the policy that its calls are checked against."""

    def __init__(self, cell: CellSource, violation: Violation, policy: CompiledPolicy) -> None:
        self.cell = cell
        self.violation = violation
        self.policy = policy

    def allows(self, syscall: str, *arguments: int) -> bool:
        """Tell whether the profile in force lets the call through."""
        number = self.policy.architecture.syscalls.get(syscall)
        return number is not None and lets_through(
            self.policy, number, (*arguments, *(0,) * (6 - len(arguments)))
        )

    def calls(self, *names: str) -> Iterator[ast.Call]:
        """Yield the calls of what has one of these names."""
        for call, name in self.cell.calls():
            if name in names:
                yield call


def changed_call(cell: CellSource, violation: Violation, leeway: Leeway, machine: str) -> Change | None:
    """Return the change that replaces the refused call, None where nothing does the same."""
    profile = leeway.profile(violation.profile)
    maker = _MAKERS.get(violation.syscall or "")
    if profile is None or maker is None:
        return None
    made = maker(_Case(cell, violation, compiled(profile, machine)))
    if made is None:
        return None
    edits, text, why = made
    return Change(cell.changed(edits), text, why) if edits else None


_Made = tuple[list[Edit], str, Text]


def _mknod(case: _Case) -> _Made | None:
    edits: list[Edit] = []
    for call in case.calls("os.mknod"):
        given = _arguments(call, ("path", "mode", "device"))
        if "path" not in given:
            continue
        path, mode = case.cell.segment(given["path"]), given.get("mode")
        module = case.cell.segment(call.func).rpartition("mknod")[0]
        text = case.cell.segment(mode) if mode is not None else "0o600"
        device = _device(case.cell, given.get("device"))
        extra = "".join(f", {case.cell.segment(word)}" for word in call.keywords if word.arg == "dir_fd")
        if _DEVICE_MODE.search(text):
            if device not in _DEVICES:
                return None  # nothing else is a device
            edits.append(case.cell.replace(call, f"{module}symlink({_DEVICES[device]!r}, {path}{extra})"))
    for start, end in _commands(case.cell):
        for found in _MKNOD_COMMAND.finditer(case.cell.text, start, end):
            known = _DEVICES.get((int(found[2][:9]), int(found[3][:9])))
            if known:
                edits.append(Edit(found.start(), found.end(), f"ln -s {known} {found[1]}"))
    return (
        edits,
        "Link to the sandbox's own device",
        Text(
            "Devices can't be made in the sandbox; links to those that it has, and plain files, can.",
            "沙箱中不能创建设备文件；可以链接到已有的设备，或创建普通文件。",
        ),
    )


def _socketpair(case: _Case) -> _Made | None:
    if not case.allows("socketpair", _AF_UNIX, 1):
        return None
    edits = []
    for call in case.calls("socket.socketpair", "socket.socket"):
        family = _arguments(call, ("family",)).get("family")
        if family is None or case.cell.name_of(call.func) != "socket.socketpair":
            continue
        name = case.cell.segment(family)
        edits.append(
            case.cell.replace(family, f"{name.rpartition('.')[0]}.AF_UNIX" if "." in name else "1  # AF_UNIX")
        )
    edits = [edit for edit in edits if "#" not in edit.text]
    return (
        edits,
        "Use a pair of local sockets (AF_UNIX)",
        Text(
            "Linux makes pairs of local sockets alone, and those are allowed.",
            "Linux 只能创建本地套接字对，而这是允许的。",
        ),
    )


_OF_PROCESS = {
    "os.sched_setaffinity": ("sched_setaffinity", 0),
    "os.sched_setscheduler": ("sched_setscheduler", 0),
    "os.sched_setparam": ("sched_setparam", 0),
    "resource.prlimit": ("prlimit64", 0),
}
"""Python's function -> the call behind it, and which argument names the process."""


def _own_process(case: _Case) -> _Made | None:
    edits = []
    for call, name in case.cell.calls():
        syscall, position = _OF_PROCESS.get(name, ("", 0))
        if not syscall or len(call.args) <= position or _is_number(call.args[position], 0):
            continue
        if case.allows(syscall, 0):
            edits.append(case.cell.replace(call.args[position], "0"))
    for call in case.calls("os.setpriority"):
        if len(call.args) == 3 and case.allows("setpriority", _PRIO_PROCESS, 0):
            which, who, _ = call.args
            module = case.cell.segment(call.func).rpartition("setpriority")[0]
            if not _is_number(who, 0) or "PRIO_USER" in case.cell.segment(which):
                edits.append(case.cell.replace(which, f"{module}PRIO_PROCESS" if module else "0"))
                edits.append(case.cell.replace(who, "0"))
    return (
        edits,
        "Ask for the own process (0)",
        Text(
            "What is set for the process itself is allowed; the sandbox's first process is out of bounds.",
            "可以为进程自身进行设置；沙箱的第一个进程不允许更改。",
        ),
    )


def _secret_memory(case: _Case) -> _Made | None:
    numbers = {case.policy.architecture.syscalls.get("memfd_secret")}
    if not case.allows("memfd_create"):
        return None
    edits = []
    for call, name in case.cell.calls():
        if name.rpartition(".")[2] == "syscall" and call.args and _number(case.cell, call.args[0]) in numbers:
            edits.append(case.cell.replace(call, '__import__("os").memfd_create("secret")'))
    return (
        edits,
        "Use memfd_create",
        Text(
            "Memory without a name, as a file of the process alone, is allowed.",
            "可以使用进程私有的无名内存文件（memfd_create）。",
        ),
    )


def _chroot(case: _Case) -> _Made | None:
    """Put the new root before the paths that the cell names behind the call: what it sees there is the same."""
    calls = list(case.calls("os.chroot"))
    if len(calls) != 1 or not calls[0].args or not isinstance(case.cell.parents.get(calls[0]), ast.Expr):
        return None
    call = calls[0]
    root = case.cell.segment(call.args[0])
    module = case.cell.segment(call.func).rpartition("chroot")[0]
    if not module:
        return None
    edits = [case.cell.replace(call, f"{module}chdir({root})")]
    for other, name in case.cell.calls():
        if other.lineno <= (call.end_lineno or call.lineno) or name not in _TAKES_PATH or not other.args:
            continue
        path = other.args[0]
        if isinstance(path, ast.Constant) and isinstance(path.value, str) and path.value.startswith("/"):
            relative = path.value.lstrip("/") or "."
            edits.append(case.cell.replace(path, repr(relative)))
    if any(name == "os.chdir" for _, name in case.cell.calls()):
        # going to "/" behind the call goes to the new root, where the cell is already
        edits = [
            Edit(edit.start, edit.end, edit.text)
            for edit in edits
            if not (edit.text == "'.'" and "chdir" in case.cell.text[max(0, edit.start - 10) : edit.start])
        ] + [
            case.cell.replace(other.args[0], '"."')
            for other in case.calls("os.chdir")
            if other.lineno > call.lineno and other.args and _is_text(other.args[0], "/")
        ]
    return (
        edits,
        "Work in that folder, with paths relative to it",
        Text(
            "A new root folder can't be had; the same files are there under relative paths.",
            "不能更换根目录；使用相对路径可以访问同样的文件。",
        ),
    )


_TAKES_PATH = words(
    "open os.listdir os.stat os.mkdir os.makedirs os.remove os.unlink os.path.exists os.path.isfile "
    "os.path.isdir os.scandir os.walk os.open pathlib.Path Path os.access os.readlink"
)

_MAKERS: dict[str, Callable[[_Case], _Made | None]] = {
    "mknod": _mknod,
    "mknodat": _mknod,
    "socketpair": _socketpair,
    "setpriority": _own_process,
    "sched_setaffinity": _own_process,
    "sched_setscheduler": _own_process,
    "sched_setparam": _own_process,
    "prlimit64": _own_process,
    "memfd_secret": _secret_memory,
    "chroot": _chroot,
}
"""Call -> what makes the change; for the others no call that is let through does the same."""


def _commands(cell: CellSource) -> Iterator[tuple[int, int]]:
    """Yield where commands for a shell stand: IPython's lines, and texts."""
    yield from cell.shell_lines()
    for node in cell.nodes():
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
            yield cell.span(node)


def _arguments(call: ast.Call, names: Sequence[str]) -> dict[str, ast.expr]:
    given = dict(zip(names, call.args, strict=False))
    given |= {word.arg: word.value for word in call.keywords if word.arg is not None and word.arg in names}
    return given


def _device(cell: CellSource, node: ast.AST | None) -> tuple[int, int] | None:
    """Return major and minor number of a device, where they stand in the source."""
    if isinstance(node, ast.Name):
        node = next(iter(cell.assigned.get(node.id, ())), None)
    if isinstance(node, ast.Call) and cell.name_of(node.func) == "os.makedev" and len(node.args) == 2:
        numbers = [_number(cell, argument) for argument in node.args]
        return (numbers[0], numbers[1]) if None not in numbers else None  # type: ignore[return-value]
    number = _number(cell, node)
    return None if number is None else (number >> 8, number & 0xFF)


def _number(cell: CellSource, node: ast.AST | None) -> int | None:
    if isinstance(node, ast.Name):
        node = next(iter(cell.assigned.get(node.id, ())), None)
    if isinstance(node, ast.Constant) and isinstance(node.value, int) and not isinstance(node.value, bool):
        return node.value
    return None


def _is_number(node: ast.AST, value: int) -> bool:
    return isinstance(node, ast.Constant) and node.value == value


def _is_text(node: ast.AST, value: str) -> bool:
    return isinstance(node, ast.Constant) and node.value == value
