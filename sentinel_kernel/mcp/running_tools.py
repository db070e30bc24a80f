"""The tools that run code: cells, whole notebooks, and the kernels that they run in."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from sentinel_kernel.errors import SentinelError
from sentinel_kernel.mcp import cell_result
from sentinel_kernel.mcp.cell_outputs import OUTPUTS, UNTRUSTED
from sentinel_kernel.mcp.code_check import REFUSE
from sentinel_kernel.mcp.kernel_pool import DEFAULT_KERNEL
from sentinel_kernel.mcp.notebook_document import read_cells
from sentinel_kernel.mcp.tool_schemas import DEFAULT_SECONDS
from sentinel_kernel.policy.dangerous import DangerousNotebook
from sentinel_kernel.record import MutableRecord, fresh

if TYPE_CHECKING:
    from sentinel_kernel.mcp.asking import Job
    from sentinel_kernel.mcp.cell_outputs import Image
    from sentinel_kernel.mcp.code_check import CodeCheck
    from sentinel_kernel.mcp.kernel_pool import KernelPool
    from sentinel_kernel.mcp.kernel_session import Asker, KernelSession
    from sentinel_kernel.mcp.notebook_document import CodeCell
    from sentinel_kernel.mcp.recent import Recent

Json = dict[str, Any]
_SWITCH_SECONDS = 120.0
_MAGIC = "%sentinel_"
_MOST_IMAGES = 4
_NOTEBOOK_CHARACTERS = 200_000
"""Of outputs in one result; cells beyond it keep their status, hint and violations alone."""


class Answer(MutableRecord):
    """What a tool gives: structured content, pictures, and whether the client's model has to look at an error."""

    content: Json
    is_error: bool = False
    images: list[Image] = fresh(default_factory=list)


class RunningTools:
    """Runs what clients send."""

    def __init__(self, pool: KernelPool, check: CodeCheck, recent: Recent, language: str) -> None:
        self._pool = pool
        self._check = check
        self._recent = recent
        self._language = language

    async def run_cell(self, job: Job, arguments: Json) -> Answer:
        """Run one cell in a kernel that keeps its variables."""
        code = str(arguments["code"])
        wanted = self._check.known_profile(arguments.get("profile"))
        kernel, gone = await self._pool.get(arguments.get("kernel", DEFAULT_KERNEL))
        dangerous = arguments.get("dangerous", REFUSE)
        findings = self._check.dangers(code, dangerous, kernel.dangers)
        if refusal := self._check.refusal(findings, dangerous):
            kernel.dangers.take_back()
            content = cell_result.not_run(cell_result.REFUSED, refusal, kernel.name, kernel.profile, findings)
            return Answer(content, is_error=True)
        notes = []
        if gone:
            notes.append(f"The kernel {kernel.name!r} was ended before ({gone}): this is a new one.")
        if wanted and (fault := await self._switched(job, kernel, wanted)) is not None:
            fault["questions"] = job.asked
            return Answer(fault, is_error=True)
        seconds = float(arguments.get("timeout_seconds", DEFAULT_SECONDS))
        answer = await self._run(job, kernel, code, seconds, notes)
        answer.content["findings"] = findings
        return answer

    async def _run(
        self, job: Job, kernel: KernelSession, code: str, seconds: float, notes: list[str]
    ) -> Answer:
        ran = await kernel.run(code, seconds, _asker(job, kernel), job.stop)
        if _MAGIC in code and not ran.kernel_lost:
            await kernel.limits()  # the cell may have changed the profile
        if ran.kernel_lost:
            await self._pool.end(kernel.name, "it had to be ended")
        content = cell_result.of_ran(ran, kernel.name, kernel.profile, self._language, notes)
        content["questions"] = job.asked
        if not ran.kernel_lost:
            content["files"] = await kernel.files()
        self._recent.add(kernel.name, content["violations"])
        return Answer(content, content["status"] != cell_result.OK, ran.outputs.images)

    async def _switched(self, job: Job, kernel: KernelSession, profile: str) -> Json | None:
        """Have the kernel go on under another profile; return what tells why not."""
        if profile == kernel.profile and not kernel.no_sandbox:
            return None
        # The kernel's own magic: its ceiling holds, and beyond it the person is asked.
        magic = f"%sentinel_profile {profile} --carry"
        ran = await kernel.run(magic, _SWITCH_SECONDS, _asker(job, kernel), job.stop, note=False)
        if cell_result.status_of(ran) == cell_result.OK:
            kernel.profile, kernel.no_sandbox, kernel.had_sandbox = profile, "", True
            return None
        page: Json = {} if ran.kernel_lost else await kernel.limits()
        if page and kernel.profile == profile:
            return None  # what failed is code of the sandbox behind the change, whose words are no hint
        told = cell_result.of_ran(ran, kernel.name, kernel.profile, self._language)
        told["hint"] = f"{_why_not(told, kernel, page, profile)} {told['hint']}".strip()
        return told

    async def run_notebook(self, job: Job, arguments: Json) -> Answer:
        """Run a notebook's code cells in a kernel of its own, one after the other."""
        workspace = self._pool.options.workspace
        cells = read_cells(workspace, arguments.get("path"), arguments.get("document"))
        wanted = self._check.known_profile(arguments.get("profile"))
        profile = wanted or self._pool.options.profile
        results: list[Json] = []
        content: Json = {
            "status": cell_result.OK,
            "hint": "",
            "profile": profile,
            "cells_total": len(cells),
            "cells_run": 0,
            "cells": results,
            "untrusted_fields": [f"cells[].{name}" for name in UNTRUSTED],
        }
        dangerous, read = arguments.get("dangerous", REFUSE), DangerousNotebook()

        def look() -> dict[int, list[Json]]:
            return {
                cell.number: self._check.dangers(cell.code, dangerous, read)
                for cell in job.while_wanted(cells)
            }

        # A long notebook takes a minute and more: the server answers other calls meanwhile.
        checked = await asyncio.to_thread(look)
        if job.stop.done():
            content["status"], content["hint"] = (
                cell_result.CANCELLED,
                "No cell was run: the call was cancelled.",
            )
            return Answer(content, is_error=True)
        for cell in cells:
            if refusal := self._check.refusal(findings := checked[cell.number], dangerous):
                told = cell_result.not_run(cell_result.REFUSED, refusal, "", profile, findings)
                results.append({**_which(cell), **told})
        if results:
            content["status"] = cell_result.REFUSED
            content["hint"] = f"No cell was run. Code cell {results[0]['number']}: {results[0]['hint']}"
            return Answer(content, is_error=True)
        answer = Answer(content)
        async with self._pool.temporary("notebook") as kernel:
            if wanted and (fault := await self._switched(job, kernel, wanted)) is not None:
                raise SentinelError(fault["hint"])
            await self._cells(job, kernel, cells, arguments, answer)
        for told in results:
            told["findings"] = checked[told["number"]]
        answer.is_error = content["status"] != cell_result.OK
        return answer

    async def _cells(
        self, job: Job, kernel: KernelSession, cells: list[CodeCell], arguments: Json, answer: Answer
    ) -> None:
        """Run the cells of a notebook, and put what they gave into its answer."""
        content = answer.content
        seconds = float(arguments.get("timeout_seconds", DEFAULT_SECONDS))
        room = _NOTEBOOK_CHARACTERS
        for done, cell in enumerate(cells):
            await job.progress(done, len(cells), f"code cell {cell.number}")
            job.asked = []
            one = await self._run(job, kernel, cell.code, seconds, [])
            told = one.content
            room -= _shorten(told, room)
            answer.images += one.images[: max(0, _MOST_IMAGES - len(answer.images))]
            content["cells"].append({**_which(cell), **told})
            content["cells_run"] += 1
            if not one.is_error:
                continue
            if content["status"] == cell_result.OK:
                content["status"] = told["status"]
                content["hint"] = f"Code cell {cell.number}: {told['hint']}".strip()
            if kernel.lost or told["status"] == cell_result.CANCELLED or arguments.get("stop_on_error", True):
                break
        await job.progress(len(cells), len(cells), "done")

    async def restart_kernel(self, _job: Job, arguments: Json) -> Answer:
        """End a kernel and start it anew."""
        kernel = await self._pool.restart(arguments.get("kernel", DEFAULT_KERNEL))
        return Answer({"kernel": kernel.name, "status": "restarted", "running": self._running()})

    async def close_kernel(self, _job: Job, arguments: Json) -> Answer:
        """End a kernel."""
        kernel = self._pool.find(arguments.get("kernel", DEFAULT_KERNEL))
        await self._pool.end(kernel.name, "close_kernel ended it")
        return Answer({"kernel": kernel.name, "status": "closed", "running": self._running()})

    def _running(self) -> list[str]:
        return [kernel.name for kernel in self._pool.kernels]


