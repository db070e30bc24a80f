"""A call that was given up does no more of its work: a thread that goes on keeps other calls waiting, and the end."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from waiting import wait_until

from sentinel_kernel.mcp.asking import Job
from sentinel_kernel.mcp.code_check import CodeCheck
from sentinel_kernel.mcp.kernel_pool import PoolOptions
from sentinel_kernel.mcp.recent import Recent
from sentinel_kernel.mcp.repair_tools import RepairTools
from sentinel_kernel.mcp.running_tools import RunningTools

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from sentinel_kernel.policy.dangerous import DangerousNotebook

Json = dict[str, Any]
CELLS = ["1", "2", "3"]


class Interrupted(CodeCheck):
    """Looks at cells as ever; while it looks at the first one, the client gives the call up."""

    def __init__(self, folder: Path) -> None:
        super().__init__(str(folder), {}, "en")
        self.looked_at: list[str] = []
        self.give_up: Callable[[], None] = lambda: None

    def _looks(self, code: str) -> str:
        self.looked_at.append(code)
        self.give_up()
        return code

    def dangers(self, code: str, dangerous: str, read: DangerousNotebook) -> list[Json]:
        return super().dangers(self._looks(code), dangerous, read)

    def refusals(self, cells: Iterable[str], profile: str) -> list[list[Json]]:
        return super().refusals(map(self._looks, cells), profile)


@pytest.mark.parametrize("tool", ["run_notebook", "scan"])
def test_cells_behind_the_one_that_is_looked_at_are_left_alone(tool: str, tmp_path: Path) -> None:
    check = Interrupted(tmp_path)
    pool: Any = SimpleNamespace(options=PoolOptions(str(tmp_path), "strict"), kernels=[])
    nothing: Any = None
    running = RunningTools(pool, check, Recent(), "en")
    repairing = RepairTools(pool, nothing, check, Recent(), "en")
    document = {"nbformat": 4, "cells": [{"cell_type": "code", "source": code} for code in CELLS]}

    async def call() -> Any:
        loop = asyncio.get_running_loop()
        work: Any = {"run_notebook": running.run_notebook, "scan": repairing.scan}[tool]
        job = Job(tool, nothing, 0.0, lambda job: work(job, {"document": document}))

        def give_up() -> None:
            loop.call_soon_threadsafe(job.cancel)
            wait_until(job.stop.done, "the call is given up")

        check.give_up = give_up
        return await job.go_on()

    answer = asyncio.run(call())
    assert check.looked_at == CELLS[:1]
    if tool == "run_notebook":
        assert (answer.content["status"], answer.content["cells_run"]) == ("cancelled", 0)
