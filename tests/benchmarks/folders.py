"""The notebook's folder: files read and written in it beside plain ipykernel, and commits beside `cp -r`."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from figures import PAIRS, Result, judged, median_ratio, paired
from kernels import LiveKernel

if TYPE_CHECKING:
    from collections.abc import Callable

_CLOCK = "import time as _t, os as _os, shutil as _s\n_0 = _t.perf_counter()\n{code}\n_taken = _t.perf_counter() - _0"
_LARGE = (
    "for _i in range(8):\n    with open(f'large/{_i}', 'rb') as _f:\n        assert len(_f.read()) == 2 << 20"
)
_SMALL = (
    "for _i in range(1000):\n    with open(f'small/{_i}', 'rb') as _f:\n        assert len(_f.read()) == 4096"
)
_WRITE = (
    "_os.mkdir('{made}')\nfor _i in range(1000):\n"
    "    with open(f'{made}/{{_i}}', 'wb') as _f:\n        _f.write(b'x' * 4096)"
)
_ROUNDS = 3
_NOTES = {
    "new": ": at 0.8x of its speed at least",
    "changed": "; here each file is on the disk before it is exchanged",
}


def bench_folders(folder: Path) -> list[Result]:
    """Reading and writing in the notebook's folder, in turn; then commits of 1 GB in 1,000 files."""
    for name, count, size in (("large", 8, 2 << 20), ("small", 1000, 4096)):
        (folder / name).mkdir()
        for number in range(count):
            (folder / name / str(number)).write_bytes(os.urandom(size))
    results = []
    with LiveKernel("sentinel", folder, "datascience") as ours, LiveKernel("python3", folder) as theirs:

        def timed(kernel: LiveKernel, code: str, behind: str) -> float:
            return kernel.value(f"{_CLOCK.format(code=code)}\n{behind}", "_taken") * 1000

        def measure(identifier: str, make: Callable[[LiveKernel], float], goal: float) -> Result:
            make(ours), make(theirs)
            a, b, ratio = paired(lambda: make(ours), lambda: make(theirs), PAIRS * 2)
            return judged(identifier, a, "ms", b, ratio=ratio, ratio_at_most=goal)

        results.append(measure("read_2mib_files_workspace", lambda kernel: timed(kernel, _LARGE, ""), 1.05))
        results.append(measure("read_small_files_workspace", lambda kernel: timed(kernel, _SMALL, ""), 1.5))
        # Removed by the same cell: what a commit costs is measured by itself.
        write = {name: _WRITE.format(made=f"made-{name}") for name in ("sentinel", "python3")}
        results.append(
            measure(
                "write_1000_files_workspace",
                lambda kernel: timed(kernel, write[kernel.name], f"_s.rmtree('made-{kernel.name}')"),
                1.3,
            )
        )
    return results + _commits(folder)


def _commits(folder: Path) -> list[Result]:
    place = tempfile.mkdtemp(dir=folder)
    driver = Path(__file__).with_name("commit_driver.py")
    command = ["unshare", "-rm", sys.executable, str(driver), place, str(_ROUNDS)]
    told = subprocess.run(command, check=True, capture_output=True, text=True)
    found = json.loads(told.stdout)
    results = []
    for kind, identifier in (("new", "commit"), ("changed", "commit_over")):
        ours = [taken for what, taken, _ in found if what == kind]
        copied = [taken for what, _, taken in found if what == kind]
        results.append(
            judged(
                identifier,
                statistics.median(ours),
                "s",
                statistics.median(copied),
                ratio=median_ratio(ours, copied),
                ratio_at_most=1.25 if kind == "new" else None,
                note="1 GB in 1,000 files; the baseline is cp -r, which waits for no disk" + _NOTES[kind],
            )
        )
    return results
