"""A million generated messages of a worker, or held calls: no exception gets out, and memory stays where it was."""

from __future__ import annotations

import gc
import os
import random
import sys
import time
from pathlib import Path

from fuzz_mutation import by_chance
from fuzz_targets import TARGETS, seeds

MILLION = 1_000_000
_LOOKS = 20
_GROWTH_MIB = 3.0
"""What a run may grow by after its first fifth: caches fill, and the heap is in pieces."""


def main(arguments: list[str]) -> int:
    """Run ``TARGET [COUNT [SEED]]``; return the exit status."""
    name = arguments[0] if arguments else "messages"
    count = int(arguments[1]) if len(arguments) > 1 else MILLION
    chance = random.Random(int(arguments[2]) if len(arguments) > 2 else 1)
    target, right = TARGETS[name], seeds(name)
    if name == "messages":
        import fuzz_host

        fuzz_host.LOOKED_AT = 20
    looks: list[tuple[int, float]] = []
    began = time.monotonic()
    for number in range(1, count + 1):
        data = by_chance(chance, right)
        try:
            target(data)
        except BaseException:
            print(f"{name}: input {number} gets out: {data!r}", file=sys.stderr)
            raise
        if number % max(1, count // _LOOKS) == 0:
            gc.collect()
            looks.append((number, _resident_mib()))
            print(f"{name}: {number:>9} done, {looks[-1][1]:.1f} MiB", flush=True)
    slope = slope_of(looks[len(looks) // 5 :]) * MILLION
    grown = looks[-1][1] - looks[len(looks) // 5][1]
    took = time.monotonic() - began
    print(
        f"{name}: {count} inputs in {took / 60:.1f} min, 0 exceptions out, "
        f"memory {slope:+.2f} MiB a million (by regression), {grown:+.2f} MiB grown"
    )
    return 0 if grown < _GROWTH_MIB else 1


def slope_of(points: list[tuple[int, float]]) -> float:
    """Return the slope of the line that fits the points best (least squares)."""
    if len(points) < 2:
        return 0.0
    middle_x = sum(x for x, _ in points) / len(points)
    middle_y = sum(y for _, y in points) / len(points)
    above = sum((x - middle_x) * (y - middle_y) for x, y in points)
    below = sum((x - middle_x) ** 2 for x, _ in points)
    return above / below if below else 0.0


def _resident_mib() -> float:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / (1 << 20)
