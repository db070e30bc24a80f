"""One kernel of a chaos run, driven by a process of its own: a bystander, an honest or a hostile one.

    python chaos_kernels.py DESCRIPTOR

What it is to do comes through the connection behind the descriptor, and what it sees goes there. A process for each
kernel: with threads of one, a cell would be as slow as the driver of the others.
"""

from __future__ import annotations

import contextlib
import os
import queue
import random
import sys
import time
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING, Any

from chaos_cells import HOSTILE_CELLS
from jupyter_client.manager import KernelManager
from kernel_roles import roles
from live_kernel import kernelspecs

if TYPE_CHECKING:
    from collections.abc import Callable

BYSTANDER, HONEST, HOSTILE, PLAIN = "bystander", "honest", "hostile", "plain"
"""A plain one is ipykernel without a sandbox, the control: what it loses, the machine's load explains."""

ANSWER_SECONDS = 120.0
"""Every cell is answered by then, whatever happens to its kernel."""

_PACE_SECONDS = (0.2, 0.3)
"""From one honest cell's end to the next: as a person who is quick, or an assistant. Hostile ones come at once."""
_FIRST_CELLS = 3
"""Those of a fresh sandbox, which load what the later ones find loaded, are not timed."""


class Driven:
    """One kernel, and what must come of each of its cells. What must not be is sent as ``wrong``."""

    def __init__(self, parent: Connection, kind: str, folder: Path) -> None:
        self.parent, self.kind, self.folder = parent, kind, folder
        self.ended = False
        self.disturbed = False
        """Something was done to this kernel since its last cell: its variables may be gone."""
        self.acts: list[tuple[float, str]] = []
        """When something was done to it, and what."""
        self.cells = self.deaths = self.restarts = self.total = self.fresh = 0
        self.took: list[tuple[float, float]] = []
        """When each cell that nothing was done to ended, and how long it took, in seconds."""
        self.work = folder / "work"
        self.work.mkdir(parents=True)
        name = "python3" if kind == PLAIN else "sentinel"
        self.manager = KernelManager(kernel_name=name, kernel_spec_manager=kernelspecs(folder))
        self.manager.connection_file = str(folder / "kernel.json")
        # No port that another one takes first.
        self.manager.transport, self.manager.ip = "ipc", str(folder / "k")
        self.log = (folder / "kernel.log").open("wb")
        profile = "strict" if kind == HOSTILE else "datascience"
        environment = {**os.environ, "SENTINEL_LANG": "en", "SENTINEL_PROFILE": profile}
        self.manager.start_kernel(cwd=str(self.work), env=environment, stderr=self.log, stdout=self.log)
        self._connect()

    def _connect(self) -> None:
        self.client = self.manager.client()
        self.client.start_channels()
        try:
            self.client.wait_for_ready(timeout=ANSWER_SECONDS)
        except RuntimeError as error:
            raise RuntimeError((self.folder / "kernel.log").read_text(errors="replace")[-2000:]) from error
        self.parent.send(("host", self.host))

    @property
    def host(self) -> int:
        """Return the process id of the host."""
        provisioner = self.manager.provisioner
        return int(provisioner.pid) if provisioner is not None else -1

    def listen(self, seconds: float = 0.0) -> None:
        """Take what the run says, for so long."""
        until = time.monotonic() + seconds
        while self.parent.poll(max(0.0, until - time.monotonic())):
            match self.parent.recv():
                case ("act", at, act):
                    self.disturbed = True
                    self.acts.append((at, act))
                case ("end",):
                    self.ended = True
                    return

    def drive(self) -> None:
        """Run cells until the run says that it ends."""
        step: Callable[[], None] = self._hostile if self.kind == HOSTILE else self._honest
        while not self.ended:
            try:
                step()
            except ConnectionError:
                self._restart()
            except Exception as fault:  # noqa: BLE001 - it is what the run is to show
                self.tell(repr(fault))
                return
            self.cells += 1
            self.listen(0.02 if self.kind == HOSTILE else random.uniform(*_PACE_SECONDS))

    def tell(self, what: str) -> None:
        """Take note of what is wrong, with what was done before and what the kernel said."""
        now = time.monotonic()
        acts = ", ".join(f"{act} {now - at:.1f} s before" for at, act in self.acts[-6:])
        said = (self.folder / "kernel.log").read_text(errors="replace")[-1500:]
        there = {role: f"{pid} {_state(pid)}" for role, pid in roles(self.host).items()}
        self.parent.send(("wrong", f"{what}; {acts or 'nothing was done'}; {there}; {said}"))

    def _restart(self) -> None:
        """Do as a server does where the host has died."""
        self.restarts += 1
        self.listen()
        if not self.disturbed and self.kind != HOSTILE:
            self.tell("its host ended by itself")
        self.client.stop_channels()
        self.manager.restart_kernel(now=True)
        self._connect()
        self.disturbed = True

    def _ask(self, code: str) -> tuple[dict[str, Any], str, float]:
        """Run a cell; return its reply's content, what it printed and how long it took, in seconds.

        Raises ConnectionError where the host is gone.
        """
        began = time.monotonic()
        msg_id = self.client.execute(code)
        reply = None
        printed = ""
        idle = False
        while reply is None or not idle:
            if time.monotonic() - began > ANSWER_SECONDS:
                raise TimeoutError(f"no answer to {code[:60]!r} (reply {reply is not None}, idle {idle})")
            if not self.manager.is_alive():
                raise ConnectionError
            with contextlib.suppress(queue.Empty):
                message = self.client.get_iopub_msg(timeout=0.05 if idle else 1)
                if message["parent_header"].get("msg_id") == msg_id:
                    content = message["content"]
                    idle |= content.get("execution_state") == "idle"
                    printed += content["text"] if message["msg_type"] == "stream" else ""
            if idle and reply is None:
                with contextlib.suppress(queue.Empty):
                    message = self.client.get_shell_msg(timeout=1)
                    reply = message["content"] if message["parent_header"].get("msg_id") == msg_id else None
        return reply, printed, time.monotonic() - began

    def _honest(self) -> None:
        """Count on in a variable and in a file: neither may lose a step that nobody's act explains.

        The file is a new one in each life: what others have made before is held, which takes half as long as to save.
        """
        disturbed, self.disturbed = self.disturbed, False
        code = (
            "import os\ntotal = globals().get('total', 0) + 1\n"
            "name = globals().get('name') or f'count-{os.urandom(6).hex()}.csv'\n"
            "with open(name, 'w') as file: file.write(str(total))\n"
            "print(total, sum(range(1000)))"
        )
        try:
            reply, printed, took = self._ask(code)
        except ConnectionError:
            self.disturbed |= disturbed
            raise
        self.listen()
        disturbed |= self.disturbed
        self.fresh = 0 if disturbed else self.fresh + 1
        if self.fresh > _FIRST_CELLS:
            self.took.append((time.monotonic(), took))
        if reply["status"] == "ok":
            now = int(printed.split()[0])
            if now != self.total + 1 and not (disturbed and now == 1):
                self.tell(f"{now} follows {self.total}")
            self.total = now
        else:
            self.deaths += 1
            if not disturbed:
                self.tell(f"{reply.get('ename')} {reply.get('evalue')}")
            self.disturbed = True

    def _hostile(self) -> None:
        reply, _, _ = self._ask(HOSTILE_CELLS[self.cells % len(HOSTILE_CELLS)])
        self.deaths += reply["status"] == "error" and reply.get("ename") == "SandboxDied"

    def close(self) -> None:
        """End the kernel, and look for its file where it must be."""
        self.client.stop_channels()
        self.client.context.destroy(linger=0)
        if self.manager.is_alive():
            self.manager.shutdown_kernel()
        self.manager.cleanup_resources()
        self.log.close()
        said = (self.folder / "kernel.log").read_text(errors="replace")
        if "fault of the host" in said or "Traceback" in said:
            self.parent.send(("wrong", f"said: {said[-3000:]}"))
        if self.kind == BYSTANDER and self.total:
            written = next(self.work.glob("count-*.csv")).read_text()
            if written != str(self.total):
                self.parent.send(("wrong", f"its file has {written}, not {self.total}"))
        self.parent.send(
            ("done", {name: getattr(self, name) for name in ("cells", "deaths", "restarts", "took")})
        )


def _state(pid: int) -> str:
    """Return what a process does: the letter of proc(5), and where in the Linux kernel it waits."""
    try:
        letter = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        return f"{letter} {Path(f'/proc/{pid}/wchan').read_text()}"
    except OSError:
        return "gone"


def main(descriptor: int) -> None:
    """Start the kernel, await the word, drive it, and end it."""
    parent = Connection(descriptor)
    kind, folder = parent.recv()
    driven = Driven(parent, kind, Path(folder))
    try:
        parent.send(("up",))
        while (word := parent.recv()) not in {("go",), ("end",)}:
            driven.acts.append(word[1:])
        if word == ("go",):
            driven.drive()
        while not driven.ended and word != ("end",):
            driven.listen(1.0)
    finally:
        driven.close()


if __name__ == "__main__":
    main(int(sys.argv[1]))
