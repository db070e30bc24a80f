"""`make bench`: measures Sentinel against plain ipykernel and bubblewrap in one run; prints a table, writes bench.json.

Every ratio is the median over at least 15 alternating pairs, so that what disturbs the machine disturbs both sides.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1] / "support")]

import primitives
from kernels import LiveKernel

if TYPE_CHECKING:
    from collections.abc import Callable

PAIRS = 15
CELLS = 300


@dataclass(frozen=True)
class Result:
    """One measured figure; ``holds`` is None where there is no goal (a figure to look at)."""

    id: str
    value: float
    unit: str
    baseline: float | None
    ratio: float | None
    goal: str
    holds: bool | None


def judged(
    identifier: str, value: float, unit: str, baseline: float | None, *, ratio_at_most: float | None = None,
    value_at_most: float | None = None, ratio: float | None = None,
) -> Result:  # fmt: skip
    """Return a result held against its goal."""
    if ratio is None and baseline:
        ratio = value / baseline
    if ratio_at_most is not None:
        holds = None if ratio is None else ratio <= ratio_at_most
        return Result(identifier, value, unit, baseline, ratio, f"ratio <= {ratio_at_most}", holds)
    if value_at_most is not None:
        return Result(
            identifier, value, unit, baseline, ratio, f"<= {value_at_most} {unit}", value <= value_at_most
        )
    return Result(identifier, value, unit, baseline, ratio, "", None)


def paired(
    ours: Callable[[], float], theirs: Callable[[], float], pairs: int = PAIRS
) -> tuple[float, float, float]:
    """Run the two in turn, who goes first alternating; return both medians and the median of the pairs' ratios."""
    first, second, ratios = [], [], []
    for number in range(pairs):
        if number % 2:
            b, a = theirs(), ours()
        else:
            a, b = ours(), theirs()
        first.append(a)
        second.append(b)
        ratios.append(a / b)
    return statistics.median(first), statistics.median(second), statistics.median(ratios)


def bench_start(folder: Path) -> list[Result]:
    """Start to kernel_info reply."""

    def start(name: str) -> float:
        with LiveKernel(name, folder) as kernel:
            return kernel.start_seconds * 1000

    start("sentinel"), start("python3")
    ours, theirs, ratio = paired(lambda: start("sentinel"), lambda: start("python3"))
    return [judged("start_to_kernel_info", ours, "ms", theirs, ratio=ratio, ratio_at_most=1.25)]


def bench_round_trip(folder: Path) -> list[Result]:
    """A cell `pass`, execute to reply: medians of blocks, in turn."""
    with LiveKernel("sentinel", folder) as ours, LiveKernel("python3", folder) as theirs:
        for kernel in (ours, theirs):
            for _ in range(50):
                kernel.round_trip("pass")

        def block(kernel: LiveKernel) -> float:
            return statistics.median(kernel.round_trip("pass") for _ in range(CELLS // PAIRS)) * 1000

        a, b, ratio = paired(lambda: block(ours), lambda: block(theirs), PAIRS * 2)
    return [judged("pass_round_trip", a, "ms", b, ratio=ratio, ratio_at_most=1.25)]


_CLOCK = "import time as _t\n_0 = _t.perf_counter()\n{code}\n_taken = _t.perf_counter() - _0"
_PURE = "_x = 0\nfor _i in range(400000):\n    _x += _i * _i % 7"
_NUMPY = (
    "import numpy as _np\n_a = _np.random.default_rng(0).random((500, 500))\n"
    "for _ in range(6):\n    _a = _np.tanh(_a @ _a.T / 500)"
)
_OPEN = "for _ in range(3000):\n    _f = _os.open(_path, 0)\n    _os.read(_f, 4096)\n    _os.close(_f)"
_STAT = "for _ in range(6000):\n    _os.stat(_path)"
_IMPORT = (
    "import subprocess as _s, sys as _y\n"
    "_s.run([_y.executable, '-c', 'import numpy, pandas'], check=True, stdin=_s.DEVNULL)"
)


def bench_computing(folder: Path) -> list[Result]:
    """What a cell does that never asks the sandbox: loops, numpy, imports, files."""
    results = []
    data = folder / "data.bin"
    data.write_bytes(os.urandom(4096))
    system = (
        "/usr/share/common-licenses/BSD"
        if os.path.exists("/usr/share/common-licenses/BSD")
        else "/usr/bin/env"
    )
    with LiveKernel("sentinel", folder, "datascience") as ours, LiveKernel("python3", folder) as theirs:

        def measure(identifier: str, code: str, setup: str, goal: float | None) -> Result:
            source = f"{setup}\n{_CLOCK.format(code=code)}"
            ours.value(source, "_taken"), theirs.value(source, "_taken")
            a, b, ratio = paired(
                lambda: ours.value(source, "_taken") * 1000,
                lambda: theirs.value(source, "_taken") * 1000,
                PAIRS * 2,
            )
            return judged(identifier, a, "ms", b, ratio=ratio, ratio_at_most=goal)

        results.append(measure("python_loop", _PURE, "", 1.02))
        results.append(measure("numpy_loop", _NUMPY, "", 1.02))
        results.append(measure("import_numpy_pandas", _IMPORT, "", 1.1))
        for place, path, goal in (("read_only", system, 1.15), ("overlay", str(data), 1.7)):
            setup = f"import os as _os\n_path = {path!r}"
            results.append(measure(f"open_read_close_{place}", _OPEN, setup, goal))
            results.append(measure(f"stat_{place}", _STAT, setup, goal))
    return results


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
    "computing": bench_computing,
}


def main() -> int:
    """Measure, print, write; exit 1 when a goal is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("groups", nargs="*", choices=[*GROUPS, []], help="only these groups")
    parser.add_argument("--output", default="bench.json", type=Path)
    arguments = parser.parse_args()
    results: list[Result] = []
    print(f"{'figure':28} {'value':>10} {'baseline':>10} {'ratio':>7}  goal")
    for name, group in GROUPS.items():
        if arguments.groups and name not in arguments.groups:
            continue
        folder = Path(tempfile.mkdtemp(prefix="sentinel-bench-"))
        try:
            for result in group(folder):
                results.append(result)
                baseline = "" if result.baseline is None else f"{result.baseline:.3g}"
                ratio = "" if result.ratio is None else f"{result.ratio:.3f}"
                verdict = {True: "holds", False: "MISSED", None: ""}[result.holds]
                print(
                    f"{result.id:28} {result.value:>7.3g} {result.unit:2} {baseline:>10} {ratio:>7}  "
                    f"{result.goal} {verdict}",
                    flush=True,
                )
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    arguments.output.write_text(json.dumps([asdict(result) for result in results], indent=1) + "\n")
    return 1 if any(result.holds is False for result in results) else 0


if __name__ == "__main__":
    sys.exit(main())