def _why_not(told: Json, kernel: KernelSession, page: Json, profile: str) -> str:
    """Return what became of a kernel that did not go on under ``profile``, in words of the trusted side alone."""
    if kernel.no_sandbox and not kernel.had_sandbox:
        # Nothing was in one, if there was one: of a kernel whose first call this is nobody knows.
        first = (
            f" The kernel was started under profile={kernel.profile!r}." if kernel.profile != profile else ""
        )
        return f"The cell was not run. {kernel.no_sandbox}{first}"
    if kernel.no_sandbox:
        again = f" profile={kernel.profile!r} starts one as it was." if kernel.profile != profile else ""
        return (
            "The cell was not run, and the sandbox that there was is gone, its variables with it. "
            f"{kernel.no_sandbox}{again}"
        )
    if not page:
        return "The cell was not run."
    error = told["error"] or {}
    said = f" {error.get('evalue', '')}" if error.get("ename") == "UsageError" else ""
    return f"The cell was not run: the profile is still {kernel.profile!r}.{said}"


def _which(cell: CodeCell) -> Json:
    """Return which cell of a notebook a result is of."""
    return {"number": cell.number, "notebook_cell": cell.notebook_cell}


def _asker(job: Job, kernel: KernelSession) -> Asker | None:
    """Return who answers the kernel's questions; None where nobody does: then it refuses by itself."""
    if not job.can_ask:
        return None

    async def ask(prompt: str) -> str:
        return await job.ask(prompt, kernel.name)

    return ask


def _shorten(told: Json, room: int) -> int:
    """Take the outputs out of a cell's result where there is no room for them; return how much they take."""
    size = sum(len(str(told[name])) for name in OUTPUTS if told[name])
    if size <= room:
        return size
    for name in OUTPUTS:
        if told[name]:
            told["left_out"][name] = told["left_out"].get(name, 0) + len(str(told[name]))
            told[name] = {"stdout": "", "stderr": "", "displays": []}.get(name)
    return 0
