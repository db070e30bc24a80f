"""One sandboxed kernel of the server's: started, asked to run cells one after the other, interrupted and ended."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from queue import Empty
from typing import TYPE_CHECKING, Any

from jupyter_client.manager import AsyncKernelManager

from sentinel_kernel.errors import SentinelError
from sentinel_kernel.mcp import cell_result
from sentinel_kernel.mcp.cell_outputs import CellOutputs
from sentinel_kernel.mcp.ran_cell import CANCELLED, DIED, FINISHED, INPUT, TIMEOUT, Ran
from sentinel_kernel.policy.dangerous import DangerousNotebook

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from jupyter_client.asynchronous.client import AsyncKernelClient
    from jupyter_client.kernelspec import KernelSpecManager

    Asker = Callable[[str], Awaitable[str]]
    """Puts a question of the kernel's own to the person and returns the letter that is the answer."""

READY_SECONDS = 90.0
_GRACE_SECONDS = 10.0
"""How long an interrupted cell may take to end before its kernel is ended."""

_LOOK_SECONDS = 1.0
_PAGE_SECONDS = 20.0
_END_SECONDS = 20.0
_LOG_BYTES = 2000
HOST_MARK = "Sentinel "
"""What prompts of the kernel's own begin with; it marks prompts of cells that look the same."""


class _Clock:
    """The seconds that a cell may take; it stands while the person is asked."""

    def __init__(self, seconds: float) -> None:
        self._left = seconds
        self._since = time.monotonic()
        self.stands = False

    def tick(self) -> bool:
        """Return whether the time is over."""
        now = time.monotonic()
        if not self.stands:
            self._left -= now - self._since
        self._since = now
        return self._left <= 0


