"""What an assistant's notebook may hold up: its own call, and none of the others."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

from sentinel_kernel.mcp.kernel_pool import KernelPool, PoolOptions
from sentinel_kernel.mcp.recent import Recent
from sentinel_kernel.mcp.running_tools import RunningTools

_LONG_SECONDS = 20.0


class _Check:
    """Reads a cell for as long as nobody else is answered."""

    def __init__(self) -> None:
        self.reads, self.others = threading.Event(), threading.Event()
        self.answered = False

    def known_profile(self, _name: object) -> str:
        return ""

    def dangers(self, *_arguments: object) -> list[dict[str, Any]]:
        self.reads.set()
        self.answered = self.others.wait(_LONG_SECONDS)
        return [{}]

    def refusal(self, *_arguments: object) -> str:
        return "dangerous"


def test_others_are_answered_while_a_notebook_is_read() -> None:
    check = _Check()
    pool = KernelPool(PoolOptions("/", "strict"))
    tools = RunningTools(pool, check, Recent(), "en")  # type: ignore[arg-type]
    document = {"cells": [{"cell_type": "code", "source": "1"}]}
    job: Any = SimpleNamespace(while_wanted=iter, stop=Future())

    async def both() -> None:
        reading = asyncio.ensure_future(tools.run_notebook(job, {"document": document}))
        await asyncio.to_thread(check.reads.wait, _LONG_SECONDS)
        check.others.set()
        assert (await reading).content["status"] == "refused"

    asyncio.run(both())
    assert check.answered
