"""Messages that get lost: 20,000 displays of 4 kB, with a client that stalls and on a machine that is busy."""

from __future__ import annotations

import os
import subprocess
from contextlib import nullcontext
from typing import TYPE_CHECKING

from figures import Result, judged
from flooding import BUDGET_BYTES, Flood, burners, flood
from jupyter_client.manager import KernelManager
from latency import OURS, PLAIN

if TYPE_CHECKING:
    from pathlib import Path

_DISPLAYS = 20_000
_STALL_SECONDS = 3
_BURNERS = 6
_RUNS = 5


def _run(name: str, folder: Path, stall_seconds: float) -> Flood:
    """Flood a fresh kernel's client, so that the peak of memory is this flood's."""
    manager = KernelManager(kernel_name=name)
    manager.start_kernel(
        cwd=str(folder), env=dict(os.environ), stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL
    )
    client = manager.blocking_client()
    client.start_channels()
    try:
        client.wait_for_ready(timeout=120)
        return flood(client, int(manager.provisioner.pid), _DISPLAYS, stall_seconds)
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
        client.context.destroy(linger=0)
        manager.cleanup_resources()


def bench_loss(folder: Path) -> list[Result]:
    """The most messages lost in five runs, runs whose idle was not the last message, and the host's memory."""
    rows = []
    for case, stall_seconds, busy in (("stall", _STALL_SECONDS, 0), ("burners", 0, _BURNERS)):
        found: dict[str, list[Flood]] = {OURS: [], PLAIN: []}
        for _ in range(_RUNS):
            for name, floods in found.items():
                with burners(busy) if busy else nullcontext():
                    floods.append(_run(name, folder, stall_seconds))
        ours, plain = found[OURS], found[PLAIN]
        note = f"each run: {[flood.lost for flood in ours]}, ipykernel {[flood.lost for flood in plain]}"
        rows += [
            judged(
                f"lost_{case}", max(run.lost for run in ours), "", max(run.lost for run in plain),
                value_at_most=0, note=note,
            ),
            judged(
                f"idle_not_last_{case}", sum(not run.idle_last for run in ours), "",
                sum(not run.idle_last for run in plain), value_at_most=0,
            ),
            judged(
                f"host_peak_{case}", max(run.peak_bytes for run in ours) / 2**20, "MB",
                max(run.peak_bytes for run in plain) / 2**20, value_at_most=BUDGET_BYTES / 2**20,
            ),
            judged(
                f"seconds_{case}", max(run.seconds for run in ours), "s", max(run.seconds for run in plain)
            ),
        ]  # fmt: skip
    return rows
