"""What refusals cost: how soon a person sees one, what a flood of them does, and cells that have none."""

from __future__ import annotations

import os
import statistics
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from figures import Result, in_turn, judged, median_ratio
from kernels import REPLY_SECONDS, LiveKernel, close_all
from latency import OURS

if TYPE_CHECKING:
    from collections.abc import Iterator

_VIOLATION = "application/vnd.sentinel.violation+json"
_CELLS = 100
_DISPLAY_MS = 15
_REFUSED = (
    "import socket, time\nat = time.monotonic_ns()\ntry:\n    socket.socket()\nexcept OSError:\n    pass"
)
_FLOOD = 100_000
_FLOODING = (
    f"import socket\nfor _ in range({_FLOOD}):\n    try:\n        socket.socket()\n"
    "    except OSError:\n        pass"
)
_ANSWER_MS = 200
_GROWTH_MB = 16
_BLOCKS, _BLOCK_CELLS = 40, 20
_PLAIN = """
import math, json
values = [math.sqrt(number) for number in range(100)]
names = {str(number): value for number, value in enumerate(values)}
def longest(words):
    return max(words, key=len, default='')
with open('/tmp/plain.json', 'w') as file:
    json.dump(names, file)
with open('/tmp/plain.json') as file:
    again = json.load(file)
assert again.keys() == names.keys()
print(longest(names), sum(values))
"""


def bench_refusals(folder: Path) -> list[Result]:
    """The refused call to the display at the client; the first one apart: it loads what the words need."""
    with LiveKernel(OURS, folder) as kernel:
        taken = [_to_display(kernel) for _ in range(_CELLS + 1)]
        flood = _flood(kernel)
    return [
        judged("refusal_to_display_p50", statistics.median(taken[1:]), "ms", None, value_at_most=_DISPLAY_MS),
        judged("first_refusal_to_display", taken[0], "ms", None),
        *flood,
    ]


def _to_display(kernel: LiveKernel) -> float:
    """Return the milliseconds from just before a refused call to its display; both clocks are the machine's."""
    message_id = kernel.client.execute(_REFUSED, store_history=False, user_expressions={"at": "at"})
    seen = 0
    for message, received in _published(kernel, message_id):
        if message["msg_type"] == "display_data" and _VIOLATION in message["content"]["data"] and not seen:
            seen = received
    content = kernel.reply(message_id)["content"]
    at = int(content["user_expressions"]["at"]["data"]["text/plain"])
    if not seen:
        raise AssertionError("a refusal was not shown")
    return (seen - at) / 1e6


def _published(kernel: LiveKernel, message_id: str) -> Iterator[tuple[dict[str, Any], int]]:
    """Yield what is published about a cell, up to its idle, and when it was received."""
    while True:
        message = kernel.client.iopub_channel.get_msg(timeout=REPLY_SECONDS)
        received = time.monotonic_ns()
        if message["parent_header"].get("msg_id") != message_id:
            continue
        yield message, received
        if message["content"].get("execution_state") == "idle":
            return


def _flood(kernel: LiveKernel) -> list[Result]:
    """Ask who is there on control, again and again, while a cell is refused without end; count and measure."""
    statm = Path(f"/proc/{kernel.tree.pids[0]}/statm")
    before = int(statm.read_text().split()[1])
    started = time.perf_counter()
    message_id = kernel.client.execute(_FLOODING, store_history=False)
    answers = []
    while not kernel.client.shell_channel.socket.poll(0):
        answers.append(kernel.ask("kernel_info_request", "control") * 1000)
        time.sleep(0.05)
    kernel.reply(message_id)
    seconds = time.perf_counter() - started
    shown = [message for message, _ in _published(kernel, message_id) if "data" in message["content"]]
    displays = [message for message in shown if message["msg_type"] == "display_data"]
    count = shown[-1]["content"]["data"][_VIOLATION]["count"]
    if (len(displays), count) != (1, _FLOOD):
        raise AssertionError(f"{len(displays)} displays, and a count of {count} for {_FLOOD} refusals")
    growth = (int(statm.read_text().split()[1]) - before) * os.sysconf("SC_PAGE_SIZE") / 1e6
    note = f"{_FLOOD} refusals in one cell, one display with that count; {len(answers)} answers"
    return [
        judged("refusal_flood_answer", max(answers), "ms", None, value_at_most=_ANSWER_MS, note=note),
        judged("refusal_flood_growth", growth, "MB", None, value_at_most=_GROWTH_MB),
        judged("refusal_flood_each", seconds / _FLOOD * 1e6, "us", None),
    ]


def bench_preflight(folder: Path) -> list[Result]:
    """An ordinary cell without refusals, with preflight and without."""
    kernels: dict[str, LiveKernel] = {}
    try:
        for mode in ("advise", "off"):
            os.environ["SENTINEL_PREFLIGHT"] = mode
            kernels[mode] = LiveKernel(OURS, folder)
    finally:
        os.environ.pop("SENTINEL_PREFLIGHT", None)

    def block(mode: str) -> float:
        return statistics.median(kernels[mode].round_trip(_PLAIN) for _ in range(_BLOCK_CELLS))

    try:
        for kernel in kernels.values():
            for _ in range(50):
                kernel.round_trip(_PLAIN)
        found = in_turn({mode: lambda mode=mode: block(mode) for mode in kernels}, _BLOCKS)
    finally:
        close_all(kernels.values())
    return [
        judged(
            "preflight_reply_p50",
            statistics.median(found["advise"]) * 1000,
            "ms",
            statistics.median(found["off"]) * 1000,
            ratio=median_ratio(found["advise"], found["off"]),
            ratio_at_most=1.02,
            note="beside a kernel with preflight off, not ipykernel",
        )
    ]
