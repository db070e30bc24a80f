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


USAGE = {
    "sentinel_allow": (" HOST[:PORT] [--carry|--fresh]", "github.com:443"),
    "sentinel_commit": (" [PATH|GLOB ...]", "results/*.csv"),
    "sentinel_discard": (" [PATH|GLOB ... | --all]", "draft.txt"),
    "sentinel_explain": (" [N]", "2"),
    "sentinel_export": (" PATH", "results/table.csv"),
    "sentinel_files": (" [--diff] [--json] [PATH|GLOB ...]", "--diff notes.txt"),
    "sentinel_gauge": (" [summary on|off]", "summary on"),
    "sentinel_limit": (" [NAME=VALUE ...]", "memory=4G wall=60"),
    "sentinel_mount": (" [PATH [ro|rw] | --remove NAME]", "/data/survey"),
    "sentinel_net": (" [--json]", ""),
    "sentinel_preflight": (" [off|advise|refuse] [--dangerous off|advise|refuse]", "advise"),
    "sentinel_profile": (" [NAME [--carry|--fresh]]", "datascience"),
    "sentinel_status": (" [--live]", ""),
    "sentinel_trust_output": (" [scripts | HOST ... | off]", "cdn.plot.ly"),
    "sentinel_violations": (" [--last N] [--json]", "--last 5"),
}
"""What may follow a magic's name, as the host reads it, and an example."""


_MISPLACED = (
    f"%%{DRY_RUN} stands alone on the first line of a cell; only %sentinel_* lines may come before it. "
    "Move it to the top, without anything behind it."
)


def help_text(name: str) -> str:
    """Return what IPython's help (`%sentinel_limit?`) shows of a magic of the host's."""
    usage, example = USAGE.get(name, ("", ""))
    lines = [f"%{name}{usage}", ""]
    if example:
        lines += [f"For example: %{name} {example}", ""]
    return "\n".join(
        (
            *lines,
            "Run by Sentinel's host, outside the sandbox: as one of the first lines of a cell, before any code.",
            "%sentinel_help says what each of these magics does.",
            "由沙箱外的 Sentinel 主机执行：须写在单元格最前面、代码之前。%sentinel_help 说明每个魔法命令的用途。",
        )
    )


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

        magic.__doc__ = help_text(name)
        shell.register_magic_function(magic, "line", name)

    for name in names:
        register(name)

    def dry_run(line: str, cell: str) -> None:
        known = dry_run_line(kernel.get_parent("shell").get("content", {}).get("code", ""))
        if known is None or known.argument_text or line.strip():
            raise UsageError(_MISPLACED)
        from sentinel_kernel.worker.dry_run import run_dry  # noqa: PLC0415 - for dry runs alone

        run_dry(kernel, shell, cell)

    dry_run.__doc__ = f"%%{DRY_RUN}: run the cell, show what it would change, and take that back."
    shell.register_magic_function(dry_run, "cell", DRY_RUN)

    def below_code(_line: str) -> None:
        raise UsageError(_MISPLACED)

    # Below code IPython reads `%%name` as a line magic of the name `%name`.
    below_code.__doc__ = dry_run.__doc__
    shell.register_magic_function(below_code, "line", f"%{DRY_RUN}")
