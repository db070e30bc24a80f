"""Every fuzz target for a moment, always with the same inputs: what is right, what once was wrong, and what is near.

Run as a program: targets put themselves between parts of the kernel, which must not outlive them in a test's process.
"""

from __future__ import annotations

import sys
import traceback
from pathlib import Path

from hypothesis import HealthCheck, given, settings

sys.path[:0] = [str(Path(__file__).resolve().parents[2])]

from fuzz_mutation import inputs  # noqa: E402
from fuzz_targets import TARGETS, crashes, seeds  # noqa: E402

EXAMPLES = 60


def _try(name: str) -> None:
    for seed in seeds(name):
        TARGETS[name](seed)

    @settings(
        max_examples=EXAMPLES,
        derandomize=True,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(inputs(seeds(name)))
    def tried(data: bytes) -> None:
        TARGETS[name](data)

    tried()


def main() -> None:
    """Print one line a target: its name, ``ok``, and how many inputs of the corpus were replayed."""
    for name in TARGETS:
        try:
            _try(name)
        except Exception:  # noqa: BLE001 - the test shows it
            traceback.print_exc()
            print(f"{name} FAILED", flush=True)
        else:
            print(f"{name} ok {len(list(crashes(name)))}", flush=True)


if __name__ == "__main__":
    main()