class KernelSession:
    """A kernel with a name. Cells run one at a time.

    ``files`` is what the paths of its files begin with; no other kernel may have the same, as one that ends takes them
    along.
    """

    def __init__(self, name: str, files: str, specifications: KernelSpecManager, kernel: str) -> None:
        self.name = name
        self.profile = ""
        """The profile in force, as the kernel has told it last."""

        self.no_sandbox = ""
        """Why the kernel could set none up, in its own words, as it has told last; empty where it has one."""

        self.had_sandbox = False
        """Whether it has told of one that runs: before that, nothing of a cell's can be lost with it."""

        self.dangers = DangerousNotebook()
        """What the dangerous rules have read of its cells."""

        self.cells = 0
        self.started = time.monotonic()
        self.last_used = time.monotonic()
        self.lost = False
        """Whether it has ended, or has to be."""

        self._log_path = f"{files}.log"
        self._manager = AsyncKernelManager(
            kernel_name=kernel, kernel_spec_manager=specifications, transport="ipc"
        )
        self._manager.connection_file = f"{files}.json"
        self._client: AsyncKernelClient | None = None
        self._turn = asyncio.Lock()
        self._halt: asyncio.Future[str] | None = None
        """Ends the cell that runs: it waits for input(), or the kernel is to end."""

    @property
    def busy(self) -> bool:
        """Whether a cell runs or waits."""
        return self._turn.locked()

    @property
    def run_name(self) -> str:
        """Return what the audit calls this kernel."""
        return os.path.realpath(self._manager.connection_file)

    async def start(self, workspace: str, environment: Mapping[str, str]) -> None:
        """Start the kernel and wait until it answers.

        Raises:
            SentinelError: it did not start; the end of its log is in the message.

        """
        with open(self._log_path, "wb") as log:  # noqa: ASYNC230 - a new file of this server's own
            try:
                await self._manager.start_kernel(
                    cwd=workspace,
                    env=dict(environment),
                    stdin=asyncio.subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                )
                client: AsyncKernelClient = self._manager.client()
                self._client = client
                client.start_channels()
                await client.wait_for_ready(timeout=READY_SECONDS)
            except (RuntimeError, OSError, ValueError) as error:
                log.flush()
                provisioner = self._manager.provisioner
                status = None if provisioner is None else await provisioner.poll()
                said = self._log() if status is None else f"Exit status {status}. {self._log()}".strip()
                await self.end()
                raise SentinelError(
                    f"The kernel did not start: {error}. {said}",
                    "Run `sentinel-kernel doctor` in a terminal.",
                ) from error
        self.profile = environment.get("SENTINEL_PROFILE", "")

    def _log(self) -> str:
        with contextlib.suppress(OSError), open(self._log_path, "rb") as file:
            file.seek(max(0, os.path.getsize(self._log_path) - _LOG_BYTES))
            return file.read().decode("utf-8", "replace").strip()
        return ""

    async def run(
        self,
        code: str,
        seconds: float,
        ask: Asker | None = None,
        stop: asyncio.Future[str] | None = None,
        *,
        note: bool = True,
    ) -> Ran:
        """Run one cell to its end, once those before it are done.

        ``ask`` answers the kernel's own questions; without it nobody can be asked. A result in ``stop`` ends the cell.
        ``note`` False: for cells of this server's own, which are not counted.
        """
        stop = stop or asyncio.get_running_loop().create_future()
        async with self._turn:
            self.cells += note
            try:
                return await self._run(code, seconds, ask, stop, note=note)
            finally:
                self._halt = None
                if note:  # to look at a kernel is not to use it
                    self.last_used = time.monotonic()

    async def _run(
        self, code: str, seconds: float, ask: Asker | None, stop: asyncio.Future[str], *, note: bool
    ) -> Ran:
        client = self._client
        if client is None or self.lost:
            return Ran(CellOutputs(), DIED, "error", None, 0.0, kernel_lost=True)
        if stop.done():
            return Ran(CellOutputs(), CANCELLED, "error", None, 0.0)
        began = time.monotonic()
        self._halt = halt = asyncio.get_running_loop().create_future()
        clock = _Clock(seconds)
        outputs = CellOutputs()
        msg_id = client.execute(code, allow_stdin=ask is not None, store_history=note)
        reply = asyncio.ensure_future(_reply(client, msg_id))
        begun = asyncio.Event()
        idle = asyncio.ensure_future(_gather(client, msg_id, outputs, begun))
        prompts = asyncio.ensure_future(self._prompts(client, ask, clock, halt))
        ends = asyncio.gather(reply, idle)
        try:
            ended = await self._ended(ends, (stop, halt), clock, begun)
            content = reply.result() if reply.done() else {}
            if outputs.error is None and content.get("status") == "error":
                outputs.fail(content)  # refused before it began: the reply alone says why
            count = content.get("execution_count")
            return Ran(
                outputs,
                ended,
                str(content.get("status") or "error"),
                count if isinstance(count, int) else None,
                time.monotonic() - began,
                self.lost,
            )
        finally:
            for task in (reply, idle, prompts):
                task.cancel()
            await asyncio.gather(reply, idle, prompts, ends, return_exceptions=True)

    async def limits(self) -> dict[str, Any]:
        """Return the kernel's own page of its limits, as data; it tells which profile is in force, too.

        Its trusted side makes it: the code in the sandbox has no part in it. Without a sandbox there is none.
        """
        ran = await self.run("%sentinel_limit", _PAGE_SECONDS, note=False)
        told = ran.outputs.limits or {}
        self.no_sandbox = cell_result.no_sandbox(ran)
        self.had_sandbox = self.had_sandbox or bool(told)
        if isinstance(profile := told.get("profile"), str):
            self.profile = profile
        return told

    async def files(self) -> dict[str, Any] | None:
        """Return what this kernel's cells wrote and is held; None where it does not say, as without a sandbox."""
        told = (await self.run("%sentinel_files --json", _PAGE_SECONDS, note=False)).outputs.files
        self.had_sandbox = self.had_sandbox or told is not None
        return told

    async def _ended(
        self,
        ends: asyncio.Future[Any],
        stops: tuple[asyncio.Future[str], ...],
        clock: _Clock,
        begun: asyncio.Event,
    ) -> str:
        """Wait for a cell's end, or bring it about; return how it came."""
        while True:
            await asyncio.wait({ends, *stops}, timeout=_LOOK_SECONDS, return_when=asyncio.FIRST_COMPLETED)
            if ends.done():
                return FINISHED
            if wanted := [stop.result() for stop in stops if stop.done()]:
                ended = wanted[0]
            elif clock.tick():
                ended = TIMEOUT
            elif not await self._manager.is_alive():
                ended = DIED
            else:
                continue
            self.lost = ended == DIED or not await self._interrupted(ends, begun)
            return ended

    async def _interrupted(self, ends: asyncio.Future[Any], begun: asyncio.Event) -> bool:
        """Interrupt the cell; return whether it has ended in time.

        An interrupt overtakes the cell, which comes another way; the kernel would find nothing to interrupt.
        """
        try:
            await asyncio.wait_for(begun.wait(), _GRACE_SECONDS)
            await self._manager.interrupt_kernel()
        except (TimeoutError, RuntimeError, OSError):
            return False
        done, _ = await asyncio.wait({ends}, timeout=_GRACE_SECONDS)
        return bool(done)

    async def _prompts(
        self, client: AsyncKernelClient, ask: Asker | None, clock: _Clock, halt: asyncio.Future[str]
    ) -> None:
        """Answer the kernel's own questions; a cell that waits for input() is ended, as nobody types here."""
        if ask is None:
            return
        while True:
            message = await client.get_stdin_msg(timeout=None)
            if message.get("msg_type") != "input_request":
                continue
            prompt = str(message["content"].get("prompt") or "")
            if not prompt.startswith(HOST_MARK):
                if not halt.done():
                    halt.set_result(INPUT)
                return
            clock.stands = True
            answer = await ask(prompt)
            clock.tick()
            clock.stands = False
            # The parent tells which question it is: one that is over by now takes no answer.
            client.stdin_channel.send(client.session.msg("input_reply", {"value": answer}, parent=message))

    async def end(self) -> None:
        """End the kernel: asked first, then killed."""
        self.lost = True
        if self._halt is not None and not self._halt.done():
            self._halt.set_result(CANCELLED)
        client, self._client = self._client, None
        try:
            await asyncio.wait_for(self._manager.shutdown_kernel(now=False), _END_SECONDS)
        except (TimeoutError, RuntimeError, OSError):
            with contextlib.suppress(TimeoutError, RuntimeError, OSError):
                await asyncio.wait_for(self._manager.shutdown_kernel(now=True), _END_SECONDS)
        if client is not None:
            client.stop_channels()
        with contextlib.suppress(RuntimeError, OSError):
            self._manager.context.destroy(linger=0)
        for path in (self._log_path, self._manager.connection_file):
            with contextlib.suppress(OSError):
                os.unlink(path)


async def _reply(client: AsyncKernelClient, msg_id: str) -> dict[str, Any]:
    while True:
        with contextlib.suppress(Empty):
            message = await client.get_shell_msg(timeout=None)
            if message.get("parent_header", {}).get("msg_id") == msg_id:
                content: dict[str, Any] = message["content"]
                return content


async def _gather(client: AsyncKernelClient, msg_id: str, outputs: CellOutputs, begun: asyncio.Event) -> None:
    """Take the outputs of one cell until it is idle; tell when the kernel has begun with it."""
    while True:
        with contextlib.suppress(Empty):
            message = await client.get_iopub_msg(timeout=None)
            if message.get("parent_header", {}).get("msg_id") != msg_id:
                continue
            begun.set()
            content = message["content"]
            if message["msg_type"] != "status":
                outputs.take(message["msg_type"], content)
            elif content.get("execution_state") == "idle":
                return
