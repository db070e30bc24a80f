"""The kernels that the server owns: started when first named, bounded in number and in idle life, ended with it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import shutil
import tempfile
import time
from typing import TYPE_CHECKING, Any

from sentinel_kernel.errors import SentinelError
from sentinel_kernel.record import Record

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from sentinel_kernel.mcp.kernel_session import KernelSession

DEFAULT_KERNEL = "main"
SHIPPED = "sentinel"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,39}")
_LOOK_SECONDS = 5.0
_FOLDER = "sentinel-mcp-"
_REMEMBERED = 50


class PoolOptions(Record):
    """How kernels are started: the folder that cells see, the profile that they start with, and how many may live."""

    workspace: str
    profile: str
    kernel: str = SHIPPED
    maximum: int = 4
    idle_seconds: float = 900.0


class KernelPool:
    """Hands out kernels by name."""

    def __init__(self, options: PoolOptions) -> None:
        self.options = options
        self.client_name = ""
        """Who the kernels work for, for the audit."""

        self.asks = True
        """Whether their client can put questions to a person; kernels that are started then propose what asks."""

        self._kernels: dict[str, KernelSession] = {}
        self._starting: dict[str, asyncio.Task[KernelSession]] = {}
        self._folder = ""
        self._reaper: asyncio.Task[None] | None = None
        self._closed = False
        self._numbers = 0
        self._gone: dict[str, str] = {}
        """Why kernels that a client may still name are no more."""

    def check(self) -> None:
        """Raise SentinelError where the kernelspec is none that may be used."""
        if self.options.kernel != SHIPPED:
            from sentinel_kernel.mcp.kernelspec_choice import Specifications  # noqa: PLC0415 - as in _start

            Specifications().get_kernel_spec(self.options.kernel)

    @property
    def kernels(self) -> list[KernelSession]:
        """Return the kernels that live."""
        return list(self._kernels.values())

    def find(self, name: str) -> KernelSession:
        """Return a kernel that lives. Raises SentinelError where there is none of that name."""
        kernel = self._kernels.get(_checked(name))
        if kernel is None:
            raise SentinelError(f"There is no kernel {name!r}{self._why_gone(name)}.", self._known())
        return kernel

    def _why_gone(self, name: str) -> str:
        return f" any more: {self._gone[name]}" if name in self._gone else ""

    def _known(self) -> str:
        names = ", ".join(self._kernels) or "none"
        return f"Running: {names}. run_cell starts a kernel when its name is first used."

    async def get(self, name: str) -> tuple[KernelSession, str]:
        """Return the kernel ``name``, started where it does not live, and what has become of the one before.

        Raises:
            SentinelError: the name can't be one, too many kernels live, or it did not start.

        """
        kernel = self._kernels.get(_checked(name))
        if kernel is not None and not kernel.lost:
            kernel.last_used = time.monotonic()  # not ended as unused before its cell begins
            return kernel, ""
        task = self._starting.get(name)
        if task is None:
            if kernel is not None:
                await self.end(name, "it had to be ended")
            task = self._starting[name] = asyncio.create_task(self._start(name))
            task.add_done_callback(lambda _: self._starting.pop(name, None))
        # Shielded: another client call may wait for the same start.
        return await asyncio.shield(task), self._gone.pop(name, "")

    @contextlib.asynccontextmanager
    async def temporary(self, purpose: str) -> AsyncIterator[KernelSession]:
        """Lend a kernel of its own, which is ended afterwards."""
        self._numbers += 1
        name = f"{purpose}-{self._numbers}"
        kernel, _ = await self.get(name)
        try:
            yield kernel
        finally:
            await asyncio.shield(asyncio.create_task(self.end(name, "")))

    async def _start(self, name: str) -> KernelSession:
        if self._closing():
            raise SentinelError("The server is ending.")
        alive = {*self._kernels, *self._starting} - {name}
        if len(alive) >= self.options.maximum:
            raise SentinelError(
                f"{len(alive)} kernels are running ({', '.join(sorted(alive))}), which is the most that this server "
                "may have.",
                "Use one of them, or end one with close_kernel.",
            )
        # jupyter_client takes long to import, and clients wait for a server's first word.
        from sentinel_kernel.mcp.kernel_session import KernelSession  # noqa: PLC0415
        from sentinel_kernel.mcp.kernelspec_choice import Specifications  # noqa: PLC0415

        self._prepare()
        self._numbers += 1
        files = os.path.join(self._folder, f"{name}-{self._numbers}")
        kernel = KernelSession(name, files, Specifications(), self.options.kernel)
        environment = {
            **os.environ,
            "SENTINEL_PROFILE": self.options.profile,
            "SENTINEL_CLIENT": f"MCP {self.client_name}".strip(),
            "SENTINEL_SPARE": "off",
            "SENTINEL_COMMIT": "none",  # what an assistant's cells write, a person commits
        }
        if not self.asks:
            environment["SENTINEL_ASK"] = "never"
        await kernel.start(self.options.workspace, environment)
        if self._closing():  # meanwhile
            await kernel.end()
            raise SentinelError("The server is ending.")
        self._kernels[name] = kernel
        return kernel

    def _closing(self) -> bool:
        return self._closed

    def _prepare(self) -> None:
        if not self._folder:
            _remove_left(_run_folder() or tempfile.gettempdir())
            self._folder = tempfile.mkdtemp(prefix=f"{_FOLDER}{os.getpid()}-", dir=_run_folder())
        if self._reaper is None:
            self._reaper = asyncio.create_task(self._reap())

    async def _reap(self) -> None:
        """End what nobody has used for a while."""
        seconds = self.options.idle_seconds
        while True:
            await asyncio.sleep(min(_LOOK_SECONDS, seconds / 4))
            for kernel in self.kernels:
                if not kernel.busy and time.monotonic() - kernel.last_used >= seconds:
                    waited = "a minute" if seconds == 60 else f"{seconds / 60:g} minutes"
                    await self.end(kernel.name, f"it was not used for {waited}")

    async def restart(self, name: str) -> KernelSession:
        """End the kernel and start it anew."""
        self.find(name)
        await self.end(name, "")
        return (await self.get(name))[0]

    async def end(self, name: str, why: str) -> None:
        """End one kernel, and remember why for who names it again."""
        kernel = self._kernels.pop(name, None)
        if kernel is None:
            return
        if why:
            self._gone[name] = why
            if len(self._gone) > _REMEMBERED:
                del self._gone[next(iter(self._gone))]
        await kernel.end()

    async def close(self) -> None:
        """End every kernel, those that are being started too."""
        self._closed = True
        if self._reaper is not None:
            self._reaper.cancel()
        starting = list(self._starting.values())
        await asyncio.gather(
            *starting, *(self.end(name, "") for name in list(self._kernels)), return_exceptions=True
        )
        await asyncio.gather(*(self.end(name, "") for name in list(self._kernels)), return_exceptions=True)
        if self._folder:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = ""


def _run_folder() -> str | None:
    """Return the folder for files that end with the login, None where there is none: then the one for all."""
    folder = os.environ.get("XDG_RUNTIME_DIR", "")
    return folder if os.path.isdir(folder) and os.access(folder, os.W_OK) else None


def _remove_left(folder: str) -> None:
    """Remove the folders of servers that were killed: nobody else can."""
    for entry in os.scandir(folder):
        pid = entry.name.removeprefix(_FOLDER).partition("-")[0]
        if entry.name.startswith(_FOLDER) and pid.isdecimal() and not os.path.exists(f"/proc/{pid}"):
            with contextlib.suppress(OSError):
                if entry.stat(follow_symlinks=False).st_uid == os.geteuid():
                    shutil.rmtree(entry.path, ignore_errors=True)


def _checked(name: Any) -> str:  # noqa: ANN401 - what a client sent
    if isinstance(name, str) and _NAME.fullmatch(name):
        return name
    raise SentinelError(
        f"{str(name)[:60]!r} can't be the name of a kernel.",
        "Use up to 40 letters, digits, '-' and '_', such as 'main'.",
    )
