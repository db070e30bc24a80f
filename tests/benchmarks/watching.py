"""What watching a sandbox costs: samples and the audit, beside a cell that holds much memory."""

from __future__ import annotations

import os
import statistics
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from figures import Result, judged
from kernels import LiveKernel

if TYPE_CHECKING:
    from processes import Tree

OURS = "sentinel"
_SECONDS = 5
_ROUNDS = 3
_HEAP = "heap = bytearray(1 << 30)\nfor place in range(0, 1 << 30, 4096): heap[place] = 1"
_HOLDS = f"import time; time.sleep({_SECONDS})"


def bench_watching(folder: Path) -> list[Result]:
    """Processor time of all that runs outside the sandbox while a cell with a heap of 1 GiB runs."""
    with LiveKernel(OURS, folder, "datascience") as kernel:
        kernel.run(_HEAP)
        namespace = kernel.namespace()
        outside = []
        for _ in range(_ROUNDS):
            before = _outside(kernel.tree, namespace)
            kernel.run(_HOLDS)
            outside.append((_outside(kernel.tree, namespace) - before) / _SECONDS * 100)
    percent = statistics.median(outside)
    return [judged("telemetry_and_audit", percent, "%", None, value_at_most=1, note="of one processor")]


def _outside(tree: Tree, namespace: str) -> float:
    """Return the processor seconds, so far, of the processes that are in no sandbox."""
    root = os.readlink(f"/proc/{tree.pids[0]}/ns/pid")
    seconds = 0.0
    for pid in tree.pids:
        with suppress(FileNotFoundError):
            if os.readlink(f"/proc/{pid}/ns/pid") == root != namespace:
                seconds += sum(
                    int(Path(f"/proc/{pid}/task/{task}/schedstat").read_text().split()[0])
                    for task in os.listdir(f"/proc/{pid}/task")
                )
    return seconds / 1e9
