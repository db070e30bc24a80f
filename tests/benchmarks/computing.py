"""What a cell does that never asks the sandbox: loops, numpy, imports, files."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from figures import PAIRS, Result, judged, paired
from kernels import LiveKernel

if TYPE_CHECKING:
    from pathlib import Path

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
