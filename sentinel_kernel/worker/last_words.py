"""A worker that crashes tells the supervisor where: faulthandler writes the dying thread's stack to the stacks' pipe.

A cell finds faulthandler as under plain ipykernel: not enabled. One that enables it gets the stack in its own file.
"""

from __future__ import annotations

import faulthandler
import functools
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


def write_last_words(pipe: int) -> None:
    """Write the stack to ``pipe`` at SIGSEGV, SIGFPE, SIGABRT, SIGBUS and SIGILL, unless a cell wants it elsewhere."""
    module: Any = faulthandler
    enable_theirs: Callable[..., None] = faulthandler.enable
    disable_theirs: Callable[[], None] = faulthandler.disable
    enabled = False

    @functools.wraps(enable_theirs)
    def enable(*arguments: object, **options: object) -> None:
        nonlocal enabled
        enable_theirs(*arguments, **options)
        enabled = True

    @functools.wraps(disable_theirs)
    def disable() -> bool:
        nonlocal enabled
        was, enabled = enabled, False
        enable_theirs(file=pipe, all_threads=False)
        return was

    @functools.wraps(faulthandler.is_enabled)
    def is_enabled() -> bool:
        return enabled

    enabled = faulthandler.is_enabled()
    if not enabled:
        enable_theirs(file=pipe, all_threads=False)
    module.enable, module.disable, module.is_enabled = enable, disable, is_enabled
