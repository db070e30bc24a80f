"""Finds the host that a cell's own line of git, curl or wget asks for, where the line names exactly one."""

from __future__ import annotations

import ast
import re

from sentinel_kernel.policy.cell_source import CellSource
from sentinel_kernel.policy.destinations import is_local
from sentinel_kernel.policy.violation import Subject
from sentinel_kernel.record import replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from sentinel_kernel.policy.violation import Violation

_PROGRAM = re.compile(r"(?:^|[\s!/;&|(=\"'])(git|curl|wget)(?=[\s\"'])")
_NAME = r"[A-Za-z0-9](?:[A-Za-z0-9.-]{0,98}[A-Za-z0-9])?"
_URL = re.compile(r"(?:https?|ftps?|git|ssh)://(?P<authority>[^\s/?#'\"]*)", re.IGNORECASE)
_AUTHORITY = re.compile(rf"(?:[A-Za-z0-9._~%+-]+(?::[A-Za-z0-9._~%+-]*)?@)?(?P<host>{_NAME})(?::\d{{1,5}})?")
_OF_GIT = re.compile(rf"(?:^|[\s'\"])[A-Za-z0-9._-]+@(?P<host>{_NAME}):(?!//)")
_BARE = re.compile(r"(?:^|(?<=[\s'\"]))(?P<host>(?:[A-Za-z0-9-]{1,63}\.)+[A-Za-z]{2,24})(?=[\s/'\"]|$)")
_FLAGS = re.compile(r"-[qsSfLvkgIncN46]+")
"""Options of curl and wget behind which no value stands."""

_STARTS = re.compile(r"subprocess\.\w+|os\.(?:system|popen|spawn\w+)|asyncio\.create_subprocess_\w+")
_MOST_LINES = 64
_LONGEST_LINE = 1000


def with_typed_host(violation: Violation, code: str | None) -> Violation | None:
    """Return the violation of a program as that of a look-up of the host that its line names; None where it names none.

    It is the cell that is read, by strict patterns: what the program itself says of its target counts for nothing.
    """
    if violation.subject is not None or (violation.process is not None and violation.process.is_worker):
        return None
    host = typed_host(code, violation.started_line or violation.line)
    if host is None:
        return None
    values = {name: value for name, value in violation.values.items() if name != "socket"}
    return replace(violation, cause="name_lookup", subject=Subject("host", host), values=values)


def typed_host(code: str | None, line: int | None) -> str | None:
    """Return the one host that the cell's line ``line`` (None: all of the cell) has git, curl or wget ask for."""
    if not code or not _PROGRAM.search(code):
        return None
    found: set[str] = set()
    for text in list(_commands(CellSource(code), line))[:_MOST_LINES]:
        hosts = _hosts(text[:_LONGEST_LINE])
        if hosts is None:
            return None
        found |= hosts
    return found.pop() if len(found) == 1 else None


def _commands(cell: CellSource, line: int | None) -> Iterator[str]:
    """Yield the commands in lines of a shell, and those in calls (``subprocess.run(["git", ...])``), a line each."""
    for start, end in cell.shell_lines():
        if line is None or cell.shell or cell.text.count("\n", 0, start) + 1 == line:
            yield cell.text[start:end].strip()
    for node, name in cell.calls():
        if _STARTS.fullmatch(name) and (line is None or node.lineno <= line <= (node.end_lineno or 0)):
            words = [
                item.value
                for argument in node.args
                for item in (argument.elts if isinstance(argument, ast.List | ast.Tuple) else [argument])
                if isinstance(item, ast.Constant) and isinstance(item.value, str)
            ]
            if words:
                yield " ".join(words)


def _hosts(text: str) -> set[str] | None:
    """Return the hosts that a command names; None where one stands there that can't be read."""
    program = _PROGRAM.search(f"{text} ")
    if program is None:
        return set()
    found: set[str] = set()
    for url in _URL.finditer(text):
        authority = _AUTHORITY.fullmatch(url["authority"])
        if authority is None:
            return None
        found.add(authority["host"])
    if program[1] == "git":
        found |= {one["host"] for one in _OF_GIT.finditer(text)}
    elif not found:
        found = {one["host"] for one in _BARE.finditer(text, program.end()) if not _is_option(text, one)}
    return {host.lower() for host in found if not is_local(host)}


def _is_option(text: str, found: re.Match[str]) -> bool:
    """Tell whether a word that looks like a host is a file: what an option (``-o data.csv``) is given."""
    before = text[: found.start()].split()
    return bool(before) and before[-1].startswith("-") and not _FLAGS.fullmatch(before[-1])
