"""Kernels of a chaos run: bystanders, honest and hostile ones, each driven by a thread that knows what must come."""

from __future__ import annotations

import contextlib
import os
import queue
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jupyter_client.manager import KernelManager
from live_kernel import kernelspecs

if TYPE_CHECKING:
    from collections.abc import Callable

BYSTANDER, HONEST, HOSTILE = "bystander", "honest", "hostile"
ANSWER_SECONDS = 120.0
"""Every cell is answered by then, whatever happens to its kernel."""

HOSTILE_CELLS = (
    "import os; os.kill(-1, 9)",
    "import os; os._exit(3)",
    "import ctypes; ctypes.string_at(0)",
    "import os\nfor fd in range(3, 64):\n    try: os.write(fd, b'\\xff' * 4096)\n    except OSError: pass",
    "import socket\nfor _ in range(5000):\n    try: socket.socket(socket.AF_PACKET)\n    except OSError: pass",
    "for _ in range(200): print('x' * 50_000)",
    (
        "from IPython.display import publish_display_data as show\n"
        "show({'a/b+json': float('inf')}); show({'text/plain': 5}); show({'application/javascript': 'x'})"
    ),
    (
        "k = get_ipython().kernel\nfor kind in ('status', 'shutdown_reply', 'execute_reply', 'iopub_welcome', 'x'):\n"
        "    k.session.send(k.iopub_socket, kind, {'execution_state': 'dead'}, parent={'msg_id': 'x', 'session': 1})"
    ),
    "held = []\ntry:\n    while True: held.append(bytearray(1 << 28))\nexcept MemoryError: held.clear()",
    "import os\nfor _ in range(40):\n    if os.fork() == 0:\n        import time; time.sleep(60); os._exit(0)",
    "with open('/tmp/full', 'wb') as file:\n    for _ in range(4000): file.write(bytes(1 << 20))",
    "import os, signal\nfor number in range(1, 65):\n    try: os.kill(1, number)\n    except OSError: pass",
    (
        "import array, socket\na, b = socket.socketpair()\nfor fd in range(3, 40):\n"
        "    try: socket.socket(fileno=os.dup(fd)).sendmsg([b'x'], [(1, 1, array.array('i', [a.fileno()] * 8))])\n"
        "    except OSError: pass"
    ),
    "raise KeyError('\\ud800' * 1000)",
    "import faulthandler; faulthandler.dump_traceback(all_threads=True)\n1/0",
)


def children(pid: int) -> list[int]:
    """Return the living children of a process."""
    found: list[int] = []
    for task in os.listdir(f"/proc/{pid}/task"):
        found += map(int, Path(f"/proc/{pid}/task/{task}/children").read_text().split())
    return found


def roles(host: int) -> dict[str, int]:
    """Return role -> process of a kernel, of those that exist now."""
    found = {"host": host}
    with contextlib.suppress(OSError, IndexError, KeyError, StopIteration):
        found["supervisor"] = next(pid for pid in children(host) if _is_supervisor(pid))
        for pid in children(found["supervisor"]):
            if not _is_supervisor(pid):
                found.setdefault("init", pid)
            else:
                found["files" if _has_history(pid) else "audit"] = pid
        found["worker"] = children(found["init"])[0]
    return found


def _is_supervisor(pid: int) -> bool:
    return b"supervisor" in Path(f"/proc/{pid}/cmdline").read_bytes()


def _has_history(pid: int) -> bool:
    for name in os.listdir(f"/proc/{pid}/fd"):
        with contextlib.suppress(OSError):
            if os.readlink(f"/proc/{pid}/fd/{name}").endswith("/history"):
                return True
    return False


