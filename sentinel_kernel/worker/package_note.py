"""Says behind `%pip install` what is so here: a restart, as IPython advises it, is what takes the packages away."""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING, Any

from IPython.core.magics import packaging

from sentinel_kernel.worker.language import is_chinese

if TYPE_CHECKING:
    from collections.abc import Callable

_INSTALLS = frozenset({"install", "update", "upgrade", "add", "sync"})
_ELSEWHERE = ("-t", "--target", "--prefix", "--root")
"""Options by which packages go to a folder of the cell's own choice, which may be kept."""

_NOTE = (
    "Note: what was installed can be used at once; it goes with the sandbox (a restart or a reset makes a new one).\n",
    "注意：所安装的软件包可立即使用；它们随沙箱一起消失（重启或重置会创建新沙箱）。\n",
)
_ADVICE = "restart the kernel"


def noted(shell: Any, line: str, run: Callable[[], object]) -> object:  # noqa: ANN401 - IPython's
    """Run a magic that installs packages and return its result; say so if it has, instead of IPython's advice."""
    vars(packaging)["print"] = _leave_out_advice
    result = run()
    words = line.split()
    if shell.user_ns.get("_exit_code") == 0 and not _INSTALLS.isdisjoint(words):
        importlib.invalidate_caches()  # a folder that was looked into in the same moment is not looked into again
        if not any(word.partition("=")[0] in _ELSEWHERE for word in words):
            sys.stdout.write(_NOTE[is_chinese()])
    return result


def _leave_out_advice(*words: object, **options: Any) -> None:  # noqa: ANN401 - as print has it
    if not (len(words) == 1 and _ADVICE in str(words[0])):
        print(*words, **options)  # noqa: T201 - in its place
