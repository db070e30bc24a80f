"""`make bench`: measures Sentinel beside plain ipykernel and xeus-python in one run; prints a table, writes bench.json.

Every ratio is a median over runs in turn, so that what disturbs the machine disturbs all sides.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1] / "support")]

import primitives
from beside import bench_beside
from computing import bench_computing
from figures import Result, judged, paired
from folders import bench_folders
from hosts import bench_hosts
from latency import bench_interrupt, bench_memory, bench_recovery, bench_round_trip, bench_start
from loss import bench_loss
from many import bench_many
from output import bench_buffers, bench_control, bench_output
from refusals import bench_preflight, bench_refusals
from switching import bench_gauge, bench_switch
from watching import bench_watching

if TYPE_CHECKING:
    from collections.abc import Callable


def bench_primitives(folder: Path) -> list[Result]:
    """Set-up against bubblewrap, notifications, and a bare overlay to look at."""
    results = []
    with primitives.Setup(folder) as setup:
        setup.ours(), setup.bubblewrap()
        a, b, ratio = paired(lambda: setup.ours() * 1000, lambda: setup.bubblewrap() * 1000)
        results.append(judged("setup_clone_to_filter", a, "ms", b, ratio=ratio, ratio_at_most=1.0))
    results.append(
        judged("notification_p50", primitives.bare_notification() * 1e6, "us", None, value_at_most=15)
    )
    first, repeat = primitives.recorded_refusal(folder)
    results.append(judged("recorded_refusal_p50", first * 1e6, "us", None, value_at_most=200))
    results.append(judged("repeated_refusal_p50", repeat * 1e6, "us", None, value_at_most=200))
    for name, value, baseline in primitives.bare_overlay(folder):
        results.append(judged(name, value * 1000, "ms", baseline * 1000))
    return results


GROUPS: dict[str, Callable[[Path], list[Result]]] = {
    "primitives": bench_primitives,
    "start": bench_start,
    "round_trip": bench_round_trip,
    "output": bench_output,
    "buffers": bench_buffers,
    "control": bench_control,
    "interrupt": bench_interrupt,
    "recovery": bench_recovery,
    "switch": bench_switch,
    "gauge": bench_gauge,
    "memory": bench_memory,
    "many": bench_many,
    "loss": bench_loss,
    "computing": bench_computing,
    "folders": bench_folders,
    "beside": bench_beside,
    "audit": bench_watching,
    "refusals": bench_refusals,
    "preflight": bench_preflight,
    "hosts": bench_hosts,
}


def line(result: Result) -> str:
    """Return one row of the table."""
    baseline = "" if result.baseline is None else f"{result.baseline:.4g}"
    xeus = "" if result.xeus is None else f"{result.xeus:.4g}"
    ratio = "" if result.ratio is None else f"{result.ratio:.2f}"
    verdict = {True: "holds", False: "MISSED", None: ""}[result.holds]
    note = f"({result.note})" if result.note else ""
    row = (
        f"{result.id:26} {result.value:>7.4g} {result.unit:2} {baseline:>9} {xeus:>7} {ratio:>6}  "
        f"{result.goal} {verdict} {note}"
    )
    return row.rstrip()


def main() -> int:
    """Measure, print, write; exit 1 when a goal is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("groups", nargs="*", choices=[*GROUPS, []], help="only these groups")
    parser.add_argument("--output", default="bench.json", type=Path)
    arguments = parser.parse_args()
    results: list[Result] = []
    print(f"{'figure':26} {'value':>10} {'ipykernel':>9} {'xeus':>7} {'ratio':>6}  goal")
    for name, group in GROUPS.items():
        if arguments.groups and name not in arguments.groups:
            continue
        folder = Path(tempfile.mkdtemp(prefix="sentinel-bench-"))
        os.environ["XDG_STATE_HOME"] = str(
            folder / "state"
        )  # what is measured is not in the person's own audit
        try:
            for result in group(folder):
                results.append(result)
                print(line(result), flush=True)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    arguments.output.write_text(json.dumps([asdict(result) for result in results], indent=1) + "\n")
    return 1 if any(result.holds is False for result in results) else 0


if __name__ == "__main__":
    sys.exit(main())
