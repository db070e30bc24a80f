"""A chaos run: kernels work while processes are killed and paused and disks fill; what must hold is looked at.

A bystander is never touched: it loses nothing, is not slowed down beyond what the machine's load explains, and its
host and supervisor stay as large as they were. Every other cell is answered. In the end nothing is left.

How long honest cells take is measured twice, of the same kernels at the same pace: quietly, and with hostile kernels
beside them that run as fast as they can. What something was done to is not timed.

The machine's clock is never moved: it is everybody's. Deadlines are by the monotonic clock, which jumps for a process
that is stopped for a while; what is decided by the wall clock (how long the store keeps) has unit tests.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import threading
import time
from itertools import pairwise
from multiprocessing import Pipe
from pathlib import Path
from typing import TYPE_CHECKING

import leaks
from chaos_kernels import ANSWER_SECONDS, BYSTANDER, HONEST, HOSTILE, PLAIN
from fuzz_million import slope_of
from kernel_roles import roles

if TYPE_CHECKING:
    from typing import Any

KILLED = ("worker", "init", "supervisor", "host", "files", "audit")
PAUSED = ("host", "supervisor")
_PAUSE_SECONDS = 3.0
_FULL_SECONDS = 4.0
_QUIET_SHARE = 0.2
_SAMPLE_SECONDS = 1.0
_CONTROLLED = 4
"""With so many kernels there is a plain one beside them."""
_END_SECONDS = ANSWER_SECONDS + 80
_MOST_GROWTH_MIB = 6.0
"""What a bystander's host or supervisor may grow by in the last two thirds of a run."""

_DRIVER = Path(__file__).with_name("chaos_kernels.py")


class Kernel:
    """One kernel of the run, by way of its driver (chaos_kernels.py). ``wrong`` gets what must not be."""

    def __init__(self, number: int, kind: str, folder: Path, wrong: list[str]) -> None:
        self.number, self.kind, self.wrong = number, kind, wrong
        self.host = -1
        self.is_up = False
        self.result: dict[str, Any] = {"cells": 0, "deaths": 0, "restarts": 0, "took": []}
        self.has_ended = False
        ours, theirs = Pipe()
        self._connection = ours
        with theirs:
            command = [sys.executable, str(_DRIVER), str(theirs.fileno())]
            self._process = subprocess.Popen(command, pass_fds=[theirs.fileno()])
        ours.send((kind, str(folder)))

    def hear(self, seconds: float = 0.0) -> None:
        """Take what the driver says, and wait so long for the first of it."""
        try:
            while not self.has_ended and self._connection.poll(seconds):
                match self._connection.recv():
                    case ("host", host):
                        self.host = host
                    case ("up",):
                        self.is_up = True
                    case ("wrong", what):
                        self.wrong.append(f"kernel {self.number} ({self.kind}): {what}")
                    case ("done", result):
                        self.result = result
                        self.has_ended = True
                seconds = 0.0
        except (EOFError, OSError):
            self.has_ended = True
            self.wrong.append(f"kernel {self.number} ({self.kind}): its driver ended")

    def say(self, *word: object) -> None:
        """Say something to the driver."""
        with contextlib.suppress(OSError):
            self._connection.send(word)

    def close(self) -> None:
        """Wait for the driver's end."""
        until = time.monotonic() + _END_SECONDS
        while not self.has_ended and time.monotonic() < until:
            self.hear(1.0)
        if not self.has_ended:
            self.wrong.append(f"kernel {self.number} ({self.kind}) hangs")
            self._process.kill()
        self._process.wait()
        self._connection.close()


