"""Many kernels: fifty that idle, and ten that are started at the same moment."""

from __future__ import annotations

import os
import statistics
import subprocess
import time
from typing import TYPE_CHECKING

import zmq
from figures import Result, in_turn, judged, median_ratio
from jupyter_client.manager import KernelManager
from kernels import LiveKernel, close_all
from latency import NO_XEUS, OURS, PLAIN, XEUS, contenders
from processes import Tree

if TYPE_CHECKING:
    from pathlib import Path

_IDLE = 50
_AT_ONCE = 10
_ROUNDS = 3
_ANSWER_SECONDS = 120


class _Starting:
    """Kernels that are started at once, each asked for kernel_info from the first moment on."""

    def __init__(self, name: str, folder: Path, count: int) -> None:
        self._context = zmq.Context()
        self._context.setsockopt(zmq.RECONNECT_IVL, 2)
        self._poller = zmq.Poller()
        self.managers = [KernelManager(kernel_name=name, context=self._context) for _ in range(count)]
        for manager in self.managers:
            manager.start_kernel(
                cwd=str(folder), env=dict(os.environ), stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL
            )
            shell = manager.connect_shell()
            manager.session.send(shell, "kernel_info_request")
            self._poller.register(shell, zmq.POLLIN)

    def wait(self) -> None:
        """Wait until the last has answered."""
        waiting = len(self.managers)
        while waiting:
            ready = self._poller.poll(_ANSWER_SECONDS * 1000)
            if not ready:
                raise AssertionError(f"{waiting} kernels did not answer")
            for socket, _ in ready:
                self._poller.unregister(socket)
                waiting -= 1

    def cpu_seconds(self) -> float:
        """Return the processor time that all of them have used."""
        return sum(Tree(int(manager.provisioner.pid)).cpu_seconds() for manager in self.managers)

    def close(self) -> None:
        """End them all."""
        for manager in self.managers:
            manager.shutdown_kernel(now=True)
            manager.cleanup_resources()
        self._context.destroy(linger=0)


def bench_many(folder: Path) -> list[Result]:
    """Ten at once until the last is ready; fifty idle ones: memory for each, and whether all answer."""
    cpu: dict[str, list[float]] = {name: [] for name in contenders()}

    def at_once(name: str) -> float:
        started = time.perf_counter()
        starting = _Starting(name, folder, _AT_ONCE)
        try:
            starting.wait()
            taken = time.perf_counter() - started
            cpu[name].append(starting.cpu_seconds())
        finally:
            starting.close()
        return taken

    found = in_turn({name: lambda name=name: at_once(name) for name in contenders()}, _ROUNDS)
    rows = []
    for identifier, values, goal in (("ten_at_once", found, 1.4), ("ten_at_once_processor_time", cpu, None)):
        medians = {name: statistics.median(taken) for name, taken in values.items()}
        rows.append(
            judged(
                identifier, medians[OURS], "s", medians[PLAIN], ratio=median_ratio(values[OURS], values[PLAIN]),
                ratio_at_most=goal, xeus=medians.get(XEUS), note="" if XEUS in medians else NO_XEUS,
            )
        )  # fmt: skip
    memory: dict[str, float] = {}
    spares = 0.0
    answer: dict[str, int] = {}
    for name in contenders():
        kernels: list[LiveKernel] = []
        try:
            for _ in range(_IDLE):
                kernels.append(LiveKernel(name, folder))
                kernels[-1].round_trip("pass")
            trees = [kernel.tree for kernel in kernels]
            if name == OURS:
                apart = [kernel.tree.split_by_namespace(kernel.namespace()) for kernel in kernels]
                spares = sum(spare.pss_bytes() for _, spare in apart) / _IDLE / 2**20
                trees = [first for first, _ in apart]
            memory[name] = sum(tree.pss_bytes() for tree in trees) / _IDLE / 2**20
            answer[name] = sum(kernel.round_trip("pass") > 0 for kernel in kernels)
        finally:
            close_all(kernels)
    rows.append(judged("fifty_idle_spare_each", spares, "MB", None))
    rows.append(judged("fifty_idle_pss_each", memory[OURS], "MB", memory[PLAIN], xeus=memory.get(XEUS)))
    rows.append(judged("fifty_idle_silent", _IDLE - answer[OURS], "", _IDLE - answer[PLAIN], value_at_most=0))
    return rows
