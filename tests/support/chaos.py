"""A chaos run: kernels work while processes are killed and paused and disks fill; what must hold is looked at.

A bystander is never touched: it loses nothing, is not slowed down beyond what the machine's load explains, and its
host and supervisor stay as large as they were. Every other cell is answered. In the end nothing is left.

The machine's clock is never moved: it is everybody's. Deadlines are by the monotonic clock, which jumps for a process
that is stopped for a while; what is decided by the wall clock (how long the store keeps) has unit tests.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import sys
import threading
import time
from pathlib import Path

import leaks
from chaos_kernels import BYSTANDER, HONEST, HOSTILE, Driven, roles
from fuzz_million import slope_of

KILLED = ("worker", "init", "supervisor", "host", "files", "audit")
PAUSED = ("host", "supervisor")
_PAUSE_SECONDS = 3.0
_FULL_SECONDS = 4.0
_QUIET_SHARE = 0.2
_SAMPLE_SECONDS = 1.0
_MOST_GROWTH_MIB = 6.0
"""What a bystander's host or supervisor may grow by in the last two thirds of a run."""


class Chaos:
    """One run. ``disk`` is a small file system of the run's own that the store and the audit lie on, or None."""

    def __init__(self, kernels: int, seconds: float, folder: Path, disk: Path | None, seed: int) -> None:
        self.wrong: list[str] = []
        self.done: dict[str, int] = {}
        self.seconds = seconds
        self.disk = disk
        self.chance = random.Random(seed)
        kinds = [BYSTANDER, HOSTILE, *(HONEST, HOSTILE) * kernels][:kernels]
        self.kernels = [
            Driven(number, kind, folder / str(number), self.wrong) for number, kind in enumerate(kinds)
        ]
        self.bystanders = [kernel for kernel in self.kernels if kernel.kind == BYSTANDER]
        self.sizes: dict[tuple[int, str], list[tuple[int, float]]] = {}

    def run(self) -> None:
        """Run quietly, with the bystanders alone, then with all."""
        for kernel in self.bystanders:
            kernel.thread.start()
        self._pass(self.seconds * _QUIET_SHARE, disturb=False)
        self.noisy_at = time.monotonic()
        for kernel in self.kernels:
            if kernel not in self.bystanders:
                kernel.thread.start()
        self._pass(self.seconds * (1 - _QUIET_SHARE), disturb=True)
        for kernel in self.kernels:
            kernel.ended.set()
        for kernel in self.kernels:
            kernel.thread.join(200)
            if kernel.thread.is_alive():
                self.wrong.append(f"kernel {kernel.number} ({kernel.kind}) hangs")
        for kernel in self.kernels:
            kernel.close()

    def _pass(self, seconds: float, *, disturb: bool) -> None:
        until = time.monotonic() + seconds
        next_act = time.monotonic() + 1.0
        while time.monotonic() < until and all(kernel.thread.is_alive() for kernel in self.bystanders):
            self._sample()
            if disturb and time.monotonic() >= next_act:
                self._act()
                next_act = time.monotonic() + self.chance.uniform(0.5, 3.0)
            threading.Event().wait(_SAMPLE_SECONDS)

    def _sample(self) -> None:
        for kernel in self.bystanders:
            found = roles(kernel.host)
            for role in ("host", "supervisor"):
                with contextlib.suppress(OSError, KeyError):
                    pages = int(Path(f"/proc/{found[role]}/statm").read_text().split()[1])
                    size = pages * os.sysconf("SC_PAGE_SIZE") / (1 << 20)
                    self.sizes.setdefault((kernel.number, role), []).append((int(time.monotonic()), size))

    def _act(self) -> None:
        """Do one bad thing to one kernel that is no bystander, or to the disk."""
        acts = [*(f"kill {role}" for role in KILLED), *(f"pause {role}" for role in PAUSED)]
        if self.disk is not None:
            acts.append("fill disk")
        act = self.chance.choice(acts)
        if act == "fill disk" and self.disk is not None:
            self._fill(self.disk)
            return
        what, role = act.split()
        others = [kernel for kernel in self.kernels if kernel not in self.bystanders]
        kernel = self.chance.choice(others)
        pid = roles(kernel.host).get(role)
        if pid is None:
            return
        kernel.disturbed.set()
        kernel.acts.append((time.monotonic(), act))
        with contextlib.suppress(ProcessLookupError):
            if what == "kill":
                os.kill(pid, signal.SIGKILL)
            else:
                os.kill(pid, signal.SIGSTOP)
                threading.Event().wait(_PAUSE_SECONDS)
                os.kill(pid, signal.SIGCONT)
        kernel.disturbed.set()
        self.done[act] = self.done.get(act, 0) + 1

    def _fill(self, disk: Path) -> None:
        full = disk / "full"
        with contextlib.suppress(OSError), full.open("wb") as file:
            while True:
                file.write(bytes(1 << 20))
        threading.Event().wait(_FULL_SECONDS)
        full.unlink()
        self.done["fill disk"] = self.done.get("fill disk", 0) + 1

    def report(self) -> list[str]:
        """Return what is to be printed; what was wrong is in ``wrong`` by then."""
        lines = [f"{len(self.kernels)} kernels, {self.seconds / 60:.1f} min; done: {self.done}"]
        lines += [
            f"kernel {kernel.number} {kernel.kind:10} {kernel.cells:6} cells, {kernel.deaths} deaths told, "
            f"{kernel.restarts} restarts"
            for kernel in self.kernels
        ]
        for kernel in self.bystanders:
            quiet = [took for at, took in kernel.took if at < self.noisy_at]
            loud = [took for at, took in kernel.took if at >= self.noisy_at]
            if quiet and loud:
                lines.append(
                    f"bystander {kernel.number}: p50 {_share(quiet, 0.5):.1f} -> {_share(loud, 0.5):.1f} ms, "
                    f"p99 {_share(quiet, 0.99):.1f} -> {_share(loud, 0.99):.1f} ms "
                    f"({_share(loud, 0.99) / _share(quiet, 0.99):.2f}x of quiet)"
                )
        for (number, role), sizes in self.sizes.items():
            late = sizes[len(sizes) // 3 :]
            if len(late) < 2:
                continue
            grown = late[-1][1] - late[0][1]
            lines.append(
                f"bystander {number}: {role} {late[-1][1]:.1f} MiB, {grown:+.2f} MiB in the last two thirds, "
                f"slope {slope_of([(at, size) for at, size in late]) * 3600:+.2f} MiB an hour"
            )
            if grown > _MOST_GROWTH_MIB:
                self.wrong.append(f"bystander {number}: {role} grew by {grown:.1f} MiB")
        return lines


def _share(took: list[float], share: float) -> float:
    """Return a percentile, in milliseconds."""
    return sorted(took)[min(len(took) - 1, int(len(took) * share))] * 1000


def main(kernels: int, seconds: float, folder: Path, disk: Path | None, seed: int) -> int:
    """Run, print, and return the exit status: 0 where everything held."""
    leaks.adopt_orphans()
    before = leaks.traces()
    chaos = Chaos(kernels, seconds, folder, disk, seed)
    chaos.run()
    lines = chaos.report()
    try:
        leaks.wait_clean(before, 60)
        lines.append("nothing is left: processes, mounts, descriptors, control groups, folders")
    except AssertionError as left:
        chaos.wrong.append(str(left))
    print("\n".join(lines), flush=True)
    for wrong in chaos.wrong:
        print(f"WRONG: {wrong}", file=sys.stderr, flush=True)
    print(f"{len(chaos.wrong)} wrong", flush=True)
    return 1 if chaos.wrong else 0