class Chaos:
    """One run. ``disk`` is a small file system of the run's own that the store and the audit lie on, or None.

    Only those acts are done that have ``acts`` in their names.
    """

    def __init__(
        self, kernels: int, seconds: float, folder: Path, disk: Path | None, seed: int, acts: str
    ) -> None:
        self.wrong: list[str] = []
        self.done: dict[str, int] = {}
        self.seconds = seconds
        self.disk = disk
        every = [*(f"kill {role}" for role in KILLED), *(f"pause {role}" for role in PAUSED)]
        self.acts = [act for act in [*every, *(["fill disk"] if disk else [])] if acts in act]
        self.chance = random.Random(seed)
        kinds = [BYSTANDER, HOSTILE, *(HONEST, HOSTILE) * kernels][:kernels]
        kinds += [PLAIN] if kernels >= _CONTROLLED else []
        self.kernels = [
            Kernel(number, kind, folder / str(number), self.wrong) for number, kind in enumerate(kinds)
        ]
        self.bystanders = [kernel for kernel in self.kernels if kernel.kind == BYSTANDER]
        self.sizes: dict[tuple[int, str], list[tuple[int, float]]] = {}
        self.times: list[dict[str, tuple[float, float]]] = []
        """What the first bystander's processes had run and waited for a processor by then: at three times."""

    def run(self) -> None:
        """Run quietly, with the honest kernels alone, then with all."""
        until = time.monotonic() + ANSWER_SECONDS
        while not all(kernel.is_up or kernel.has_ended for kernel in self.kernels):
            if time.monotonic() > until:
                self.wrong.append("some kernel does not start")
                break
            for kernel in self.kernels:
                kernel.hear(0.05)
        self._start(BYSTANDER, HONEST, PLAIN)
        self._pass(self.seconds * _QUIET_SHARE, disturb=False)
        self.noisy_at = time.monotonic()
        self._start(HOSTILE)
        self._pass(self.seconds * (1 - _QUIET_SHARE), disturb=True)
        self.times.append(_times(self.bystanders[0].host))
        for kernel in self.kernels:
            kernel.say("end")
        for kernel in self.kernels:
            kernel.close()

    def _start(self, *kinds: str) -> None:
        self.times.append(_times(self.bystanders[0].host))
        for kernel in self.kernels:
            if kernel.kind in kinds:
                kernel.say("go")

    def _pass(self, seconds: float, *, disturb: bool) -> None:
        until = time.monotonic() + seconds
        next_act = time.monotonic() + 1.0
        while time.monotonic() < until and not any(kernel.has_ended for kernel in self.bystanders):
            self._sample()
            if disturb and time.monotonic() >= next_act:
                self._act()
                next_act = time.monotonic() + self.chance.uniform(0.5, 3.0)
            threading.Event().wait(_SAMPLE_SECONDS)

    def _sample(self) -> None:
        for kernel in self.kernels:
            kernel.hear()
        for kernel in self.bystanders:
            found = roles(kernel.host)
            for role in ("host", "supervisor"):
                with contextlib.suppress(OSError, KeyError):
                    pages = int(Path(f"/proc/{found[role]}/statm").read_text().split()[1])
                    size = pages * os.sysconf("SC_PAGE_SIZE") / (1 << 20)
                    self.sizes.setdefault((kernel.number, role), []).append((int(time.monotonic()), size))

    def _act(self) -> None:
        """Do one bad thing to one kernel that is no bystander, or to the disk."""
        act = self.chance.choice(self.acts)
        if act == "fill disk" and self.disk is not None:
            self._fill(self.disk)
            return
        what, role = act.split()
        others = [kernel for kernel in self.kernels if kernel.kind in {HONEST, HOSTILE}]
        kernel = self.chance.choice(others)
        kernel.hear()
        pid = roles(kernel.host).get(role)
        if pid is None:
            return
        kernel.say("act", time.monotonic(), act)
        with contextlib.suppress(ProcessLookupError):
            if what == "kill":
                os.kill(pid, signal.SIGKILL)
            else:
                os.kill(pid, signal.SIGSTOP)
                threading.Event().wait(_PAUSE_SECONDS)
                os.kill(pid, signal.SIGCONT)
        kernel.say("act", time.monotonic(), f"{act} done")
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
            f"kernel {kernel.number} {kernel.kind:10} {kernel.result['cells']:6} cells, "
            f"{kernel.result['deaths']} deaths told, {kernel.result['restarts']} restarts"
            for kernel in self.kernels
        ]
        honest = [kernel for kernel in self.kernels if kernel.kind in {BYSTANDER, HONEST}]
        plain = [kernel for kernel in self.kernels if kernel.kind == PLAIN]
        lines += self._slowed("honest cells that no act touched", honest)
        lines += self._slowed("of the bystander", self.bystanders)
        lines += self._slowed("of plain ipykernel beside them, the control", plain)
        for kernel in honest:
            lines += self._slowed(f"of kernel {kernel.number}", [kernel])
        lines += self._where_the_time_went()
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

    def _slowed(self, whose: str, kernels: list[Kernel]) -> list[str]:
        """Return how long cells took, quiet and loud."""
        took = [pair for kernel in kernels for pair in kernel.result["took"]]
        quiet = [seconds for at, seconds in took if at < self.noisy_at]
        loud = [seconds for at, seconds in took if at >= self.noisy_at]
        if not quiet or not loud:
            return []
        shares = [
            (f"p{share * 100:g}", _share(quiet, share), _share(loud, share)) for share in (0.5, 0.9, 0.99)
        ]
        told = ", ".join(f"{name} {was:.1f} -> {now:.1f} ms ({now / was:.2f}x)" for name, was, now in shares)
        return [f"{whose} ({len(quiet)} quiet, {len(loud)} loud): {told}"]

    def _where_the_time_went(self) -> list[str]:
        """Return what each of the bystander's processes ran and waited for a processor, a cell."""
        ends = [at for at, _ in self.bystanders[0].result["took"]]
        counts = [sum(at < self.noisy_at for at in ends), sum(at >= self.noisy_at for at in ends)]
        lines = []
        for role in ("host", "supervisor", "worker"):
            words = []
            for name, (before, after), count in zip(
                ("quiet", "loud"), pairwise(self.times), counts, strict=True
            ):
                if role in before and role in after and count:
                    ran, waited = (after[role][i] - before[role][i] for i in (0, 1))
                    words.append(
                        f"{name} {ran / count:.1f} ms a cell, and {waited / count:.1f} ms waiting for it"
                    )
            lines += [f"processor of the bystander's {role}: {'; '.join(words)}"] if words else []
        return lines


def _times(host: int) -> dict[str, tuple[float, float]]:
    """Return role -> milliseconds that the process has run, and has waited for a processor (proc(5), schedstat)."""
    found: dict[str, tuple[float, float]] = {}
    for role, pid in roles(host).items():
        ran = waited = 0.0
        with contextlib.suppress(OSError):
            for task in os.listdir(f"/proc/{pid}/task"):
                numbers = Path(f"/proc/{pid}/task/{task}/schedstat").read_text().split()
                ran, waited = ran + int(numbers[0]) / 1e6, waited + int(numbers[1]) / 1e6
            found[role] = (ran, waited)
    return found


def _share(took: list[float], share: float) -> float:
    """Return a percentile, in milliseconds."""
    return sorted(took)[min(len(took) - 1, int(len(took) * share))] * 1000


def main(kernels: int, seconds: float, folder: Path, disk: Path | None, seed: int, acts: str) -> int:
    """Run, print, and return the exit status: 0 where everything held."""
    leaks.adopt_orphans()
    before = leaks.traces()
    chaos = Chaos(kernels, seconds, folder, disk, seed, acts)
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
