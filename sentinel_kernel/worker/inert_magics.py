"""The worker's stand-ins for the host's magics: silent as a cell's first lines, an explained error elsewhere."""

from __future__ import annotations

from collections import Counter
from typing import Any

from IPython.core.error import UsageError

from sentinel_kernel.worker.leading_block import parse_leading_block


class _Cell:
    """The leading magics of the running cell that have not been executed yet."""

    def __init__(self) -> None:
        self.message_id = ""
        self.leading: Counter[str] = Counter()

    def take(self, message_id: str, source: str, name: str) -> bool:
        """Tell whether this call is one of the cell's leading lines; each counts once, in the cell it leads."""
        if message_id != self.message_id:
            self.message_id = message_id
            self.leading = Counter(line.name for line in parse_leading_block(source).lines)
        if self.leading[name] <= 0:
            return False
        self.leading[name] -= 1
        return True


def register_inert_magics(kernel: Any, shell: Any, names: list[str]) -> None:  # noqa: ANN401 - untyped there
    """Register a line magic for each of the host's, so that a cell's source can be executed as it was written."""
    cell = _Cell()

    def inert(name: str) -> None:
        def magic(_line: str) -> None:
            parent = kernel.get_parent("shell") or {}
            message_id = str(parent.get("header", {}).get("msg_id", ""))
            source = str(parent.get("content", {}).get("code", ""))
            if not cell.take(message_id, source, name):
                raise UsageError(
                    f"%{name} is Sentinel's own and works only as one of the first lines of a cell, "
                    "before any code. Move it to the top, or into a cell of its own."
                )

        magic.__doc__ = f"%{name}: run by Sentinel's host, outside the sandbox; see %sentinel_help."
        shell.register_magic_function(magic, "line", name)

    for name in names:
        inert(name)
