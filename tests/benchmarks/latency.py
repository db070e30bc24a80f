"""What a person waits for: the start, a cell, an interrupt, a restart; and the processor time behind it."""

from __future__ import annotations

import asyncio
import statistics
import subprocess
import time
from typing import TYPE_CHECKING

import zmq
from figures import PAIRS, Result, in_turn, judged, median_ratio, percentile
from jupyter_client.manager import AsyncKernelManager
from kernels import REPLY_SECONDS, LiveKernel, close_all, is_installed

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from processes import Tree

OURS, PLAIN, XEUS = "sentinel", "python3", "xpython"
_CELLS = 20
_BLOCKS = 60
_INTERRUPTS = 15
_RESTARTS = 9
_FRESH = 4
_REST_SECONDS = 2.5
"""How long no cell runs until the spare is warm for certain: a person's pause, not a program's."""
_SPARE_SECONDS = 20
NO_XEUS = "xeus-python is not installed (pip install '.[bench]')"


def contenders() -> tuple[str, ...]:
    """Return the kernelspecs to measure side by side."""
    return (OURS, PLAIN, XEUS) if is_installed(XEUS) else (OURS, PLAIN)


def compared(
    identifier: str, unit: str, found: dict[str, list[float]], goal: float | None, note: str = "", *,
    scale: float = 1000,
) -> Result:  # fmt: skip
    """Return a row of medians: ours against plain ipykernel, xeus-python beside them."""
    ours, plain, xeus = found[OURS], found[PLAIN], found.get(XEUS)
    return judged(
        identifier,
        statistics.median(ours) * scale,
        unit,
        statistics.median(plain) * scale,
        ratio=median_ratio(ours, plain),
        ratio_at_most=goal,
        xeus=statistics.median(xeus) * scale if xeus else None,
        note=note or ("" if xeus or is_installed(XEUS) else NO_XEUS),
    )


def bench_start(folder: Path) -> list[Result]:
    """Start to kernel_info reply, to the first cell's reply, and the processor time until then."""
    info: dict[str, list[float]] = {name: [] for name in contenders()}
    cpu: dict[str, list[float]] = {name: [] for name in contenders()}

    def start(name: str) -> float:
        with LiveKernel(name, folder) as kernel:
            first = kernel.first_execute()
            info[name].append(kernel.start_seconds)
            cpu[name].append(kernel.tree.cpu_seconds())
            return first

    in_turn({name: lambda name=name: start(name) for name in contenders()}, 1)
    for values in (*info.values(), *cpu.values()):
        values.clear()
    execute = in_turn({name: lambda name=name: start(name) for name in contenders()}, PAIRS)
    return [
        compared("start_to_kernel_info", "ms", info, 1.0),
        compared("start_to_first_execute", "ms", execute, 1.0),
        compared("start_processor_time", "ms", cpu, None),
    ]


def bench_round_trip(folder: Path) -> list[Result]:
    """A cell `pass`, execute to reply: the median and the slow end, and the processor time of a cell."""
    kernels = {name: LiveKernel(name, folder) for name in contenders()}
    found: dict[str, list[float]] = {name: [] for name in kernels}
    cpu: dict[str, list[float]] = {name: [] for name in kernels}

    def block(name: str) -> float:
        kernel = kernels[name]
        tree = kernel.tree
        before = tree.cpu_seconds()
        taken = [kernel.round_trip("pass") for _ in range(_CELLS)]
        cpu[name].append((tree.cpu_seconds() - before) / _CELLS)
        found[name].extend(taken)
        return statistics.median(taken)

    try:
        for kernel in kernels.values():
            for _ in range(50):
                kernel.round_trip("pass")
        medians = in_turn({name: lambda name=name: block(name) for name in kernels}, _BLOCKS)
    finally:
        close_all(kernels.values())
    slow = {name: [percentile(values, 0.99)] for name, values in found.items()}
    return [
        compared("pass_reply_p50", "ms", medians, 1.0),
        compared("pass_reply_p99", "ms", slow, 1.2),
        compared("pass_processor_time", "ms", cpu, None),
    ]


def bench_interrupt(folder: Path) -> list[Result]:
    """An interrupt, as a server asks for it, until the cell's reply."""
    cells = {
        "interrupt_sleep": "import time\ntime.sleep(60)",
        "interrupt_loop": "while True:\n    pass",
    }
    kernels = {name: LiveKernel(name, folder) for name in (OURS, PLAIN)}
    try:
        rows = []
        for identifier, code in cells.items():
            runs = {name: lambda name=name, code=code: kernels[name].interrupted(code) for name in kernels}
            in_turn(runs, 1)
            note = "xeus-python's kernelspec interrupts by a signal that ends it"
            rows.append(compared(identifier, "ms", in_turn(runs, _INTERRUPTS), 1.2, note))
        return rows
    finally:
        close_all(kernels.values())


