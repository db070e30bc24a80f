"""Floods a client that stalls, or shares the machine with busy processes, and counts what gets there."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sentinel_kernel.kernel.publisher import LIVE_BYTES, QUEUE_MESSAGES

if TYPE_CHECKING:
    from collections.abc import Iterator

DISPLAY_BYTES = 4000

BUDGET_BYTES = LIVE_BYTES + QUEUE_MESSAGES * 64 * 1024 + 64 * 1024 * 1024
"""What the host may use with one client: large frames, its queue of small messages, and the process itself."""

_QUIET_MS = 5000
"""Behind the reply, without a message for so long: what is missing now is lost."""

_REPLY_SECONDS = 240

_CELL = (
    "from IPython.display import display\n_text = 'x' * {size}\n"
    "for _i in range({count}):\n"
    "    display({{'text/plain': f'{{_i}} {{_text}}'}}, raw=True)"
)


@dataclass(frozen=True)
class Flood:
    """What became of one flood."""

    lost: int
    in_order: bool
    idle_last: bool
    seconds: float
    peak_bytes: int
    """The most memory that the process the server started (ours: the host) had in use so far."""


def flood(client: Any, pid: int, count: int, stall_seconds: float) -> Flood:
    """Have a cell make ``count`` displays; the client reads none of them for ``stall_seconds`` after the first."""
    message_id = client.execute(_CELL.format(size=DISPLAY_BYTES, count=count), store_history=False)
    iopub, shell = client.iopub_channel.socket, client.shell_channel.socket
    started = time.perf_counter()
    numbers: list[int] = []
    after_idle = idle = False
    stalled = not stall_seconds
    while not idle or iopub.poll(0):
        if not iopub.poll(_QUIET_MS):
            if shell.poll(0):
                break
            if time.perf_counter() - started > _REPLY_SECONDS:
                raise AssertionError("the flood does not end")
            continue
        frames = iopub.recv_multipart()
        if message_id.encode() not in frames[-3]:
            continue
        after_idle |= idle
        header, content = json.loads(frames[-4]), frames[-1]
        if header["msg_type"] == "display_data":
            numbers.append(int(json.loads(content)["data"]["text/plain"].partition(" ")[0]))
            if not stalled:
                stalled = True
                time.sleep(stall_seconds)  # the stall itself
        elif header["msg_type"] == "status" and b'"idle"' in content:
            idle = True
    taken = time.perf_counter() - started
    while client.get_shell_msg(timeout=_REPLY_SECONDS)["parent_header"].get("msg_id") != message_id:
        pass
    return Flood(
        lost=count - len(set(numbers)),
        in_order=numbers == sorted(numbers),
        idle_last=idle and not after_idle,
        seconds=taken,
        peak_bytes=peak_bytes(pid),
    )


def peak_bytes(pid: int) -> int:
    """Return the most memory that a process has had in use."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:"))


@contextlib.contextmanager
def burners(count: int) -> Iterator[None]:
    """Keep the machine busy with ``count`` processes."""
    busy = [subprocess.Popen([sys.executable, "-S", "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for process in busy:
            process.kill()
            process.wait()
