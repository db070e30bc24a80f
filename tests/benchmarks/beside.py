"""What a bomb in one kernel costs the kernel beside it: a cell's latency there, with the bomb and without."""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import TYPE_CHECKING

from figures import Result, judged
from kernels import LiveKernel

if TYPE_CHECKING:
    from collections.abc import Iterator

_CELLS = 40
_ROUNDS = 8
_AT_MOST = 1.2
_PROGRAMS = Path(__file__).resolve().parents[1] / "limits" / "programs"
_BOMBS = ("cpu_burner", "unheard_children_burn", "output_flood")
"""Those that go on for as long as they are left: the others end at once, by an error."""


def bench_beside(folder: Path) -> list[Result]:
    """Measure in turn, so that what else the machine does is in both figures."""
    with LiveKernel("sentinel", folder) as beside, LiveKernel("sentinel", folder) as bomb:
        for _ in range(_CELLS):
            beside.round_trip("1")
        return [_measure(name, beside, bomb) for name in _BOMBS]


def _measure(name: str, beside: LiveKernel, bomb: LiveKernel) -> Result:
    # Nobody reads what the bomb prints: it goes no further than this.
    code = (_PROGRAMS / f"{name}.py").read_text()
    bomb.run("%sentinel_limit output=1M")
    quiet: list[float] = []
    loud: list[float] = []
    ratios = []
    for _ in range(_ROUNDS):
        before = list(_latencies(beside))
        running = bomb.client.execute(f"print('on', flush=True)\n{code}")
        while bomb.client.get_iopub_msg(timeout=60)["content"].get("text", "")[:2] != "on":
            pass
        during = list(_latencies(beside))
        bomb.manager.interrupt_kernel()
        bomb.reply(running)
        bomb.drain()
        bomb.ask("kernel_info_request")
        quiet += before
        loud += during
        ratios.append(statistics.median(during) / statistics.median(before))
    return judged(
        f"cell beside {name}",
        statistics.median(loud) * 1000,
        "ms",
        statistics.median(quiet) * 1000,
        ratio=statistics.median(ratios),
        ratio_at_most=_AT_MOST,
        note="the baseline is the same kernel with nothing beside it",
    )


def _latencies(kernel: LiveKernel) -> Iterator[float]:
    for _ in range(_CELLS):
        yield kernel.round_trip("1")
