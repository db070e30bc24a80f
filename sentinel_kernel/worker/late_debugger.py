"""ipykernel's debugger, made when the first debug request (or anything else of its) is asked for."""

from __future__ import annotations

import asyncio
import errno
import importlib.util
import os
import sys
from typing import TYPE_CHECKING, Any

from sentinel_kernel.worker import late_module

if TYPE_CHECKING:
    import zmq

_MODULE = "ipykernel.debugger"
_VALIDATION = "PYDEVD_DISABLE_FILE_VALIDATION"


def install() -> None:
    """Put the stand-in for ipykernel's debugger in place, with what importing the real one leaves behind."""
    available = importlib.util.find_spec("debugpy") is not None
    if not late_module.install(_MODULE, known={"_is_debugpy_available": available}) or not available:
        return
    os.environ.setdefault("PYDEVD_USE_FRAME_EVAL", "NO")  # debugpy's force_pydevd does; children inherit it
    sys.breakpointhook = _ignore_breakpoint


def _ignore_breakpoint(*_args: object, **_kwargs: object) -> None:
    """Do what debugpy's hook does while no client is attached: nothing. Loading debugpy replaces it."""


def load() -> None:
    """Import the real debugger, if it has not been imported yet."""
    hook = sys.breakpointhook
    chosen = os.environ.get(_VALIDATION)
    # debugpy says once per start, on stderr, that the standard library is frozen. At ipykernel's start nobody sees
    # that; now it would be an output of the running cell.
    os.environ[_VALIDATION] = "1"
    try:
        late_module.execute(sys.modules[_MODULE])
    finally:
        if chosen is None:
            os.environ.pop(_VALIDATION, None)
        else:
            os.environ[_VALIDATION] = chosen
    if hook is not _ignore_breakpoint:
        sys.breakpointhook = hook  # the user's own, or debugpy's from an earlier call


def refused(request: dict[str, object], error: OSError | zmq.ZMQError) -> dict[str, object]:
    """Return the answer to a request that met a refusal: in the debug adapter protocol's form, with what to do."""
    reason = f"The debugger did not work: {error}."
    if error.errno in (errno.EPERM, errno.EACCES):
        reason += (
            " It talks over a socket inside of the sandbox, and the profile in force refuses those."
            " HINT: run %sentinel_profile datascience in a cell, then start the debugger again."
            " 调试器需要沙箱内部的套接字，当前配置不允许；请先在单元格中执行 %sentinel_profile datascience。"
        )
    return {
        "type": "response",
        "request_seq": request.get("seq"),
        "success": False,
        "command": request.get("command"),
        "message": reason,
    }


class LateDebugger:
    """Takes the arguments of ipykernel's Debugger and becomes one at the first use."""

    def __init__(self, *arguments: object) -> None:
        self._arguments = arguments
        self._debugger: Any = None
        self._waiting: tuple[asyncio.AbstractEventLoop, asyncio.Event] | None = None

    def make(self) -> object:
        """Return the real debugger."""
        if self._debugger is None:
            load()
            self._debugger = sys.modules[_MODULE].Debugger(*self._arguments)
            if self._waiting is not None:
                loop, made = self._waiting
                loop.call_soon_threadsafe(made.set)
        return self._debugger

    async def handle_stopped_event(self) -> None:
        """Wait for the next stop, which can't come before there is a debugger. Called over and over."""
        if self._debugger is None:
            made = asyncio.Event()
            self._waiting = (asyncio.get_running_loop(), made)
            await made.wait()
        await self._debugger.handle_stopped_event()

    def __getattr__(self, name: str) -> object:
        return getattr(self.make(), name)
