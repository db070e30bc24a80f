"""The worker's stand-ins for the host's magics: silent as a cell's first lines, an explained error elsewhere."""

from __future__ import annotations

import threading
from collections import Counter
from typing import TYPE_CHECKING, Any

from IPython.core.error import UsageError

from sentinel_kernel.worker.leading_block import DRY_RUN, dry_run_line, parse_leading_block

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sentinel_kernel.worker.app import IPKernelApp


class _Leading(threading.local):
    """The leading magics of the running cell that have not been executed yet; of each subshell's own cell."""

    def __init__(self) -> None:
        self._request: object = None
        self._waiting: Counter[str] = Counter()

    def take(self, request: dict[str, Any], name: str) -> bool:
        """Tell whether this call is one of the cell's leading lines; each counts once, in the cell it leads."""
        if request is not self._request:
            self._request = request
            code = request.get("content", {}).get("code", "")
            self._waiting = Counter(line.name for line in parse_leading_block(code).lines)
        if self._waiting[name] <= 0:
            return False
        self._waiting[name] -= 1
        return True


def register_inert_magics(app: IPKernelApp, names: Sequence[str]) -> None:
    """Register a line magic for each of the host's, and the cell magic: a cell is executed as it was written."""
    kernel: Any = app.kernel
    shell: Any = app.shell
    leading = _Leading()

    def register(name: str) -> None:
        def magic(_line: str) -> None:
            if not leading.take(kernel.get_parent("shell"), name):
                raise UsageError(
                    f"%{name} is Sentinel's own and must be one of the first lines of a cell, before any code. "
                    "Move it to the top, or into a cell of its own."
                )

        magic.__doc__ = f"%{name}: run by Sentinel's host, outside the sandbox; see %sentinel_help."
        shell.register_magic_function(magic, "line", name)

    for name in names:
        register(name)

    def dry_run(line: str, cell: str) -> None:
        known = dry_run_line(kernel.get_parent("shell").get("content", {}).get("code", ""))
        if known is None or known.argument_text or line.strip():
            raise UsageError(
                f"%%{DRY_RUN} stands alone on the first line of a cell; only %sentinel_* lines may come before it. "
                "Move it to the top, without anything behind it."
            )
        from sentinel_kernel.worker.dry_run import run_dry  # noqa: PLC0415 - for dry runs alone

        run_dry(kernel, shell, cell)

    dry_run.__doc__ = f"%%{DRY_RUN}: run the cell, show what it would change, and take that back."
    shell.register_magic_function(dry_run, "cell", DRY_RUN)
