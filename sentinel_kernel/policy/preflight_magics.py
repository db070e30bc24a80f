"""Judges magics and shell lines of a cell."""

from __future__ import annotations

import ast

from sentinel_kernel.policy.preflight_cell import parse_statement

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Final

    from sentinel_kernel.policy.preflight_calls import CallJudge
    from sentinel_kernel.policy.preflight_cell import Magic
    from sentinel_kernel.policy.preflight_finding import Judged
    from sentinel_kernel.policy.preflight_names import Names

_SHELL_MAGICS: Final = frozenset(("bash", "sh", "sx", "system"))
_STATEMENT_MAGICS: Final = frozenset(("memit", "prun", "time", "timeit"))
_INSTALL_MAGICS: Final = frozenset(("conda", "mamba", "micromamba", "pip", "uv"))


def shell_text(magic: Magic) -> tuple[str, int] | None:
    """Return what a magic gives to a shell, and the cell's line where that begins; None where it gives nothing."""
    if magic.kind == "shell":
        return magic.text, magic.line
    if magic.kind == "cell":
        shell = magic.name in _SHELL_MAGICS or (magic.name == "script" and magic.text in ("bash", "sh"))
        return (magic.body, magic.line + 1) if shell else None
    if magic.name in _INSTALL_MAGICS:
        return f"{magic.name} {magic.text}", magic.line
    return (magic.text, magic.line) if magic.name in ("sx", "system") else None


def magic_judged(magic: Magic, judge: CallJudge, names: Names) -> Iterator[tuple[Judged, int]]:
    """Yield what is to say of a magic, and on which of the cell's lines."""
    found = shell_text(magic)
    if found is not None:
        text, line = found
        for one in judge.shell.script(text, moved=names.moved):
            yield one.judged, line + one.line
    elif magic.kind == "cell" and magic.name in ("writefile", "file"):
        words = magic.text.split()
        path = words[-1].strip("'\"") if words else ""
        judged = None if set(path) & set("${") else judge.write(path, f"%%{magic.name}", names)
        if judged is not None:
            yield judged, magic.line


def timed_statements(magic: Magic) -> Sequence[ast.stmt]:
    """Return the statements that a magic such as %timeit runs, on the magic's own line."""
    tree = parse_statement(magic.text) if magic.name in _STATEMENT_MAGICS else None
    if tree is None:
        return ()
    for node in ast.walk(tree):
        if isinstance(node, ast.stmt | ast.expr):
            node.lineno, node.col_offset = magic.line, 0
    return tree.body
