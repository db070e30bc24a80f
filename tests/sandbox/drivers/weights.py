"""Has one kernel compute and rest, and prints what its sessions weigh meanwhile, as JSON.

Weights are the nice values of autogroups (sched(7)), which everybody may read.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import run_cells
from kernel_roles import children, roles

if TYPE_CHECKING:
    from collections.abc import Callable

NICE = int(sys.argv[1]) if len(sys.argv) > 1 else 0

BIRTHS = 10
"""Ten weights a second are set on the whole machine for who has no privileges: others may have had them."""


def weight(pid: int) -> int:
    """Return the nice value of a process's session."""
    return int(Path(f"/proc/{pid}/autogroup").read_text().split()[-1])


def wait(condition: Callable[[], object]) -> bool:
    """Wait until it holds; False where it does not come to that."""
    until = time.monotonic() + run_cells.SECONDS
    while time.monotonic() < until:
        try:
            if condition():
                return True
        except (OSError, LookupError, ValueError):
            pass  # a process that comes or goes
        time.sleep(0.01)
    return False


def below(pid: int) -> list[int]:
    """Return all processes below one."""
    return [one for child in children(pid) for one in (child, *below(child))]


def number_inside(pid: int) -> int:
    """Return a process's number in the innermost of its process namespaces."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("NSpid:")).split()[-1])


DECOYS = """
import time, threading
def decoy():
    while True:
        sleeper = subprocess.Popen(["/bin/sleep", "1.5"], start_new_session=True)
        threading.Timer(1.6, sleeper.wait).start()
        time.sleep(0.1)
threading.Thread(target=decoy, daemon=True).start()
"""


class Driven(run_cells.Kernel):
    """The kernel, and what its processes weigh."""

    def meet(self) -> None:
        """Find the supervisor and the worker."""
        number = int(self.run("import os; print(os.getpid())")["text"])
        self.supervisor = roles(self.host)["supervisor"]
        self.worker = next(pid for pid in below(self.supervisor) if number_inside(pid) == number)
        status = Path(f"/proc/{self.worker}/status").read_text().splitlines()
        self.init = int(next(line for line in status if line.startswith("PPid:")).split()[1])

    def trusted(self) -> list[int]:
        """Return what the host and the supervisor weigh."""
        return [weight(self.host), weight(self.supervisor)]

    def compute(self) -> list[int]:
        """Have a cell compute until the worker, at rest before, gives way; return what the others weigh then."""
        found = [-1, -1]
        if not wait(lambda: weight(self.worker) == 0):
            return found
        cell = self.client.execute("while True: pass")
        if wait(lambda: weight(self.worker) == NICE):
            found = self.trusted()
        self.manager.interrupt_kernel()
        while self.client.get_shell_msg(timeout=run_cells.SECONDS)["parent_header"].get("msg_id") != cell:
            pass
        return found

    def others(self) -> list[int]:
        """Return what the sessions weigh that cells have started."""
        return [weight(pid) for pid in below(self.worker) if os.getsid(pid) != self.worker]


def born_with() -> int:
    """Return what the first one weighs of those that are born."""
    for _ in range(BIRTHS):
        with Driven() as kernel:
            kernel.meet()
            if born := weight(kernel.init):
                return born
    return 0


def main() -> None:
    """Print what came of it."""
    told: dict[str, Any] = {"born with": born_with()}
    with Driven() as kernel:
        kernel.meet()
        told["fresh"] = kernel.trusted()
        told["the others while it gives way"] = kernel.compute()
        told["at rest"] = wait(lambda: weight(kernel.worker) == 0)
        kernel.run(
            "import subprocess, sys\n"
            "child = subprocess.Popen([sys.executable, '-S', '-c', 'while True: pass'], start_new_session=True)"
        )
        told["a session of its own"] = wait(lambda: kernel.others() == [NICE])
        told["ended"] = kernel.run("child.kill(); print(child.wait())")["text"]
        kernel.run(DECOYS)
        told["the others beside decoys"] = kernel.compute()
    print(json.dumps(told))


if __name__ == "__main__":
    main()
