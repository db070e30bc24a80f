"""Much output and large buffers: how fast they pass, and whether the control channel answers meanwhile."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

from figures import Result, in_turn, judged
from kernels import LiveKernel, close_all
from latency import NO_XEUS, OURS, PLAIN, XEUS, compared, contenders

if TYPE_CHECKING:
    from pathlib import Path

_ROUNDS = 7
_DISPLAY_ROUNDS = 5
_BUFFER_BYTES = 50_000_000
_BUFFER_ROUNDS = 15
_CONTROL_ASKS = 200

_DISPLAY = "display({'text/plain': str(_i)}, raw=True)"
_FLOODS = {
    "printed_lines_100k": ("for _i in range(100000):\n    print(_i)", _ROUNDS, 1.0),
    "print_flush_2k": ("for _i in range(2000):\n    print(_i, flush=True)", _ROUNDS, None),
    "display_data_20k": (
        f"from IPython.display import display\nfor _i in range(20000):\n    {_DISPLAY}",
        _DISPLAY_ROUNDS,
        1.0,
    ),
}

# A comm made from either side, the way ipywidgets makes its own.
_COMM_OUT = (
    "import os\nfrom comm import create_comm\n"
    f"_comm = create_comm(target_name='bench')\n_big = os.urandom({_BUFFER_BYTES})"
)
_COMM_IN = (
    "from comm import get_comm_manager\n_got = []\n"
    "def _open(comm, msg):\n"
    "    @comm.on_msg\n    def _(msg):\n        _got.append(sum(len(b) for b in msg['buffers']))\n"
    "get_comm_manager().register_target('bench-in', _open)"
)


def bench_output(folder: Path) -> list[Result]:
    """Floods of prints and displays, until the last of them is here."""
    kernels = {name: LiveKernel(name, folder) for name in contenders()}
    try:
        rows = []
        for identifier, (code, rounds, goal) in _FLOODS.items():
            runs = {name: lambda name=name, code=code: kernels[name].flood(code) for name in kernels}
            in_turn(runs, 1)
            rows.append(compared(identifier, "ms", in_turn(runs, rounds), goal))
        return rows
    finally:
        close_all(kernels.values())


def bench_buffers(folder: Path) -> list[Result]:
    """A comm's message with a buffer of 50 MB, from the kernel and to it."""
    kernels = {name: LiveKernel(name, folder, "datascience") for name in contenders()}
    try:
        rows = []
        why = NO_XEUS if XEUS not in kernels else ""
        for kernel in kernels.values():
            kernel.run(_COMM_OUT)
            kernel.drain()
        runs = {name: kernels[name].bytes_out for name in kernels}
        in_turn(runs, 1)
        rows.append(compared("buffer_50mb_out", "ms", in_turn(runs, _BUFFER_ROUNDS), 1.2, why))
        data = os.urandom(_BUFFER_BYTES)
        for kernel in kernels.values():
            kernel.run(_COMM_IN)
            kernel.open_comm("bench-in", "bench-comm")
        runs = {name: lambda name=name: kernels[name].bytes_in("bench-comm", data) for name in kernels}
        in_turn(runs, 1)
        for name in list(runs):
            if kernels[name].value("", "sum(_got)") != _BUFFER_BYTES:
                why = f"{name} did not get the buffer"
                del runs[name]
        rows.append(compared("buffer_50mb_in", "ms", in_turn(runs, _BUFFER_ROUNDS), 1.2, why))
        return rows
    finally:
        close_all(kernels.values())


def bench_control(folder: Path) -> list[Result]:
    """The slowest answer on the control channel while displays flood, and with a client that reads none of them."""
    rows = []
    code = (
        "from IPython.display import display\nimport time\n_end = time.monotonic() + {seconds}\n"
        "while time.monotonic() < _end:\n    display({{'text/plain': 'x' * 4000}}, raw=True)"
    )
    for identifier, reading in (("control_in_flood", True), ("control_when_stalled", False)):
        worst: dict[str, float] = {}
        for name in (OURS, PLAIN):
            with LiveKernel(name, folder) as kernel:
                message_id = kernel.client.execute(code.format(seconds=6), store_history=False)
                taken = []
                ends = time.monotonic() + 5
                iopub = kernel.client.iopub_channel.socket
                while time.monotonic() < ends and len(taken) < _CONTROL_ASKS:
                    asked = kernel.send_empty("kernel_info_request", "control")
                    started = time.perf_counter()
                    # The client goes on reading outputs while it waits, as a server does.
                    while not kernel.client.control_channel.socket.poll(0 if reading else 1):
                        if reading and iopub.poll(1):
                            iopub.recv_multipart(copy=False)
                    kernel.reply(asked, "control")
                    taken.append(time.perf_counter() - started)
                worst[name] = max(taken) * 1000
                while reading and iopub.poll(1000):
                    iopub.recv_multipart(copy=False)
                kernel.client.iopub_channel.socket.close(linger=0)
                kernel.reply(message_id)
        rows.append(judged(identifier, worst[OURS], "ms", worst[PLAIN], value_at_most=100))
    return rows
