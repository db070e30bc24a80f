"""What a bomb in one kernel costs the kernel beside it: a cell's latency there, with the bomb and without.

A cell's processes run on two processors at once where nothing else does. Where the machine has no more than two, a bomb
that keeps the one its profile gives it busy leaves the other: so the same is measured with one, and nothing beside it.
"""

from __future__ import annotations

import os
import statistics
from pathlib import Path
from typing import TYPE_CHECKING

from figures import Result, judged
from kernel_roles import roles
from kernels import LiveKernel
from pinning import kept_on, threads_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager

_CELLS = 40
_ROUNDS = 8
_AT_MOST = 1.2
_PROGRAMS = Path(__file__).resolve().parents[1] / "limits" / "programs"
_BOMBS = ("cpu_burner", "unheard_children_burn", "output_flood")
"""Those that go on for as long as they are left: the others end at once, by an error."""


def bench_beside(folder: Path) -> list[Result]:
    """Measure in turn, so that what else the machine does is in all figures."""
    with LiveKernel("sentinel", folder) as beside, LiveKernel("sentinel", folder) as bomb:
        for _ in range(_CELLS):
            beside.round_trip("1")
        return [result for name in _BOMBS for result in _measure(name, beside, bomb)]


def _measure(name: str, beside: LiveKernel, bomb: LiveKernel) -> Iterator[Result]:
    # Nobody reads what the bomb prints: it goes no further than this.
    code = (_PROGRAMS / f"{name}.py").read_text()
    bomb.run("%sentinel_limit output=1M")
    quiet: list[float] = []
    on_one: list[float] = []
    loud: list[float] = []
    for _ in range(_ROUNDS):
        quiet.append(_latency(beside))
        with _one_processor(beside):
            on_one.append(_latency(beside))
        running = bomb.client.execute(f"print('on', flush=True)\n{code}")
        while bomb.client.get_iopub_msg(timeout=60)["content"].get("text", "")[:2] != "on":
            pass
        loud.append(_latency(beside))
        bomb.manager.interrupt_kernel()
        bomb.reply(running)
        bomb.drain()
        bomb.ask("kernel_info_request")
    for identifier, usual, note in (
        (f"cell beside {name}", quiet, "the baseline is the same kernel with nothing beside it"),
        (f"cell beside {name}, of one processor", on_one, "the baseline is the same kernel on one processor"),
    ):
        yield judged(
            identifier,
            statistics.median(loud) * 1000,
            "ms",
            statistics.median(usual) * 1000,
            ratio=statistics.median(one / other for one, other in zip(loud, usual, strict=True)),
            ratio_at_most=_AT_MOST,
            note=note,
        )


def _latency(kernel: LiveKernel) -> float:
    return statistics.median(kernel.round_trip("1") for _ in range(_CELLS))


def _one_processor(kernel: LiveKernel) -> AbstractContextManager[None]:
    """Have all that a cell's way takes, this client too, on the processor that the worker may use."""
    found = roles(kernel.manager.provisioner.pid)
    processes = os.getpid(), *(found[role] for role in ("host", "supervisor", "worker"))
    return kept_on({min(os.sched_getaffinity(found["worker"]))}, lambda: threads_of(*processes))