def _restart_seconds(name: str, folder: Path, rounds: int, *, rest: bool = False) -> Callable[[], float]:
    """Return what restarts its own kernel as a server does and gives the seconds until kernel_info is answered.

    With ``rest`` a cell runs before each restart, and then none for long enough that a spare is there.
    """

    async def run() -> list[float]:
        manager = AsyncKernelManager(kernel_name=name)
        manager.context.setsockopt(zmq.RECONNECT_IVL, 2)
        await manager.start_kernel(cwd=str(folder), stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        try:
            _answers(manager)
            taken = []
            for _ in range(rounds):
                if rest:
                    _run_a_cell(manager)
                    await asyncio.sleep(_REST_SECONDS)
                started = time.perf_counter()
                await manager.restart_kernel()
                _answers(manager)
                taken.append(time.perf_counter() - started)
            return taken
        finally:
            await manager.shutdown_kernel(now=True)
            manager.context.destroy(linger=0)

    return lambda: statistics.median(asyncio.run(run()))


def _run_a_cell(manager: AsyncKernelManager) -> None:
    socket = manager.connect_shell()
    try:
        content = {"code": "pass", "silent": False}
        manager.session.send(socket, "execute_request", content)
        if not zmq.Socket.shadow(socket.underlying).poll(REPLY_SECONDS * 1000):
            raise AssertionError(f"{manager.kernel_name} does not run a cell")
    finally:
        socket.close(linger=0)


def _answers(manager: AsyncKernelManager) -> None:
    socket = manager.connect_shell()
    try:
        manager.session.send(socket, "kernel_info_request")
        # Blocking: nothing else is done in this loop meanwhile.
        if not zmq.Socket.shadow(socket.underlying).poll(REPLY_SECONDS * 1000):
            raise AssertionError(f"{manager.kernel_name} does not answer after a restart")
    finally:
        socket.close(linger=0)


def _reset_seconds(kernel: LiveKernel) -> float:
    started = time.perf_counter()
    kernel.round_trip("%sentinel_reset")
    kernel.round_trip("import os, signal")
    return time.perf_counter() - started


def _recovery_seconds(kernel: LiveKernel) -> float:
    kernel.round_trip("import os, signal")
    started = time.perf_counter()
    kernel.reply(kernel.client.execute("os.kill(os.getpid(), signal.SIGKILL)", store_history=False))
    kernel.round_trip("pass")
    return time.perf_counter() - started


def bench_recovery(folder: Path) -> list[Result]:
    """A restart by the server; a fresh sandbox by magic and a worker that died, against a plain restart."""
    runs = {name: _restart_seconds(name, folder, 2, rest=name == OURS) for name in contenders()}
    restart = in_turn(runs, _RESTARTS)
    bare = {name: _restart_seconds(name, folder, 2) for name in (OURS, PLAIN)}
    rows = [
        compared("restart", "ms", restart, 0.6),
        compared("restart_without_spare", "ms", in_turn(bare, _RESTARTS), None),
    ]
    found: dict[str, list[float]] = {"reset": [], "recovery": []}
    without = []
    for _ in range(_FRESH):
        with LiveKernel(OURS, folder) as kernel:
            kernel.round_trip("import os, signal")
            without.append(_reset_seconds(kernel))
            for _ in range(2):
                time.sleep(_REST_SECONDS)
                found["reset"].append(_reset_seconds(kernel))
            # Two deaths each: a kernel whose worker dies again and again gives up, as it must.
            found["recovery"].extend(_recovery_seconds(kernel) for _ in range(2))
    for identifier, values in found.items():
        rows.append(
            judged(
                identifier, statistics.median(values) * 1000, "ms", statistics.median(restart[PLAIN]) * 1000,
                ratio_at_most=0.25, note="xeus-python has no such thing",
            )
        )  # fmt: skip
    rows.append(judged("reset_without_spare", statistics.median(without) * 1000, "ms", None))
    return rows


def _with_spare(kernel: LiveKernel) -> tuple[Tree, Tree]:
    """Return a kernel's processes, and those of its spare sandbox once that is warm: made when nothing else runs."""
    namespace = kernel.namespace()
    deadline = time.monotonic() + _SPARE_SECONDS
    before = -1
    while True:
        first, spare = kernel.tree.split_by_namespace(namespace)
        size = spare.pss_bytes()
        if time.monotonic() > deadline or (size and abs(size - before) < size / 50):
            return first, spare
        before = size
        time.sleep(1)


def bench_memory(folder: Path) -> list[Result]:
    """The memory of an idle kernel's processes after its first cell, the spare sandbox on a row of its own."""
    kernels = {name: LiveKernel(name, folder) for name in contenders()}
    try:
        for kernel in kernels.values():
            kernel.round_trip("pass")
        first, spare = _with_spare(kernels[OURS])
        mib = 1 << 20
        ours, plain = first.pss_bytes() / mib, kernels[PLAIN].tree.pss_bytes() / mib
        xeus = kernels[XEUS].tree.pss_bytes() / mib if XEUS in kernels else None
        cost = spare.pss_bytes() / mib
    except PermissionError as error:
        return [judged("pss_over_plain", 0.0, "MB", None, note=str(error))]
    finally:
        close_all(kernels.values())
    return [
        judged("pss", ours, "MB", plain, xeus=xeus),
        judged("pss_over_plain", ours - plain, "MB", None, value_at_most=30),
        judged("pss_of_the_spare", cost, "MB", None, note="" if spare.pids else "no spare was there"),
    ]