class Driven:
    """One kernel and the thread that runs cells in it until ``ended``. ``wrong`` gets what must not be."""

    def __init__(self, number: int, kind: str, folder: Path, wrong: list[str]) -> None:
        self.number, self.kind, self.folder = number, kind, folder
        self.wrong = wrong
        self.ended = threading.Event()
        self.disturbed = threading.Event()
        """Something was done to this kernel since its last cell: its variables may be gone."""
        self.acts: list[tuple[float, str]] = []
        """When something was done to it, and what."""
        self.cells = self.deaths = self.restarts = self.total = 0
        self.took: list[tuple[float, float]] = []
        """When each cell ended, and how long it took, in seconds."""
        self.work = folder / "work"
        self.work.mkdir(parents=True)
        self.manager = KernelManager(kernel_name="sentinel", kernel_spec_manager=kernelspecs(folder))
        self.manager.connection_file = str(folder / "kernel.json")
        self.manager.transport, self.manager.ip = (
            "ipc",
            str(folder / "k"),
        )  # no port that another one takes first
        self.log = (folder / "kernel.log").open("wb")
        profile = "strict" if kind == HOSTILE else "datascience"
        environment = {**os.environ, "SENTINEL_LANG": "en", "SENTINEL_PROFILE": profile}
        self.manager.start_kernel(cwd=str(self.work), env=environment, stderr=self.log, stdout=self.log)
        try:
            self._connect()
        except RuntimeError as error:
            raise RuntimeError((folder / "kernel.log").read_text(errors="replace")[-2000:]) from error
        self.thread = threading.Thread(target=self._drive, name=f"kernel {number}")

    def _connect(self) -> None:
        self.client = self.manager.client()
        self.client.start_channels()
        self.client.wait_for_ready(timeout=ANSWER_SECONDS)

    @property
    def host(self) -> int:
        """Return the process id of the host."""
        provisioner = self.manager.provisioner
        return int(provisioner.pid) if provisioner is not None else -1

    def _drive(self) -> None:
        step: Callable[[], None] = self._hostile if self.kind == HOSTILE else self._honest
        while not self.ended.is_set():
            try:
                step()
            except ConnectionError:
                self._restart()
            except Exception as fault:  # noqa: BLE001 - it is what the run is to show
                self._tell(repr(fault))
                return
            self.cells += 1
            self.ended.wait(0.02)

    def _tell(self, what: str) -> None:
        """Take note of what is wrong, with what was done before and what the kernel said."""
        now = time.monotonic()
        acts = ", ".join(f"{act} {now - at:.1f} s before" for at, act in self.acts[-6:])
        said = (self.folder / "kernel.log").read_text(errors="replace")[-1500:]
        there = roles(self.host)
        self.wrong.append(
            f"kernel {self.number} ({self.kind}): {what}; {acts or 'nothing was done'}; {there}; {said}"
        )

    def _restart(self) -> None:
        """Do as a server does where the host has died."""
        self.restarts += 1
        if not self.disturbed.is_set() and self.kind != HOSTILE:
            self._tell("its host ended by itself")
        self.client.stop_channels()
        self.manager.restart_kernel(now=True)
        self._connect()
        self.disturbed.set()

    def _ask(self, code: str) -> tuple[dict[str, Any], str]:
        """Run a cell; return its reply's content and what it printed. Raises ConnectionError where the host is gone."""
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
        self.took.append((time.monotonic(), time.monotonic() - began))
        return reply, printed

    def _honest(self) -> None:
        """Count on in a variable and in a file: neither may lose a step that nobody's act explains."""
        disturbed = self.disturbed.is_set()
        self.disturbed.clear()
        code = (
            "total = globals().get('total', 0) + 1\nwith open('count.csv', 'w') as file: file.write(str(total))\n"
            "print(total, sum(range(1000)))"
        )
        try:
            reply, printed = self._ask(code)
        except ConnectionError:
            if disturbed:
                self.disturbed.set()
            raise
        disturbed |= self.disturbed.is_set()
        if reply["status"] == "ok":
            now = int(printed.split()[0])
            if now != self.total + 1 and not (disturbed and now == 1):
                self._tell(f"{now} follows {self.total}")
            self.total = now
        else:
            self.deaths += 1
            if not disturbed:
                self._tell(f"{reply.get('ename')} {reply.get('evalue')}")
            self.disturbed.set()

    def _hostile(self) -> None:
        reply, _ = self._ask(HOSTILE_CELLS[self.cells % len(HOSTILE_CELLS)])
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
            self.wrong.append(f"kernel {self.number} ({self.kind}) said: {said[-3000:]}")
        if self.kind == BYSTANDER and self.total:
            written = (self.work / "count.csv").read_text()
            if written != str(self.total):
                self.wrong.append(f"kernel {self.number}: its file has {written}, not {self.total}")
