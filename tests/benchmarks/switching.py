"""What a change of profile costs a person, and what the gauge costs the cells that it watches."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING

from figures import Result, in_turn, judged, median_ratio, percentile
from kernels import LiveKernel, close_all
from latency import OURS

if TYPE_CHECKING:
    from pathlib import Path

_SWITCHES = 100
_GOAL_MS = 20
_CELLS = 20
_BLOCKS = 20
_SECONDS = 5
_TRIES = "import socket\ntry: socket.socket().close(); made = 1\nexcept OSError: made = 0"


def bench_switch(folder: Path) -> list[Result]:
    """A cell that changes the profile, from execute to reply, there and back; that it is in force is tried."""
    taken: dict[str, list[float]] = {"datascience": [], "strict": []}
    with LiveKernel(OURS, folder) as kernel:
        kernel.run("kept = 'kept'")
        for count in range(_SWITCHES + 2):
            profile = ("datascience", "strict")[count % 2]
            seconds = kernel.round_trip(f"%sentinel_profile {profile}")
            if kernel.value(_TRIES, "made if kept == 'kept' else -1") != (profile == "datascience"):
                raise AssertionError(f"{profile} is not in force")
            if count >= 2:  # the first ones load what a switch needs
                taken[profile].append(seconds * 1000)
    both = taken["datascience"] + taken["strict"]
    return [
        judged("profile_switch_p50", statistics.median(both), "ms", None, value_at_most=_GOAL_MS),
        judged("profile_switch_p95", percentile(both, 0.95), "ms", None),
        judged("switch_to_datascience_p50", statistics.median(taken["datascience"]), "ms", None),
        judged("switch_to_strict_p50", statistics.median(taken["strict"]), "ms", None),
    ]


def bench_gauge(folder: Path) -> list[Result]:
    """A cell `pass` with the gauge open beside one without, and its processor time while a cell sleeps."""
    kernels = {"with": LiveKernel(OURS, folder), "without": LiveKernel(OURS, folder)}

    def block(name: str) -> float:
        return statistics.median(kernels[name].round_trip("pass") for _ in range(_CELLS))

    def sleep(name: str) -> float:
        tree = kernels[name].tree
        before = tree.cpu_seconds()
        kernels[name].round_trip(f"import time; time.sleep({_SECONDS})")
        return (tree.cpu_seconds() - before) / _SECONDS * 100

    try:
        kernels["with"].round_trip("%sentinel_gauge")
        for kernel in kernels.values():
            for _ in range(20):
                kernel.round_trip("pass")
        found = in_turn({name: lambda name=name: block(name) for name in kernels}, _BLOCKS)
        share = in_turn({name: lambda name=name: sleep(name) for name in kernels}, 1)
    finally:
        close_all(kernels.values())
    more = share["with"][0] - share["without"][0]
    return [
        judged(
            "gauge_pass_reply_p50",
            statistics.median(found["with"]) * 1000,
            "ms",
            None,
            ratio=median_ratio(found["with"], found["without"]),
            ratio_at_most=1.2,
            note="beside a kernel without the gauge",
        ),
        judged("gauge_processor_share", more, "%", None, note="more than without, while a cell sleeps"),
    ]
